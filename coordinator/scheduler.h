// Which rows go into the next micro-batch: continuous batching over the stages of a pipeline.
//
// A plain state machine without threads or clock of its own: the pipeline asks for micro-batches
// and tells what became of them; tests drive it step by step. Sequences in decode are divided into
// as many groups as there are stages, which follow each other; prompts are cut into chunks that
// travel with them. Results do not depend on any of this (one answer). Owner: the pipeline; one
// thread.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "coordinator/kv_blocks.h"
#include "coordinator/prefix_cache.h"
#include "coordinator/sequence.h"
#include "coordinator/step_times.h"
#include "engine/runtime/micro_batch.h"

namespace baton::coordinator {

struct SchedulerOptions {
  int32_t num_stages = 1;
  int32_t vocab_size = 0;
  int32_t context_length = 0;  // positions a sequence may have
  int32_t num_kv_blocks = 0;   // at least those of one full context
  int32_t max_rows = 512;      // of a micro-batch
  int32_t max_sequences = 8;   // at once
  int32_t max_waiting = 1024;
  int32_t chunk_rows = 0;  // prompt rows of a micro-batch; 0: chosen from what is measured
  bool prefix_cache = true;
  bool speculation = true;
};

// Counts since the start, and what there is now.
struct SchedulerStats {
  int32_t running = 0;
  int32_t waiting = 0;
  int32_t kv_blocks_total = 0;
  int32_t kv_blocks_used = 0;    // by sequences
  int32_t kv_blocks_cached = 0;  // in the prefix cache
  uint64_t requests = 0;
  uint64_t finished = 0;
  uint64_t cancelled = 0;
  uint64_t failed = 0;
  uint64_t prompt_tokens = 0;  // computed
  uint64_t cached_tokens = 0;  // of prompts, that needed no work
  uint64_t new_tokens = 0;
  uint64_t micro_batches = 0;
  uint64_t preemptions = 0;
  uint64_t restarts = 0;
  uint64_t replayed_tokens = 0;  // computed again, by the stages that had lost them
  uint64_t drafted_tokens = 0;   // guessed by prompt lookup
  uint64_t accepted_tokens = 0;  // ... and right
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);

  // ResourceExhausted when the queue is full; the observer then hears nothing.
  absl::Status Add(SequenceRequest request);
  // Ends a sequence with `why`; false: there is none of that id (any more).
  bool Cancel(uint64_t id, const absl::Status& why);
  void CancelAll(const absl::Status& why);
  // Ends what is past its deadline.
  void Expire(absl::Time now);
  absl::Time NextDeadline() const;

  // The next micro-batch, with its id set; null: nothing can be done now.
  std::shared_ptr<engine::MicroBatch> Next();
  // Results of a micro-batch that is on its way. Internal where they do not belong to its rows.
  absl::Status OnResults(uint64_t batch_id, std::span<const engine::RowResult> results);
  // Lets observers send on what they have heard; after the micro-batches that Next gives.
  void Deliver();
  // A stage could not do it. Sequences that were in such a micro-batch twice end with `status`.
  // Restart must follow.
  void OnFailure(uint64_t batch_id, const absl::Status& status);
  void OnTimed(uint64_t batch_id, int32_t stage, double compute_us);
  static constexpr int32_t kAllLayers = std::numeric_limits<int32_t>::max();
  // Nothing is on its way any more, and the stages that have layers before `lost_layers` may have
  // lost their KV: sequences are replayed from their tokens. Later stages still hold what they have
  // computed, so a replay goes only up to there, for the positions whose rows came back: stages
  // work in order, so with a result all that was sent before it is done, too. Whatever else was on
  // its way is sent again and written over.
  void Restart(int32_t num_stages, int32_t lost_layers = kAllLayers);

  // Sessions: blocks of these tokens are given up last, until the same name is kept with others or
  // with none.
  void Keep(const std::string& name, std::span<const engine::TokenId> tokens);
  // For reading blocks: those of the longest known prefix, full ones, with a reference each.
  std::vector<int32_t> BorrowKnown(std::span<const engine::TokenId> tokens);
  // For writing: as many new ones, or nothing.
  std::vector<int32_t> BorrowFree(int32_t count);
  // Gives borrowed blocks back. `tokens`: what they hold now; empty: nothing of use.
  void GiveBack(std::span<const int32_t> blocks, std::span<const engine::TokenId> tokens);
  // Of the newest micro-batch, and of the oldest that is on its way.
  uint64_t last_batch_id() const { return last_batch_id_; }
  uint64_t oldest_in_flight() const {
    return in_flight_.empty() ? last_batch_id_ + 1 : in_flight_.begin()->first;
  }

