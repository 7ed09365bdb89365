#include "coordinator/scheduler.h"

#include <algorithm>
#include <utility>

namespace baton::coordinator {

using engine::kKvBlockPositions;
using engine::MicroBatch;
using engine::OutputKind;
using engine::OutputRow;
using engine::RowResult;
using engine::SequenceRows;
using engine::TokenId;

namespace {

constexpr int32_t kMinChunkRows = 8;  // of a short prompt: its few long steps are soon over
constexpr int32_t kShortPrompt = 512;
// What a chunk beside decode rows may add to their step: the time between a stream's tokens must
// not double.
constexpr double kChunkShareOfDecode = 0.7;
constexpr int32_t kPipelinedChunkRows =
    64;  // the same, where chunks follow each other through stages
constexpr int32_t kUnmeasuredChunkRows = 64;
constexpr size_t kMaxLogitsBytes = 32 << 20;  // of whole rows of logits in a micro-batch
constexpr size_t kRepetitionWindow = 64;
constexpr int32_t kMaxFailures = 2;
constexpr size_t kRecentBatches = 64;
constexpr size_t kRememberedClients = 4096;
constexpr int32_t kMaxDraftedRows =
    16;  // of a micro-batch with guesses: more rows cost more than reading the weights

int32_t BlocksFor(int32_t positions) {
  return (positions + kKvBlockPositions - 1) / kKvBlockPositions;
}

std::vector<std::pair<TokenId, int32_t>> CountTokens(std::span<const TokenId> tokens) {
  std::map<TokenId, int32_t> counts;
  for (const TokenId token : tokens) ++counts[token];
  return {counts.begin(), counts.end()};
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options),
      pool_(options.num_kv_blocks),
      cache_(&pool_),
      step_times_(options.num_stages) {}

absl::Status Scheduler::Add(SequenceRequest request) {
  if (static_cast<int32_t>(waiting_.size()) >= options_.max_waiting) {
    return ResourceExhausted("queue: {} requests wait already, limit {}; try again later",
                             waiting_.size(), options_.max_waiting);
  }
  auto sequence = std::make_unique<Sequence>();
  sequence->turn = TakeTurn(request.client);
  sequence->arrival = ++last_arrival_;
  sequence->tokens = request.tokens;
  sequence->prompt_length = sequence->known() - request.num_answered;
  sequence->next_output =
      request.kind == OutputKind::kSample ? sequence->known() - 1 : request.first_output;
  sequence->request = std::move(request);
  deadlines_.insert(sequence->request.deadline);
  waiting_.insert(sequence.get());
  ++stats_.requests;
  const uint64_t id = sequence->request.id;
  sequences_.emplace(id, std::move(sequence));
  return absl::OkStatus();
}

// Clients take turns: who has one request waits for one of each other client, however many those
// have.
uint64_t Scheduler::TakeTurn(uint64_t client) {
  // Names of clients are what they say, so there may be any number of them.
  if (last_turns_.size() >= kRememberedClients) last_turns_.clear();
  uint64_t& last = last_turns_[client];
  last = std::max(turn_, last + 1);
  return last;
}

bool Scheduler::Cancel(uint64_t id, const absl::Status& why) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return false;
  ++(absl::IsCancelled(why) ? stats_.cancelled : stats_.failed);
  End(found->second.get(), EndReason::kError, why);
  return true;
}

void Scheduler::CancelAll(const absl::Status& why) {
  while (!sequences_.empty()) Cancel(sequences_.begin()->first, why);
}

absl::Time Scheduler::NextDeadline() const {
  return deadlines_.empty() ? absl::InfiniteFuture() : *deadlines_.begin();
}

void Scheduler::Expire(absl::Time now) {
  if (now < NextDeadline()) return;
  std::vector<uint64_t> expired;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->request.deadline <= now) expired.push_back(id);
  }
  for (const uint64_t id : expired)
    Cancel(id, DeadlineExceeded("request: its deadline has passed"));
}

