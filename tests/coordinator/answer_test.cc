#include "coordinator/answer.h"

#include <gtest/gtest.h>

namespace baton::coordinator {
namespace {

using engine::TokenId;

constexpr TokenId kEnd = 0;

// Token i + 1 is spelled pieces[i]; token 0 ends the generation.
class PieceTokenizer : public engine::Tokenizer {
 public:
  explicit PieceTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  std::vector<TokenId> Encode(std::string_view, EncodeOptions) const override { return {}; }
  std::vector<TokenId> EncodePrompt(const engine::PromptText&) const override { return {}; }
  std::string Decode(std::span<const TokenId>, bool) const override { return {}; }
  std::string TokenBytes(TokenId id, bool) const override { return id > 0 ? pieces_[id - 1] : ""; }
  int vocab_size() const override { return static_cast<int>(pieces_.size()) + 1; }
  TokenId bos() const override { return engine::kNoToken; }
  TokenId eos() const override { return kEnd; }
  bool adds_bos() const override { return false; }
  bool IsControl(TokenId id) const override { return id == kEnd; }
  bool IsEndOfGeneration(TokenId id) const override { return id == kEnd; }
  std::string_view TokenText(TokenId) const override { return ""; }
  const std::vector<std::string>& warnings() const override { return warnings_; }

 private:
  std::vector<std::string> pieces_, warnings_;
};

struct Outcome {
  std::string text;  // all deltas
  std::vector<std::string> deltas;
  FinishReason finish = FinishReason::kNone;
  std::string stop_string;
  size_t num_tokens = 0;
  int first_chunks = 0;
};

// Emits the pieces one after another, then the end token (or the length limit).
Outcome Emit(const std::vector<std::string>& pieces, std::vector<std::string> stop,
             bool end_token = true) {
  const PieceTokenizer tokenizer(pieces);
  Outcome outcome;
  AnswerOptions options;
  options.request_id = "r";
  options.prompt = {1, 2};
  options.stop = std::move(stop);
  options.tokenizer = &tokenizer;
  options.stages = [] { return std::vector<StageOfWorker>{}; };
  options.sink = [&](GenerationChunk chunk) {
    outcome.text += chunk.text;
    if (!chunk.text.empty()) outcome.deltas.push_back(chunk.text);
    outcome.num_tokens += chunk.tokens.size();
    outcome.finish = chunk.finish;
    outcome.stop_string = chunk.stop_string;
    outcome.first_chunks += !chunk.request_id.empty();
  };
  Answer answer(options);
  answer.OnStarted(0);
  bool wants_more = true;
  for (size_t i = 0; wants_more && i < pieces.size() + (end_token ? 1 : 0); ++i) {
    engine::RowResult result;
    result.token = i < pieces.size() ? static_cast<TokenId>(i) + 1 : kEnd;
    wants_more = answer.OnResult(static_cast<int32_t>(i), result);
    EXPECT_EQ(outcome.num_tokens, i);  // not before it is told to
    if (wants_more) answer.Deliver();
  }
  answer.OnEnd(wants_more ? EndReason::kLength : EndReason::kStopped, absl::OkStatus());
  return outcome;
}

TEST(AnswerTest, StopStringsAcrossTokens) {
  const std::vector<std::string> pieces = {"UNO", " DUE", " TR", "E", "\n", "AA"};
  struct Case {
    std::vector<std::string> stop;
    std::string text, stop_string;
  };
  const Case cases[] = {
      {{}, "UNO DUE TRE\nAA", ""},
      {{"TRE\nAAAA"}, "UNO DUE TRE\nAA", ""},
      {{"E\nA"}, "UNO DUE TR", "E\nA"},
      {{"DUE", "UE"}, "UNO ", "DUE"},
      {{"UNO"}, "", "UNO"},
  };
  for (const Case& test : cases) {
    const Outcome outcome = Emit(pieces, test.stop);
    EXPECT_EQ(outcome.text, test.text);
    EXPECT_EQ(outcome.stop_string, test.stop_string);
    EXPECT_EQ(outcome.finish, FinishReason::kStop);
    EXPECT_EQ(outcome.first_chunks, 1);
  }
}

TEST(AnswerTest, CharactersAreHeldBackUntilTheyAreComplete) {
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(Emit({"\xF0\x9F", "\x98", "\xB6", "x"}, {}).deltas,
            (std::vector<std::string>{"\xF0\x9F\x98\xB6", "x"}));
  EXPECT_EQ(Emit({"a", "\xE6\xAD"}, {}).text, "a" + bad);
  EXPECT_EQ(Emit({"\xFF", "b"}, {}).text, bad + "b");
  EXPECT_EQ(Emit({"\xED\xA0\x80"}, {}).text, bad + bad + bad);
  EXPECT_EQ(Emit({"\xC0\x80"}, {}).text, bad + bad);
}

TEST(AnswerTest, EveryTokenCounts) {
  EXPECT_EQ(Emit({"a", "b"}, {}).num_tokens, 3u);
  const Outcome outcome = Emit({"a", "b"}, {}, /*end_token=*/false);
  EXPECT_EQ(outcome.num_tokens, 2u);
  EXPECT_EQ(outcome.finish, FinishReason::kLength);
}

TEST(AnswerTest, WithheldTextIsShownAtTheEnd) {
  EXPECT_EQ(Emit({"ab"}, {"bc"}, /*end_token=*/false).text, "ab");
}

TEST(AnswerTest, MergedChunksLoseNothing) {
  GenerationQueue queue;
  for (int i = 0; i < 3; ++i) {
    GenerationChunk chunk;
    chunk.text = "x";
    chunk.tokens.emplace_back();
    if (i == 0) chunk.request_id = "id";
    if (i == 2) chunk.finish = FinishReason::kStop;
    queue.Push(chunk);
  }
  const auto all = queue.Next();
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->text, "xxx");
  EXPECT_EQ(all->tokens.size(), 3u);
  EXPECT_EQ(all->request_id, "id");
  EXPECT_TRUE(all->last());
  EXPECT_FALSE(queue.Next().has_value());
}

}  // namespace
}  // namespace baton::coordinator
