// One request as the scheduler sees it: token ids in, results out. Text is somebody else's affair
// (generation.h).
//
// A sequence is all that is needed to do its work again from nothing: after a loss it is replayed
// from its tokens. Owner: the scheduler; one thread.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "coordinator/answer_grammar.h"
#include "coordinator/prompt_lookup.h"
#include "engine/base/status.h"
#include "engine/base/token_id.h"
#include "engine/runtime/micro_batch.h"
#include "engine/sampling/sampling_params.h"

namespace baton::coordinator {

enum class EndReason : uint8_t {
  kStopped,  // the observer wanted no more
  kLength,   // max_new_tokens, or the context is full
  kError,    // see the status
};

// Hears of one sequence. Called on the pipeline's thread; must not block.
class SequenceObserver {
 public:
  virtual ~SequenceObserver() = default;
  // The first rows are on their way; `cached_tokens` of the prompt needed no work. Again after a
  // loss.
  virtual void OnStarted(int32_t /*cached_tokens*/) {}
  // The output of `position`, in order. False: wants no more.
  virtual bool OnResult(int32_t position, const engine::RowResult& result) = 0;
  // After OnResult, once the next micro-batch is on its way: what was heard may be sent on, which
  // takes time that the stages would have waited.
  virtual void Deliver() {}
  virtual void OnEnd(EndReason reason, const absl::Status& status) = 0;  // last call
};

struct SequenceRequest {
  uint64_t id = 0;
  std::vector<engine::TokenId> tokens;  // the prompt, and what is known of the answer
  int32_t num_answered = 0;             // of tokens: the last ones are of the answer already
  engine::OutputKind kind = engine::OutputKind::kSample;
  int32_t first_output =
      0;  // position of the first row whose output is wanted; kSample: the last one of the prompt
  int32_t max_new_tokens = 0;        // kSample
  engine::TokenId final_target = 0;  // kScore: the token after the last
  engine::SamplingParams sampling;
  int32_t priority = 0;  // higher first
  uint64_t client = 0;   // equal for requests of one client
  absl::Time deadline = absl::InfiniteFuture();
  bool speculation = true;
  std::shared_ptr<AnswerGrammar> grammar;  // kSample: null, any answer; has accepted what is known
  std::shared_ptr<SequenceObserver> observer;
};

struct Sequence {
  SequenceRequest request;
  int32_t prompt_length = 0;
  uint64_t turn = 0;  // order among equal priorities, before arrival
  uint64_t arrival = 0;

  std::vector<engine::TokenId> tokens;  // known so far
  std::vector<int32_t> kv_blocks;       // hold one reference each
  int32_t submitted = 0;                // positions whose rows are on their way or done
  int32_t computed = 0;                 // positions whose rows are known to be done, on all stages
  int32_t lost_layers = 0;              // layers before this one may lack KV of computed positions
  int32_t replayed = 0;                 // computed positions whose KV is there again, or on its way
  uint32_t life = 0;                    // how often it has got blocks
  int32_t next_output = 0;              // position whose result is the next to come
  int32_t awaited = 0;                  // results on their way
  int32_t failures = 0;                 // micro-batches with it that a stage could not do
  std::vector<engine::TokenId> draft;   // guesses for the tokens after the known ones, on their way
  DraftPolicy draft_policy;
  bool admitted = false;    // has blocks and takes part
  uint64_t last_batch = 0;  // id of the micro-batch with its latest rows

  int32_t known() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_new() const { return known() - prompt_length; }
  bool samples() const { return request.kind == engine::OutputKind::kSample; }
  int32_t remaining() const { return known() - submitted; }
  bool replays() const { return lost_layers > 0 && replayed < computed; }
};

}  // namespace baton::coordinator