bool Scheduler::IsDecoding(const Sequence& sequence) const {
  return sequence.samples() && sequence.submitted > 0 && sequence.remaining() <= 1 &&
         sequence.num_new() > 0 && !sequence.replays();
}

bool Scheduler::InBatch(const Sequence& sequence, const Builder& builder) const {
  return sequence.last_batch == builder.batch->id;
}

std::shared_ptr<MicroBatch> Scheduler::Next() {
  Admit();
  const bool decoding = std::any_of(admitted_.begin(), admitted_.end(),
                                    [&](const Sequence* s) { return IsDecoding(*s); });
  // One more than stages hides the way of a result to the coordinator and back, but would make one
  // more decode group.
  if (in_flight() >= options_.num_stages + (decoding ? 0 : 1)) return nullptr;

  Builder builder{.batch = std::make_shared<MicroBatch>()};
  builder.batch->id = last_batch_id_ + 1;
  AddSuspect(&builder);
  // In turn with those that need no replay (any more).
  if (builder.parts.empty() && !replayed_last_) AddReplayRows(&builder);
  if (builder.parts.empty()) {
    AddDecodeRows(&builder);
    AddPromptRows(&builder);
  }
  if (builder.parts.empty()) AddReplayRows(&builder);
  if (builder.parts.empty()) return nullptr;
  replayed_last_ = builder.batch->end_layer != 0;

  last_batch_id_ = builder.batch->id;
  recent_.emplace_back(last_batch_id_, builder.rows);
  if (recent_.size() > kRecentBatches) recent_.pop_front();
  in_flight_.emplace(last_batch_id_, InFlight{builder.batch, std::move(builder.parts)});
  ++stats_.micro_batches;
  return builder.batch;
}

// Fair: the head of the queue is never passed by somebody smaller behind it.
void Scheduler::Admit() {
  while (!waiting_.empty() && static_cast<int32_t>(admitted_.size()) < options_.max_sequences) {
    Sequence* sequence = *waiting_.begin();
    if (sequence->awaited > 0 || !HasRoomFor(*sequence)) return;
    waiting_.erase(waiting_.begin());
    turn_ = std::max(turn_, sequence->turn);
    sequence->admitted = true;
    ++sequence->life;
    admitted_.insert(sequence);
    // What gives an output must be computed.
    const int32_t reusable = std::min(sequence->next_output, sequence->known() - 1);
    if (options_.prefix_cache) {
      sequence->kv_blocks = cache_.Match(sequence->tokens, reusable / kKvBlockPositions);
    }
    sequence->submitted = static_cast<int32_t>(sequence->kv_blocks.size()) * kKvBlockPositions;
    const int32_t cached = std::min(sequence->submitted, sequence->prompt_length);
    stats_.cached_tokens += cached;
    sequence->request.observer->OnStarted(cached);
  }
}

bool Scheduler::HasRoomFor(const Sequence& sequence) const {
  if (admitted_.empty()) return true;
  const int32_t needed = BlocksFor(sequence.known() + 1);
  if (pool_.num_free() >= needed) return true;
  return pool_.num_free() + cache_.num_evictable() >= needed;
}

// A sequence that was in a micro-batch that failed goes alone, so that only the one whose fault it
// is fails again.
void Scheduler::AddSuspect(Builder* builder) {
  for (Sequence* sequence : admitted_) {
    if (sequence->failures == 0 || sequence->remaining() <= 0 || sequence->replays()) continue;
    const int32_t rows =
        AddRows(sequence, std::min(sequence->remaining(), PromptRows(*builder)), builder);
    builder->rows.prompt += rows;
    return;
  }
}

