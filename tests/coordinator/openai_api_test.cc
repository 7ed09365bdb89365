// Bodies of OpenAI's API to requests and back, as tables.
#include "coordinator/openai_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/sampling/grammar.h"

namespace baton::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kMessages[] = R"("messages":[{"role":"user","content":"hi"}])";

struct BadBody {
  const char* name;
  OpenAiEndpoint endpoint;
  std::string body;
  const char* message;    // the error begins so
  const char* parameter;  // in OpenAI's shape; "" is null
};

std::string Chat(const std::string& more) { return fmt::format("{{{}{}}}", kMessages, more); }

const BadBody kBadBodies[] = {
    {"NotJson", OpenAiEndpoint::kChat, "hello", "body:", "body"},
    {"NotAnObject", OpenAiEndpoint::kChat, "[]", "body:", "body"},
    {"TooDeep", OpenAiEndpoint::kChat,
     "{\"a\":" + std::string(1000, '[') + std::string(1000, ']') + "}", "body:", "body"},
    {"NoMessages", OpenAiEndpoint::kChat, "{}", "messages: got none", "messages"},
    {"EmptyMessages", OpenAiEndpoint::kChat, R"({"messages":[]})", "messages: got an empty array",
     "messages"},
    {"TemperatureAsText", OpenAiEndpoint::kChat, Chat(R"(,"temperature":"hot")"),
     "temperature: got string", "temperature"},
    {"NegativeMaxTokens", OpenAiEndpoint::kChat, Chat(R"(,"max_tokens":-5)"),
     "max_tokens: got number -5", "max_tokens"},
    {"HugeMaxTokens", OpenAiEndpoint::kChat, Chat(R"(,"max_tokens":1099511627776)"),
     "max_tokens:", "max_tokens"},
    {"FractionalMaxTokens", OpenAiEndpoint::kChat, Chat(R"(,"max_tokens":1.5)"),
     "max_tokens:", "max_tokens"},
    {"HugeUnsigned", OpenAiEndpoint::kChat, Chat(R"(,"max_tokens":18446744073709551615)"),
     "max_tokens:", "max_tokens"},
    {"NoChoices", OpenAiEndpoint::kChat, Chat(R"(,"n":0)"), "n:", "n"},
    {"ManyChoices", OpenAiEndpoint::kChat, Chat(R"(,"n":1000000)"), "n:", "n"},
    {"StopAsNumber", OpenAiEndpoint::kChat, Chat(R"(,"stop":3)"), "stop:", "stop"},
    {"BiasOfAWord", OpenAiEndpoint::kChat, Chat(R"(,"logit_bias":{"the":1})"),
     "logit_bias:", "logit_bias"},
    {"TopLogprobsAlone", OpenAiEndpoint::kChat, Chat(R"(,"top_logprobs":3)"),
     "top_logprobs:", "top_logprobs"},
    {"UnknownFormat", OpenAiEndpoint::kChat, Chat(R"(,"response_format":{"type":"xml"})"),
     "response_format:", "response_format"},
    {"SchemaWithoutMeaning", OpenAiEndpoint::kChat,
     Chat(R"(,"response_format":{"type":"json_schema","json_schema":{"schema":{"pattern":"a"}}})"),
     "response_format.json_schema: schema: #: keyword 'pattern'", "response_format.json_schema"},
    {"ContentOfPictures", OpenAiEndpoint::kChat,
     R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
     "messages[0].content[0]: got \"image_url\"", "messages[0].content[0]"},
    {"ToolsAsObject", OpenAiEndpoint::kChat, Chat(R"(,"tools":{})"), "tools: got object", "tools"},
    {"ToolWithoutFunction", OpenAiEndpoint::kChat, Chat(R"(,"tools":[{"type":"function"}])"),
     "tools[0]:", "tools[0]"},
    {"ToolWithoutName", OpenAiEndpoint::kChat,
     Chat(R"(,"tools":[{"type":"function","function":{"name":"a b"}}])"),
     "tools[0].function.name:", "tools[0].function.name"},
    {"ChoiceOfNoTool", OpenAiEndpoint::kChat, Chat(R"(,"tool_choice":"required")"),
     "tool_choice:", "tool_choice"},
    {"ChoiceOfUnknownTool", OpenAiEndpoint::kChat,
     Chat(R"(,"tools":[{"type":"function","function":{"name":"f"}}],)"
          R"("tool_choice":{"type":"function","function":{"name":"g"}})"),
     "tool_choice: g is none", "tool_choice"},
    {"NoPrompt", OpenAiEndpoint::kCompletion, "{}", "prompt:", "prompt"},
    {"PromptAsNumber", OpenAiEndpoint::kCompletion, R"({"prompt":5})", "prompt:", "prompt"},
    {"NegativeToken", OpenAiEndpoint::kCompletion, R"({"prompt":[1,-2]})", "prompt:", "prompt"},
    {"NoPrompts", OpenAiEndpoint::kCompletion, R"({"prompt":[]})", "prompt:", "prompt"},
};

