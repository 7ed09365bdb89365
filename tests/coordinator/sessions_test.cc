#include "coordinator/sessions.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace baton::coordinator {
namespace {

using ::baton::testing::Fails;
using ::baton::testing::IsOk;
using engine::TokenId;
using Ids = std::vector<TokenId>;

absl::StatusOr<Ids> Tokenize(const TextPrompt& text) {
  return Ids(text.text.begin(), text.text.end());
}

absl::StatusOr<GenerationRequest> Next(const Dialogue& before,
                                       decltype(GenerationRequest::prompt) prompt) {
  GenerationRequest request;
  request.session = "s";
  request.prompt = std::move(prompt);
  return NextTurn(before, std::move(request), Tokenize);
}

TEST(SessionsTest, ThereAreOnlySoManyAndEachHasOneTurnAtATime) {
  Sessions sessions({}, nullptr, nullptr, nullptr);
  for (int i = 0; i < 1024; ++i) ASSERT_THAT(sessions.Begin(fmt::format("s{}", i)), IsOk());
  EXPECT_THAT(sessions.Begin("another"),
              Fails(absl::StatusCode::kResourceExhausted, "there are 1024 already"));
  EXPECT_THAT(sessions.Begin("s7"),
              Fails(absl::StatusCode::kFailedPrecondition, "a turn of it is not over yet"));
  sessions.End("s7", std::nullopt);  // it came to nothing
  EXPECT_THAT(sessions.Begin("another"), IsOk());
  EXPECT_EQ(sessions.List().size(), 1024u);
}

TEST(NextTurnTest, TokensAndTextFollowWhatWasSaid) {
  const Dialogue before{.tokens = {1, 2, 3}, .messages_json = {}};
  const auto tokens = Next(before, TokenPrompt{{4, 5}});
  ASSERT_THAT(tokens, IsOk());
  EXPECT_EQ(std::get<TokenPrompt>(tokens->prompt).ids, (Ids{1, 2, 3, 4, 5}));
  EXPECT_EQ(tokens->session, "") << "it is not to be looked up again";
  const auto text = Next(before, TextPrompt{"AB", false});
  ASSERT_THAT(text, IsOk());
  EXPECT_EQ(std::get<TokenPrompt>(text->prompt).ids, (Ids{1, 2, 3, 'A', 'B'}));
  // The first text is tokenized as any other is, with BOS where the model says so.
  const auto first = Next({}, TextPrompt{"AB", false});
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(std::get<TextPrompt>(first->prompt).text, "AB");
}

TEST(NextTurnTest, MessagesAreAddedToThoseBefore) {
  const std::string hello = R"([{"role":"user","content":"Hi"}])";
  const auto first = Next({}, ChatPrompt{hello, "", ""});
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(std::get<ChatPrompt>(first->prompt).messages_json, hello);
  const Dialogue after = AfterTurn(*first, {1, 2}, "Hello \"you\"");
  EXPECT_EQ(after.tokens, (Ids{1, 2}));
  const auto second = Next(after, ChatPrompt{R"([{"role":"user","content":"Bye"}])", "", ""});
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(std::get<ChatPrompt>(second->prompt).messages_json,
            R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello \"you\""},)"
            R"({"role":"user","content":"Bye"}])");
}

TEST(NextTurnTest, RefusesWhatDoesNotGoTogether) {
  const Dialogue text{.tokens = {1}, .messages_json = {}};
  EXPECT_THAT(Next(text, ChatPrompt{"[]", "", ""}),
              Fails(absl::StatusCode::kInvalidArgument, "made of text"));
  const Dialogue chat{.tokens = {1}, .messages_json = "[]"};
  EXPECT_THAT(Next(chat, ChatPrompt{"{}", "", ""}),
              Fails(absl::StatusCode::kInvalidArgument, "expected an array"));
  EXPECT_THAT(Next(chat, ChatPrompt{"[", "", ""}),
              Fails(absl::StatusCode::kInvalidArgument, "messages"));
}

TEST(NextTurnTest, TextAfterAChatMakesItText) {
  const Dialogue chat{.tokens = {1}, .messages_json = "[]"};
  const auto turn = Next(chat, TokenPrompt{{2}});
  ASSERT_THAT(turn, IsOk());
  EXPECT_EQ(AfterTurn(*turn, {1, 2, 3}, "x").messages_json, "");
}

}  // namespace
}  // namespace baton::coordinator