// Rows of one sequence: what it shares with others is replayed once, and never twice in a
// micro-batch. The one that is done first goes first.
void Scheduler::AddReplayRows(Builder* builder) {
  Sequence* next = nullptr;
  for (Sequence* sequence : admitted_) {
    SkipReplayed(sequence);
    if (!sequence->replays()) continue;
    const auto left = [](const Sequence* s) { return s->computed - s->replayed; };
    if (next == nullptr || left(sequence) < left(next)) next = sequence;
  }
  if (next == nullptr) return;
  const auto block_of = [](int32_t position) { return position / kKvBlockPositions; };
  const int32_t first = next->replayed;
  int32_t end = std::min(next->computed, first + PromptRows(*builder));
  for (int32_t i = block_of(first) + 1; i * kKvBlockPositions < end; ++i) {
    if (!stale_[next->kv_blocks[i]]) end = i * kKvBlockPositions;
  }
  MicroBatch& batch = *builder->batch;
  batch.end_layer = next->lost_layers;
  builder->parts.push_back({next->request.id, 0, first, end - first, next->life});
  batch.sequences.push_back({next->request.id,
                             first,
                             end - first,
                             {next->kv_blocks.begin(), next->kv_blocks.begin() + BlocksFor(end)}});
  batch.tokens.assign(next->tokens.begin() + first, next->tokens.begin() + end);
  builder->rows.prompt += end - first;
  stats_.replayed_tokens += end - first;
  next->replayed = end;
  next->last_batch = batch.id;
  const int32_t whole = end == next->computed ? BlocksFor(end) : block_of(end);
  for (int32_t i = block_of(first); i < whole; ++i) stale_[next->kv_blocks[i]] = false;
}

// Past blocks that another sequence has replayed.
void Scheduler::SkipReplayed(Sequence* sequence) const {
  while (sequence->replays() && sequence->replayed % kKvBlockPositions == 0 &&
         !stale_[sequence->kv_blocks[sequence->replayed / kKvBlockPositions]]) {
    sequence->replayed = std::min(sequence->replayed + kKvBlockPositions, sequence->computed);
  }
}

void Scheduler::AddDecodeRows(Builder* builder) {
  std::vector<Sequence*> ready;
  int32_t num_decoding = 0;
  for (Sequence* sequence : admitted_) {
    if (!IsDecoding(*sequence)) continue;
    ++num_decoding;
    if (sequence->remaining() == 1 && sequence->failures == 0) ready.push_back(sequence);
  }
  std::stable_sort(ready.begin(), ready.end(), [](const Sequence* a, const Sequence* b) {
    return a->last_batch < b->last_batch;
  });
  const int32_t group = (num_decoding + options_.num_stages - 1) / options_.num_stages;
  for (Sequence* sequence : ready) {
    if (builder->rows.decode >= std::min(group, options_.max_rows)) return;
    if (!sequence->admitted) continue;  // preempted for one before it
    MakeDraft(sequence,
              std::min(options_.max_rows, kMaxDraftedRows) - builder->rows.decode - group);
    const int32_t rows = 1 + static_cast<int32_t>(sequence->draft.size());
    builder->rows.decode += AddRows(sequence, rows, builder);
  }
}

// Guesses what the sequence's next tokens are, so that one trip through the stages may bring
// several.
void Scheduler::MakeDraft(Sequence* sequence, int32_t rows_left) const {
  sequence->draft.clear();
  if (!options_.speculation || !sequence->request.speculation) return;
  const int32_t most = std::min({rows_left, sequence->draft_policy.Length(sequence->num_new()),
                                 sequence->request.max_new_tokens - sequence->num_new() - 1,
                                 options_.context_length - sequence->known() - 1});
  sequence->draft = LookUpContinuation(sequence->tokens, most);
  if (AnswerGrammar* grammar = sequence->request.grammar.get(); grammar != nullptr) {
    sequence->draft.resize(grammar->CountAllowed(sequence->draft));
  }
}