class OpenAiRefuses : public ::testing::TestWithParam<BadBody> {};

TEST_P(OpenAiRefuses, NamingTheParameter) {
  const auto call = ParseOpenAiCall(GetParam().endpoint, GetParam().body);
  ASSERT_FALSE(call.ok());
  EXPECT_EQ(call.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(call.status())), StartsWith(GetParam().message));
  const OpenAiError error = ToOpenAiError(call.status());
  EXPECT_EQ(error.http_status, 400);
  EXPECT_EQ(error.body["error"]["type"], "invalid_request_error");
  EXPECT_EQ(error.body["error"]["param"], GetParam().parameter);
}

INSTANTIATE_TEST_SUITE_P(All, OpenAiRefuses, ::testing::ValuesIn(kBadBodies),
                         [](const auto& test) { return test.param.name; });

TEST(OpenAiCall, ReadsAChat) {
  const auto call = ParseOpenAiCall(
      OpenAiEndpoint::kChat,
      Chat(
          R"(,"model":"m","temperature":0,"top_p":0.5,"seed":7,"n":2,"max_tokens":5,"max_completion_tokens":3,
             "stop":["a","b"],"logit_bias":{"12":-1.5},"logprobs":true,"top_logprobs":2,"stream":true,
             "stream_options":{"include_usage":true},"user":"ignored","presence_penalty":null)"));
  ASSERT_TRUE(call.ok()) << call.status();
  ASSERT_EQ(call->requests.size(), 2u);
  const GenerationRequest& request = call->requests[0];
  EXPECT_EQ(request.sampling.temperature, 0);
  EXPECT_EQ(request.sampling.top_p, 0.5f);
  EXPECT_EQ(request.sampling.seed, 7u);
  EXPECT_EQ(call->requests[1].sampling.seed, 8u);
  EXPECT_EQ(request.max_tokens, 3);
  EXPECT_THAT(request.stop, ::testing::ElementsAre("a", "b"));
  EXPECT_THAT(request.sampling.logit_bias, ::testing::ElementsAre(std::pair(12, -1.5f)));
  EXPECT_EQ(request.sampling.top_logprobs, 2);
  EXPECT_TRUE(call->stream);
  EXPECT_TRUE(call->include_usage);
  EXPECT_EQ(std::get<ChatPrompt>(request.prompt).messages_json,
            R"([{"role":"user","content":"hi"}])");
}

std::string Messages(const std::string& body) {
  const auto call = ParseOpenAiCall(OpenAiEndpoint::kChat, body);
  EXPECT_TRUE(call.ok()) << call.status();
  return call.ok() ? std::get<ChatPrompt>(call->requests[0].prompt).messages_json : "";
}

TEST(OpenAiCall, TemplatesGetMessagesAsTheyExpectThem) {
  EXPECT_EQ(Messages(R"({"messages":[{"role":"developer","content":[{"type":"text","text":"a"},)"
                     R"({"type":"text","text":"b"}]}]})"),
            R"([{"role":"system","content":"ab"}])");
  EXPECT_EQ(Messages(R"({"messages":[{"role":"assistant","content":null,"tool_calls":[)"
                     R"({"function":{"name":"f","arguments":"{\"x\": 1}"}}]}]})"),
            R"([{"role":"assistant","content":"",)"
            R"("tool_calls":[{"function":{"name":"f","arguments":{"x":1}}}]}])");
  // Nested deeper than anybody can write down again: it stays the text that it was.
  const std::string deep =
      R"({\"a\":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  EXPECT_EQ(Messages(R"({"messages":[{"role":"assistant","content":"","tool_calls":[)"
                     R"({"function":{"arguments":")" +
                     deep + R"("}}]}]})"),
            R"([{"role":"assistant","content":"","tool_calls":[{"function":{"arguments":")" + deep +
                R"("}}]}])");
}

