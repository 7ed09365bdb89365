// OpenAI's HTTP API as values: bodies to requests, chunks of answers to bodies. No sockets, no
// threads.
//
// Reference: the published OpenAPI document of chat completions and completions. What baton does
// not know it refuses by name where it would change the answer, and ignores where it would not
// (user, metadata, store, …).
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/generation.h"
#include "coordinator/tool_calls.h"
#include "engine/base/status.h"

namespace baton::coordinator {

using Json = nlohmann::ordered_json;

enum class OpenAiEndpoint : uint8_t { kChat, kCompletion };

struct OpenAiCall {
  OpenAiEndpoint endpoint = OpenAiEndpoint::kChat;
  std::string model;                        // as asked for; empty: any
  std::vector<GenerationRequest> requests;  // one for each choice
  bool stream = false;
  bool include_usage = false;  // in a last event of the stream
  bool logprobs = false;
  bool echo = false;                    // completions only: the prompt stands before the answer
  std::vector<std::string> tool_names;  // that the answer may call
};

// InvalidArgument begins with the parameter's name: "temperature: got a string, expected a number".
absl::StatusOr<OpenAiCall> ParseOpenAiCall(OpenAiEndpoint endpoint, std::string_view body);

// A status in OpenAI's shape, and the HTTP status that goes with it.
struct OpenAiError {
  int http_status = 500;
  Json body;
};
OpenAiError ToOpenAiError(const absl::Status& status);

// Turns chunks of one call's choices into its answer: the events of a stream, or one body.
class OpenAiAnswer {
 public:
  // `spell`: the text of a token that was only a candidate.
  OpenAiAnswer(const OpenAiCall& call, std::string id, int64_t created_unix_s, std::string model,
               std::function<std::string(engine::TokenId)> spell);

  // Takes a chunk of a choice; returns what a stream sends for it (whole "data: …" events, may be
  // empty).
  std::string Add(size_t choice, const GenerationChunk& chunk);
  bool complete() const { return open_choices_ == 0; }
  // After the last chunk of all choices: the usage event if asked for, and the end mark.
  std::string StreamEnd() const;
  // The whole answer.
  Json Body() const;
  const absl::Status& status() const { return status_; }  // the first error of a choice

 private:
  struct Choice {
    explicit Choice(const std::vector<std::string>& tool_names) : reader(tool_names) {}
    ToolCallReader reader;
    std::string text;
    Json calls = Json::array();
    std::vector<GeneratedToken> tokens;
    std::string finish_reason;
    bool begun = false;
  };
  Json Frame(std::string_view object) const;
  // What a chunk adds to a choice.
  struct Said {
    std::string text;
    Json calls = Json::array();  // deltas: a call's beginning, or more of its arguments
  };
  Said Read(const GenerationChunk& chunk, size_t index);
  // Null: nothing to send.
  Json StreamChoice(size_t index, const GenerationChunk& chunk, const Said& said, bool first) const;
  Json Logprobs(const std::vector<GeneratedToken>& tokens, size_t text_offset) const;
  Json Usage() const;

  const OpenAiEndpoint endpoint_;
  const bool stream_;
  const bool include_usage_;
  const bool logprobs_;
  const std::string id_;
  const int64_t created_unix_s_;
  const std::string model_;
  const std::function<std::string(engine::TokenId)> spell_;
  std::vector<Choice> choices_;
  size_t open_choices_;
  uint64_t prompt_tokens_ = 0;
  uint64_t cached_tokens_ = 0;
  uint64_t completion_tokens_ = 0;
  absl::Status status_;
};

}  // namespace baton::coordinator