// Prompt rows that this micro-batch bears.
int32_t Scheduler::PromptRows(const Builder& builder) const {
  const int32_t room = options_.max_rows - builder.rows.decode;
  if (options_.chunk_rows > 0) return std::min(options_.chunk_rows, room);
  int32_t remaining = 0;
  bool decoding = false;
  for (const Sequence* sequence : admitted_) {
    if (IsDecoding(*sequence)) {
      decoding = true;
    } else {
      remaining += sequence->remaining();
    }
  }
  int32_t rows = room;
  if (options_.num_stages > 1) {
    // While the first chunk goes through the first stages the others wait, and so do the first ones
    // for the last chunk: each costs (stages - 1) of its stage times. So many chunks keep that to a
    // few percent of the prompt.
    rows = std::max(kPipelinedChunkRows, remaining / (16 * options_.num_stages));
  }
  const Sequence* next = decoding ? NextPrompt(builder) : nullptr;
  if (next != nullptr) {
    const double like_decode = step_times_.RowsLikeOneDecode();
    const int32_t least = next->known() <= kShortPrompt ? kMinChunkRows : 1;
    rows = std::min(rows,
                    like_decode > 0
                        ? std::max(static_cast<int32_t>(kChunkShareOfDecode * like_decode), least)
                        : kUnmeasuredChunkRows);
  }
  return std::min(rows, room);
}

// In turn the oldest and the one that is done first: a long prompt neither starves nor keeps short
// ones waiting.
Sequence* Scheduler::NextPrompt(const Builder& builder) const {
  const bool shortest = builder.batch->id % 2 == 0;
  Sequence* best = nullptr;
  for (Sequence* sequence : admitted_) {  // best first
    if (sequence->remaining() == 0 || sequence->failures > 0 || IsDecoding(*sequence)) continue;
    if (sequence->replays()) continue;
    if (InBatch(*sequence, builder) || builder.stuck.contains(sequence)) continue;
    if (best == nullptr) {
      best = sequence;
      if (!shortest) break;
    } else if (sequence->request.priority < best->request.priority) {
      break;
    } else if (sequence->remaining() < best->remaining()) {
      best = sequence;
    }
  }
  return best;
}

void Scheduler::AddPromptRows(Builder* builder) {
  int32_t budget = PromptRows(*builder);
  while (budget > 0) {
    Sequence* sequence = NextPrompt(*builder);
    if (sequence == nullptr) return;
    int32_t rows = std::min(budget, sequence->remaining());
    if (sequence->request.kind == OutputKind::kLogits) {
      const size_t row_bytes = sizeof(float) * std::max(options_.vocab_size, 1);
      rows = std::min<int32_t>(rows, std::max<int32_t>(1, kMaxLogitsBytes / row_bytes));
    }
    rows = AddRows(sequence, rows, builder);
    if (rows == 0) {
      builder->stuck.insert(sequence);
      continue;
    }
    builder->rows.prompt += rows;
    stats_.prompt_tokens += rows;
    budget -= rows;
  }
}

int32_t Scheduler::AddRows(Sequence* sequence, int32_t rows, Builder* builder) {
  while (rows > 0 && !EnsureBlocks(sequence, sequence->submitted + rows, *builder)) {
    // As many as the last block still takes.
    const int32_t room =
        static_cast<int32_t>(sequence->kv_blocks.size()) * kKvBlockPositions - sequence->submitted;
    rows = std::min(rows - 1, room);
  }
  if (rows <= 0) return 0;
  sequence->draft.resize(std::max(sequence->submitted + rows - sequence->known(), 0));
  MicroBatch& batch = *builder->batch;
  const int32_t first = sequence->submitted;
  builder->parts.push_back({sequence->request.id, batch.rows(), first, rows, sequence->life});
  SequenceRows& part = batch.sequences.emplace_back();
  part.sequence_id = sequence->request.id;
  part.first_position = first;
  part.num_rows = rows;
  part.kv_blocks.assign(sequence->kv_blocks.begin(),
                        sequence->kv_blocks.begin() + BlocksFor(first + rows));
  for (int32_t position = first; position < first + rows; ++position) {
    if (position >= sequence->next_output) AddOutput(*sequence, position, builder);
    batch.tokens.push_back(position < sequence->known()
                               ? sequence->tokens[position]
                               : sequence->draft[position - sequence->known()]);
    sequence->awaited += position >= sequence->next_output;
  }
  sequence->submitted += rows;
  sequence->last_batch = batch.id;
  if (options_.prefix_cache) {
    const std::span<const int32_t> blocks = sequence->kv_blocks;
    const int32_t certain = std::min(sequence->submitted, sequence->known());
    cache_.Insert(sequence->tokens, blocks.first(certain / kKvBlockPositions), batch.id);
  }
  return rows;
}