constexpr char kTools[] =
    R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",)"
    R"("properties":{"x":{"$ref":"#/$defs/n"}},"required":["x"],"$defs":{"n":{"type":"integer"}}}}},)"
    R"({"type":"function","function":{"name":"g"}}])";

TEST(OpenAiCall, ToolsAreOptionalUnlessDemanded) {
  struct Case {
    std::string_view choice;
    size_t tools;
    bool bound;
  };
  constexpr Case kCases[] = {
      {"", 2, false},
      {R"(,"tool_choice":"auto")", 2, false},
      {R"(,"tool_choice":"none")", 0, false},
      {R"(,"tool_choice":"required")", 2, true},
      {R"(,"tool_choice":{"type":"function","function":{"name":"g"}})", 2, true},
  };
  for (const Case& one : kCases) {
    const auto call =
        ParseOpenAiCall(OpenAiEndpoint::kChat, Chat(kTools + std::string(one.choice)));
    ASSERT_TRUE(call.ok()) << one.choice << call.status();
    EXPECT_EQ(call->tool_names.size(), one.tools) << one.choice;
    EXPECT_EQ(!call->requests[0].grammar_json_schema.empty(), one.bound) << one.choice;
  }
}

TEST(OpenAiCall, ADemandedCallKeepsTheReferencesOfItsSchema) {
  const auto call = ParseOpenAiCall(OpenAiEndpoint::kChat,
                                    Chat(std::string(kTools) + R"(,"tool_choice":"required")"));
  ASSERT_TRUE(call.ok()) << call.status();
  const auto grammar = engine::Grammar::FromJsonSchema(call->requests[0].grammar_json_schema);
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  struct Case {
    std::string_view text;
    bool fits;
  };
  constexpr Case kCases[] = {
      {R"({"name":"f","arguments":{"x":12}})", true},
      {R"({"name":"f","arguments":{"x":"12"}})", false},
      {R"({"name":"f","arguments":{}})", false},
      {R"({"name":"g","arguments":{"any":[1]}})", true},
      {R"({"name":"h","arguments":{}})", false},
  };
  for (const Case& one : kCases) {
    engine::GrammarState state(*grammar);
    EXPECT_EQ(state.Advance(one.text) && state.complete(), one.fits) << one.text;
  }
}

TEST(OpenAiCall, ReadsPromptsOfACompletion) {
  const auto call =
      ParseOpenAiCall(OpenAiEndpoint::kCompletion, R"({"prompt":["one",[1,2]],"n":2})");
  ASSERT_TRUE(call.ok()) << call.status();
  ASSERT_EQ(call->requests.size(), 4u);
  EXPECT_EQ(std::get<TextPrompt>(call->requests[1].prompt).text, "one");
  EXPECT_THAT(std::get<TokenPrompt>(call->requests[2].prompt).ids, ::testing::ElementsAre(1, 2));
  EXPECT_EQ(call->requests[0].max_tokens, 16);
}

GenerationChunk Chunk(std::string text, std::vector<engine::TokenId> ids,
                      FinishReason finish = FinishReason::kNone) {
  GenerationChunk chunk;
  chunk.text = std::move(text);
  for (const engine::TokenId id : ids) {
    chunk.tokens.push_back({.id = id, .logprob = -0.5f, .top = {{id, -0.5f}}, .bytes = chunk.text});
  }
  chunk.finish = finish;
  return chunk;
}

OpenAiAnswer MakeAnswer(const OpenAiCall& call) {
  return OpenAiAnswer(call, "id", 1, "model",
                      [](engine::TokenId id) { return "t" + std::to_string(id); });
}