  bool idle() const { return sequences_.empty(); }
  int32_t in_flight() const { return static_cast<int32_t>(in_flight_.size()); }
  const StepTimes& step_times() const { return step_times_; }
  SchedulerStats stats() const;

 private:
  // A sequence's rows in a micro-batch.
  struct Part {
    uint64_t sequence_id = 0;
    int32_t first_row = 0;
    int32_t first_position = 0;
    int32_t num_rows = 0;
    uint32_t life = 0;  // of the sequence then
  };
  struct InFlight {
    std::shared_ptr<const engine::MicroBatch> batch;
    std::vector<Part> parts;
  };
  struct Builder {
    std::shared_ptr<engine::MicroBatch> batch;
    std::vector<Part> parts = {};
    BatchRows rows = {};
    std::set<const Sequence*> stuck = {};  // got no block
  };
  // Best first: priority, then the turn of its client, then age.
  struct Before {
    bool operator()(const Sequence* a, const Sequence* b) const {
      if (a->request.priority != b->request.priority) {
        return a->request.priority > b->request.priority;
      }
      return a->turn != b->turn ? a->turn < b->turn : a->arrival < b->arrival;
    }
  };
  using Queue = std::set<Sequence*, Before>;

  uint64_t TakeTurn(uint64_t client);
  void Admit();
  bool HasRoomFor(const Sequence& sequence) const;
  void Preempt(Sequence* sequence);
  void AddSuspect(Builder* builder);
  void AddReplayRows(Builder* builder);
  void SkipReplayed(Sequence* sequence) const;
  void AddDecodeRows(Builder* builder);
  void AddPromptRows(Builder* builder);
  int32_t PromptRows(const Builder& builder) const;
  Sequence* NextPrompt(const Builder& builder) const;
  // Adds up to `rows` of the sequence's next rows, as many as there are blocks for.
  int32_t AddRows(Sequence* sequence, int32_t rows, Builder* builder);
  void AddOutput(const Sequence& sequence, int32_t position, Builder* builder);
  void MakeDraft(Sequence* sequence, int32_t rows_left) const;
  bool EnsureBlocks(Sequence* sequence, int32_t positions, const Builder& builder);
  bool FreeOneBlock(const Sequence& sequence, const Builder& builder);
  void NoteComputed(const Part& part);
  void ApplyResults(const Part& part, std::span<const engine::RowResult> results);
  bool ApplyResult(Sequence* sequence, int32_t position, const engine::RowResult& result);
  void End(Sequence* sequence, EndReason reason, const absl::Status& status);
  void ReleaseBlocks(Sequence* sequence);
  void KeepBlocks(Sequence* sequence, int32_t lost_layers);
  bool IsDecoding(const Sequence& sequence) const;
  bool InBatch(const Sequence& sequence, const Builder& builder) const;

  SchedulerOptions options_;
  BlockPool pool_;
  PrefixCache cache_;
  StepTimes step_times_;
  std::unordered_map<uint64_t, std::unique_ptr<Sequence>> sequences_;
  Queue waiting_;
  Queue admitted_;
  std::map<std::string, PrefixCache::Ticket> kept_;  // by session
  std::multiset<absl::Time> deadlines_;
  std::map<uint64_t, InFlight> in_flight_;
  std::vector<std::shared_ptr<SequenceObserver>> undelivered_;  // have heard of results
  std::vector<bool> stale_;  // [num_kv_blocks]: to be replayed, of those that sequences have kept
  bool replayed_last_ = false;                         // by the newest micro-batch
  std::deque<std::pair<uint64_t, BatchRows>> recent_;  // compositions, for timings that come late
  uint64_t last_batch_id_ = 0;
  uint64_t last_arrival_ = 0;
  uint64_t turn_ = 0;                                  // whose it is
  std::unordered_map<uint64_t, uint64_t> last_turns_;  // that clients have taken
  SchedulerStats stats_;
};

}  // namespace baton::coordinator