void Scheduler::AddOutput(const Sequence& sequence, int32_t position, Builder* builder) {
  OutputRow& output = builder->batch->outputs.emplace_back();
  output.row = builder->batch->rows();
  output.kind = sequence.request.kind;
  if (output.kind == OutputKind::kScore) {
    output.target = position + 1 < sequence.known() ? sequence.tokens[position + 1]
                                                    : sequence.request.final_target;
  }
  if (output.kind != OutputKind::kSample) return;
  output.sampling = sequence.request.sampling;
  const size_t guesses = static_cast<size_t>(std::max(position + 1 - sequence.known(), 0));
  const std::span<const TokenId> guessed = std::span(sequence.draft).first(guesses);
  if (sequence.request.grammar != nullptr) output.allowed = sequence.request.grammar->Mask(guessed);
  const engine::SamplingParams& sampling = output.sampling;
  const bool repetition = sampling.repetition_penalty != 1.0f;
  const bool counts = sampling.presence_penalty != 0 || sampling.frequency_penalty != 0;
  if (!repetition && !counts) return;
  std::vector<TokenId> tokens =
      sequence.tokens;  // as they are if all guesses before this row are right
  tokens.insert(tokens.end(), guessed.begin(), guessed.end());
  const std::span<const TokenId> before = tokens;
  if (repetition) {
    const auto recent = before.last(std::min(kRepetitionWindow, before.size()));
    output.recent.assign(recent.begin(), recent.end());
  }
  if (counts) output.output_counts = CountTokens(before.subspan(sequence.prompt_length));
}

bool Scheduler::EnsureBlocks(Sequence* sequence, int32_t positions, const Builder& builder) {
  while (static_cast<int32_t>(sequence->kv_blocks.size()) < BlocksFor(positions)) {
    if (const auto block = pool_.Allocate()) {
      sequence->kv_blocks.push_back(*block);
    } else if (!FreeOneBlock(*sequence, builder)) {
      return false;
    }
  }
  return true;
}

// From the prefix cache, or else by preempting the youngest sequence behind `sequence`. Not one in
// the micro-batch that is being built: inside a micro-batch nothing orders the use of a block.
bool Scheduler::FreeOneBlock(const Sequence& sequence, const Builder& builder) {
  if (cache_.EvictOne()) return true;
  for (auto victim = admitted_.rbegin(); victim != admitted_.rend(); ++victim) {
    if (*victim == &sequence) return false;
    if (InBatch(**victim, builder) || (*victim)->kv_blocks.empty()) continue;
    Preempt(*victim);
    return true;
  }
  return false;
}

void Scheduler::Preempt(Sequence* sequence) {
  ++stats_.preemptions;
  ReleaseBlocks(sequence);
  admitted_.erase(sequence);
  sequence->admitted = false;
  waiting_.insert(sequence);
}

void Scheduler::ReleaseBlocks(Sequence* sequence) {
  for (const int32_t block : sequence->kv_blocks) pool_.Release(block);
  sequence->kv_blocks.clear();
  sequence->submitted = sequence->computed = sequence->replayed = sequence->lost_layers = 0;
  ++sequence->life;
}

absl::Status Scheduler::OnResults(uint64_t batch_id, std::span<const RowResult> results) {
  const auto found = in_flight_.find(batch_id);
  if (found == in_flight_.end()) return Internal("micro-batch {}: not on its way", batch_id);
  const std::vector<OutputRow>& outputs = found->second.batch->outputs;
  const auto answers = [&](const RowResult& result, const OutputRow& output) {
    if (result.row != output.row) return false;
    if (output.kind != OutputKind::kSample) return true;
    return result.token >= 0 && result.token < options_.vocab_size;
  };
  if (!std::equal(results.begin(), results.end(), outputs.begin(), outputs.end(), answers)) {
    return Internal("micro-batch {}: got {} results that do not answer its {} rows with output",
                    batch_id, results.size(), outputs.size());
  }
  const InFlight done = std::move(found->second);
  in_flight_.erase(found);
  const bool replay = done.batch->end_layer != 0;  // came back from an earlier stage
  for (const Part& part : done.parts) {
    if (!replay) NoteComputed(part);
    size_t count = 0;
    while (count < results.size() && results[count].row < part.first_row + part.num_rows) ++count;
    ApplyResults(part, results.first(count));
    results = results.subspan(count);
  }
  return absl::OkStatus();
}