TEST(OpenAiAnswer, WholeAndStreamedSayTheSame) {
  OpenAiCall call;
  call.requests.resize(2);
  OpenAiAnswer whole = MakeAnswer(call);
  call.stream = call.include_usage = true;
  OpenAiAnswer streamed = MakeAnswer(call);
  std::string events;
  const auto add = [&](size_t choice, GenerationChunk chunk) {
    if (chunk.text == "Hel") chunk.prompt_tokens = {1, 2, 3};
    EXPECT_EQ(whole.Add(choice, chunk), "");
    events += streamed.Add(choice, chunk);
  };
  add(0, Chunk("Hel", {5}));
  add(1, Chunk("Bye", {6}, FinishReason::kLength));
  EXPECT_FALSE(whole.complete());
  add(0, Chunk("lo", {7, 8}, FinishReason::kStop));
  ASSERT_TRUE(whole.complete());
  events += streamed.StreamEnd();

  const Json body = whole.Body();
  EXPECT_EQ(body["choices"][0]["message"]["content"], "Hello");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(body["usage"]["completion_tokens"], 4);

  std::string text;
  Json usage;
  for (size_t at = 0; (at = events.find("data: ", at)) != events.npos; ++at) {
    const std::string line = events.substr(at + 6, events.find('\n', at) - at - 6);
    if (line == "[DONE]") break;
    const Json event = Json::parse(line);
    if (event["choices"].empty()) {
      usage = event["usage"];
    } else if (event["choices"][0]["index"] == 0) {
      text += event["choices"][0]["delta"].value("content", "");
    }
  }
  EXPECT_EQ(text, "Hello");
  EXPECT_EQ(usage, body["usage"]);
  EXPECT_THAT(events, ::testing::EndsWith("data: [DONE]\n\n"));
}

TEST(OpenAiAnswer, CallsOfToolsWholeAndStreamed) {
  OpenAiCall call;
  call.requests.resize(1);
  call.tool_names = {"f"};
  OpenAiAnswer whole = MakeAnswer(call);
  call.stream = true;
  OpenAiAnswer streamed = MakeAnswer(call);
  std::string events;
  for (const char* piece :
       {"<tool", "_call>{\"name\": \"f\", \"argu", "ments\": {\"x\"", ": 1}}\n</tool_call>", ""}) {
    const auto finish = *piece == 0 ? FinishReason::kStop : FinishReason::kNone;
    whole.Add(0, Chunk(piece, {5}, finish));
    events += streamed.Add(0, Chunk(piece, {5}, finish));
  }
  const Json choice = whole.Body()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], nullptr);
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], R"({"x": 1})");
  EXPECT_THAT(events, HasSubstr(R"("tool_calls":[{"index":0,"id":"call_id_0_0","type":"function",)"
                                R"("function":{"name":"f","arguments":"{\"x\""}}])"));
  EXPECT_THAT(events, HasSubstr(R"("tool_calls":[{"index":0,"function":{"arguments":": 1}"}}])"));
  EXPECT_THAT(events, HasSubstr(R"("finish_reason":"tool_calls")"));
  EXPECT_THAT(events, ::testing::Not(HasSubstr("tool_call>")));
}

TEST(OpenAiAnswer, LogprobsOfBothEndpoints) {
  OpenAiCall call;
  call.requests.resize(1);
  call.logprobs = true;
  OpenAiAnswer chat = MakeAnswer(call);
  chat.Add(0, Chunk("a", {5}, FinishReason::kStop));
  const Json content = chat.Body()["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 1u);
  EXPECT_EQ(content[0]["token"], "a");
  EXPECT_EQ(content[0]["bytes"], Json::array({97}));
  EXPECT_EQ(content[0]["top_logprobs"][0]["token"], "t5");

  call.endpoint = OpenAiEndpoint::kCompletion;
  OpenAiAnswer completion = MakeAnswer(call);
  completion.Add(0, Chunk("a", {5}, FinishReason::kStop));
  const Json logprobs = completion.Body()["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json::array({"a"}));
  EXPECT_EQ(logprobs["token_logprobs"], Json::array({-0.5}));
}

TEST(OpenAiAnswer, BytesThatAreNoTextStayValidJson) {
  OpenAiCall call;
  call.requests.resize(1);
  call.logprobs = call.stream = true;
  OpenAiAnswer answer = MakeAnswer(call);
  GenerationChunk chunk;
  chunk.tokens.push_back({.id = 1, .logprob = 0, .top = {}, .bytes = "\xF0\x9F"});
  const std::string event = answer.Add(0, chunk);
  EXPECT_TRUE(Json::accept(event.substr(6)));
  EXPECT_THAT(event, HasSubstr("[240,159]"));
}

TEST(OpenAiAnswer, AnErrorInAStreamIsAnEvent) {
  OpenAiCall call;
  call.requests.resize(1);
  call.stream = true;
  OpenAiAnswer answer = MakeAnswer(call);
  answer.Add(0, Chunk("a", {5}));
  GenerationChunk chunk;
  chunk.finish = FinishReason::kError;
  chunk.status = Unavailable("worker right is lost");
  EXPECT_THAT(answer.Add(0, chunk), HasSubstr("worker right is lost"));
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace baton::coordinator
