// What a client asks for and what it gets, without any transport: the values between the services
// (gRPC, HTTP, the CLI's own process) and LlmService.
#pragma once

#include <absl/time/time.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/arch/layer_range.h"
#include "engine/base/status.h"
#include "engine/base/token_id.h"
#include "engine/runtime/micro_batch.h"
#include "engine/sampling/sampling_params.h"

namespace baton::coordinator {

// Tokenized as it is, BOS where the model says so.
struct TextPrompt {
  std::string text;
  bool parse_special = false;
};
struct TokenPrompt {
  std::vector<engine::TokenId> ids;  // fed as they are
};
// JSON as OpenAI's API has it; through the model's chat template. Empty: absent.
struct ChatPrompt {
  std::string messages_json;
  std::string tools_json;
  std::string template_args_json;  // further values for the template
};

struct GenerationRequest {
  std::variant<TextPrompt, TokenPrompt, ChatPrompt> prompt;
  engine::SamplingParams sampling;
  bool has_seed = false;              // else one is drawn
  std::optional<int32_t> max_tokens;  // absent: until the context is full
  std::vector<std::string> stop;
  bool ignore_eos = false;
  int32_t priority = 0;  // higher first
  absl::Time deadline = absl::InfiniteFuture();
  std::optional<bool> speculation;
  std::string grammar_json_schema;  // empty: none; "{}": any JSON
  std::string session;              // goes on with it, and is kept under this name; empty: none
  std::string client_id;            // the client's own name of it, for traces; may be empty
  uint64_t client = 0;              // who asks, see ClientOf
};

// Equal for requests of one client: by its key, where it has one, else by its address without the
// port.
uint64_t ClientOf(std::string_view key, std::string_view address);

// What a client is told that finds the queue full or the cluster not ready.
constexpr int kComeAgainAfterMs = 1000;

enum class FinishReason : uint8_t {
  kNone,  // goes on
  kStop,
  kLength,
  kCancelled,
  kError,  // see the status
};
// As people and scripts read it: none, stop, length, cancelled, error.
std::string_view FinishReasonName(FinishReason reason);

// A conversation that is kept by name.
struct SessionInfo {
  std::string name;
  int32_t tokens = 0;
  int32_t saved_tokens = 0;   // as it was saved; 0: it was not
  int32_t blocks_tokens = 0;  // of them in KV blocks, by the command that answers with this
  std::string note = {};      // why there are fewer than could be, for people
};
enum class SessionAction : uint8_t { kList, kFork, kSave, kRestore, kRemove };
struct SessionCommand {
  SessionAction action = SessionAction::kList;
  std::string name;  // kList: all
  std::string to;    // kFork
  absl::Time deadline = absl::InfiniteFuture();
};

struct GeneratedToken {
  engine::TokenId id = engine::kNoToken;
  float logprob = 0;                      // if asked
  std::vector<engine::TokenLogprob> top;  // if asked
  std::string bytes;                      // the token's own; none of a control token
};

struct GenerationTimings {
  double load_ms = 0;
  double queue_ms = 0;
  int32_t cached_tokens = 0;   // of the prompt, that needed no work
  int32_t prefill_tokens = 0;  // computed
  double prefill_ms = 0;       // to the first token
  int32_t decode_tokens = 0;   // after the first
  double decode_ms = 0;
};

struct StageOfWorker {
  std::string worker;
  engine::LayerRange layers;
};

// A piece of an answer. Chunks of one answer may be merged (Append): nothing is lost by reading
// slowly.
struct GenerationChunk {
  std::string request_id;
  std::vector<engine::TokenId> prompt_tokens;  // first chunk only
  std::string text;  // valid UTF-8; incomplete characters and possible stop strings are held back
  std::vector<GeneratedToken> tokens;  // an end token is one of them, without text
  // Last chunk only.
  FinishReason finish = FinishReason::kNone;
  absl::Status status;
  GenerationTimings timings;
  std::vector<StageOfWorker> stages;
  std::string stop_string;  // that ended it

  bool last() const { return finish != FinishReason::kNone; }
};
void Append(GenerationChunk chunk, GenerationChunk* to);

// Called on the pipeline's thread, one chunk after another; must not block.
using GenerationSink = std::function<void(GenerationChunk)>;

// A sink for callers that wait. Any thread.
class GenerationQueue {
 public:
  void Push(GenerationChunk chunk);
  // What came since, as one chunk; nullopt: nothing in time, or the last chunk was taken already.
  std::optional<GenerationChunk> Next(absl::Time deadline = absl::InfiniteFuture());

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::optional<GenerationChunk> pending_;  // guarded by mutex_
  bool taken_last_ = false;                 // guarded by mutex_
};

struct ScoreRequest {
  std::vector<engine::TokenId> tokens;
  int32_t last = 0;     // rows wanted, from the end; 0: all
  bool logits = false;  // whole rows; else the log-probability of each next token
  absl::Time deadline = absl::InfiniteFuture();
};
// Row after row; the last chunk has `done`.
struct ScoreChunk {
  int32_t row = 0;            // position of the token that the output follows
  std::vector<float> logits;  // [vocab_size]
  float logprob = 0;          // of token row + 1
  bool done = false;
  absl::Status status;
};
using ScoreSink = std::function<void(ScoreChunk)>;

}  // namespace baton::coordinator