void Scheduler::Deliver() {
  for (const std::shared_ptr<SequenceObserver>& observer : undelivered_) observer->Deliver();
  undelivered_.clear();
}

// Guesses are not counted: whether they are right is not known yet.
void Scheduler::NoteComputed(const Part& part) {
  const auto found = sequences_.find(part.sequence_id);
  if (found == sequences_.end() || found->second->life != part.life) return;
  Sequence& sequence = *found->second;
  const int32_t end = std::min(part.first_position + part.num_rows, sequence.known());
  sequence.computed = std::max(sequence.computed, end);
  sequence.replayed = sequence.lost_layers = 0;  // it was sent after all replays
}

void Scheduler::ApplyResults(const Part& part, std::span<const RowResult> results) {
  const auto found = sequences_.find(part.sequence_id);
  if (found == sequences_.end()) return;  // cancelled meanwhile
  Sequence* sequence = found->second.get();
  sequence->awaited -= static_cast<int32_t>(results.size());
  // A chunk before the last known token, as in a replay: guesses may be on their way behind it.
  if (results.empty()) return;
  sequence->failures = 0;
  undelivered_.push_back(sequence->request.observer);
  const std::vector<TokenId> draft = std::exchange(sequence->draft, {});
  size_t accepted = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const int32_t position = part.first_position + results[i].row - part.first_row;
    if (!ApplyResult(sequence, position, results[i])) return;
    if (draft.empty()) continue;
    if (i == draft.size() || results[i].token != draft[i])
      break;  // what follows was computed for another text
    ++accepted;
  }
  if (draft.empty()) return;
  stats_.drafted_tokens += draft.size();
  stats_.accepted_tokens += accepted;
  sequence->draft_policy.OnVerified(static_cast<int32_t>(draft.size()),
                                    static_cast<int32_t>(accepted), sequence->num_new());
  // Positions after the last right one are computed anew and overwritten.
  if (sequence->admitted) sequence->submitted = sequence->known() - 1;
}

// False: the sequence has ended.
bool Scheduler::ApplyResult(Sequence* sequence, int32_t position, const RowResult& result) {
  ++sequence->next_output;
  if (sequence->samples()) {
    sequence->tokens.push_back(result.token);
    ++stats_.new_tokens;
  }
  if (!sequence->request.observer->OnResult(position, result)) {
    ++stats_.finished;
    End(sequence, EndReason::kStopped, absl::OkStatus());
    return false;
  }
  if (sequence->request.grammar != nullptr) {
    if (absl::Status goes_on = sequence->request.grammar->Accept(result.token); !goes_on.ok()) {
      Cancel(sequence->request.id, goes_on);
      return false;
    }
  }
  const bool full = sequence->samples() ? sequence->num_new() >= sequence->request.max_new_tokens ||
                                              sequence->known() >= options_.context_length
                                        : sequence->next_output >= sequence->known();
  if (!full) return true;
  ++stats_.finished;
  End(sequence, EndReason::kLength, absl::OkStatus());
  return false;
}

void Scheduler::OnFailure(uint64_t batch_id, const absl::Status& status) {
  const auto found = in_flight_.find(batch_id);
  if (found == in_flight_.end()) return;
  const InFlight failed = std::move(found->second);
  in_flight_.erase(found);
  for (const Part& part : failed.parts) {
    const auto sequence = sequences_.find(part.sequence_id);
    if (sequence == sequences_.end()) continue;
    if (++sequence->second->failures >= kMaxFailures) Cancel(part.sequence_id, status);
  }
}

void Scheduler::OnTimed(uint64_t batch_id, int32_t stage, double compute_us) {
  for (const auto& [id, rows] : recent_) {
    if (id == batch_id) step_times_.Add(stage, rows, compute_us);
  }
}

void Scheduler::Restart(int32_t num_stages, int32_t lost_layers) {
  if (num_stages != options_.num_stages) step_times_ = StepTimes(num_stages);
  options_.num_stages = num_stages;
  ++stats_.restarts;
  if (lost_layers == 0) {
    cache_.ForgetFrom(oldest_in_flight());
  } else {
    cache_.Clear();
  }
  in_flight_.clear();
  recent_.clear();
  replayed_last_ = false;
  stale_.assign(pool_.num_blocks(), false);
  for (const auto& [id, sequence] : sequences_) {
    sequence->awaited = 0;
    sequence->draft.clear();
    if (lost_layers < kAllLayers && sequence->computed > 0) {
      KeepBlocks(sequence.get(), lost_layers);
      continue;
    }
    ReleaseBlocks(sequence.get());
    admitted_.erase(sequence.get());
    sequence->admitted = false;
    waiting_.insert(sequence.get());
  }
}

// Of computed positions. An earlier replay may not have come through, so it is done again.
void Scheduler::KeepBlocks(Sequence* sequence, int32_t lost_layers) {
  std::vector<int32_t>& blocks = sequence->kv_blocks;
  for (; std::ssize(blocks) > BlocksFor(sequence->computed); blocks.pop_back())
    pool_.Release(blocks.back());
  sequence->submitted = sequence->computed;
  sequence->lost_layers = std::max(sequence->lost_layers, lost_layers);
  sequence->replayed = 0;
  ++sequence->life;
  if (sequence->lost_layers == 0) return;
  for (const int32_t block : blocks) stale_[block] = true;
}

void Scheduler::Keep(const std::string& name, std::span<const TokenId> tokens) {
  const PrefixCache::Ticket ticket = cache_.Keep(tokens);
  if (const auto before = kept_.find(name); before != kept_.end()) {
    cache_.Release(before->second);
    kept_.erase(before);
  }
  if (!ticket.empty()) kept_.emplace(name, ticket);
}

std::vector<int32_t> Scheduler::BorrowKnown(std::span<const TokenId> tokens) {
  return cache_.Match(tokens, pool_.num_blocks());
}

std::vector<int32_t> Scheduler::BorrowFree(int32_t count) {
  std::vector<int32_t> blocks;
  while (static_cast<int32_t>(blocks.size()) < count) {
    if (const auto block = pool_.Allocate()) {
      blocks.push_back(*block);
    } else if (!cache_.EvictOne()) {
      GiveBack(blocks, {});
      return {};
    }
  }
  return blocks;
}

void Scheduler::GiveBack(std::span<const int32_t> blocks, std::span<const TokenId> tokens) {
  if (!tokens.empty()) cache_.Insert(tokens, blocks, last_batch_id_);
  for (const int32_t block : blocks) pool_.Release(block);
}

void Scheduler::End(Sequence* sequence, EndReason reason, const absl::Status& status) {
  ReleaseBlocks(sequence);
  admitted_.erase(sequence);
  waiting_.erase(sequence);
  deadlines_.erase(deadlines_.find(sequence->request.deadline));
  const std::shared_ptr<SequenceObserver> observer = sequence->request.observer;
  sequences_.erase(sequence->request.id);
  observer->OnEnd(reason, status);
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = stats_;
  stats.running = static_cast<int32_t>(admitted_.size());
  stats.waiting = static_cast<int32_t>(waiting_.size());
  stats.kv_blocks_total = pool_.num_blocks();
  stats.kv_blocks_cached = cache_.num_evictable();
  stats.kv_blocks_used = pool_.num_blocks() - pool_.num_free() - stats.kv_blocks_cached;
  return stats;
}

}  // namespace baton::coordinator
