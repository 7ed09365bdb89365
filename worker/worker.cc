#include "worker/worker.h"

#include <spdlog/spdlog.h>

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <span>
#include <utility>

#include "engine/base/quote.h"
#include "engine/base/saturating.h"
#include "proto/checksum.h"
#include "proto/spec_hash.h"
#include "proto/tensor_convert.h"
#include "proto/version.h"
#include "worker/host_info.h"
#include "worker/stage_speed.h"

namespace baton::worker {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWatchInterval = std::chrono::milliseconds(200);
constexpr int kWatchesPerFileCheck = 5;
constexpr int kMostStepsInARow = 16;  // that overlap

uint64_t MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
}

// Infinity is the largest, and what is no number is above it.
bool AllFinite(std::span<const float> values) {
  constexpr uint32_t kMagnitude = 0x7FFFFFFF, kInfinity = 0x7F800000;
  uint32_t largest = 0;
  for (const float value : values)
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & kMagnitude);
  return largest < kInfinity;
}

absl::Status CheckHidden(const engine::MicroBatch& batch, const StageRunner& runner,
                         const std::optional<engine::HiddenStates>& hidden) {
  if (runner.first() != !hidden.has_value()) {
    return InvalidArgument("micro-batch {}: {} hidden states, but this is {} first stage", batch.id,
                           hidden.has_value() ? "has" : "has no",
                           runner.first() ? "the" : "not the");
  }
  if (!hidden.has_value()) return absl::OkStatus();
  if (hidden->rows != batch.rows() || hidden->cols != runner.hidden_size() ||
      hidden->values.size() !=
          static_cast<size_t>(hidden->rows) * static_cast<size_t>(hidden->cols)) {
    return InvalidArgument("micro-batch {}: hidden states: shape [{}, {}], expected [{}, {}]",
                           batch.id, hidden->rows, hidden->cols, batch.rows(),
                           runner.hidden_size());
  }
  if (!AllFinite(hidden->values))
    return InvalidArgument("micro-batch {}: hidden states: not all are finite numbers", batch.id);
  return absl::OkStatus();
}

}  // namespace

// A loaded stage and its way out. The compute thread holds one while it runs a step.
struct Worker::LoadedUnit {
  wire::LoadedStage description;
  std::unique_ptr<StageRunner> runner;
  std::unique_ptr<NextStage> next;  // null at the last stage; replaced only while no step runs
  std::string next_address;
  wire::WireType wire_type = wire::WireType::kF32;
  std::string kv_form;               // who can read its KV blocks
  std::atomic<bool> broken = false;  // its files have changed; never used again
  uint64_t kv_id = 0;                // guarded by mutex_; 0: nobody's yet
};

struct Worker::Attachment {
  uint64_t id = 0;
  uint64_t epoch = 0;
  std::string fingerprint;
  std::chrono::milliseconds lease;
  EventSink sink;
  Clock::time_point heard;  // last
};

Worker::Worker(WorkerOptions options, std::unique_ptr<StageLoader> loader,
               NextStageFactory next_stages)
    : options_(std::move(options)),
      loader_(std::move(loader)),
      next_stages_(std::move(next_stages)),
      instance_id_(DrawInstanceId()),
      host_id_(HostId()),
      kv_store_(options_.kv_folder.empty() ? KvStore::DefaultFolder() : options_.kv_folder,
                options_.kv_limit_bytes),
      queue_(options_.queue_capacity),
      compute_([this] { ComputeLoop(); }),
      watch_([this] { WatchLoop(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(watch_mutex_);
    stopping_ = true;
  }
  watch_changed_.notify_all();
  watch_.join();
  queue_.Close();
  {
    const std::lock_guard lock(mutex_);
    if (unit_ != nullptr && unit_->next != nullptr) unit_->next->Close();
  }
  compute_.join();
  End(current_attachment(), Unavailable("the worker is shutting down"));
}

wire::WorkerInfo Worker::Info() const {
  const MemoryInfo host = HostMemory();
  const std::optional<engine::DeviceMemory> device = loader_->device_memory();
  wire::WorkerInfo info{.name = options_.name,
                        .build = std::string(wire::BuildId()),
                        .protocol_version = wire::kProtocolVersion,
                        .instance_id = instance_id_,
                        .pid = getpid(),
                        .device = loader_->device(),
                        .backend = loader_->backend(),
                        .threads = loader_->threads(),
                        .memory_total_bytes = device ? device->total_bytes : host.total_bytes,
                        .memory_available_bytes = AvailableBytes(),
                        .memory_budget_bytes = options_.memory_budget_bytes,
                        .rss_bytes = ResidentBytes(),
                        .host_id = device ? host_id_ + '/' + device->device_id : host_id_,
                        .loaded = false,
                        .stage = {},
                        .epoch = 0,
                        .weight_bytes_received = loader_->weight_bytes_received(),
                        .files = loader_->files(),
                        .clock_unix_ms = absl::ToUnixMillis(absl::Now()),
                        .host_memory_available_bytes = device ? host.available_bytes : 0};
  const std::lock_guard lock(mutex_);
  info.epoch = epoch_;
  if (unit_ != nullptr) {
    info.loaded = true;
    info.stage = unit_->description;
  }
  return info;
}

uint64_t Worker::AvailableBytes() const {
  if (const auto device = loader_->device_memory()) return device->free_bytes;
  return HostMemory().available_bytes + OwnMemory().locked_bytes;
}

// ---- Loading

absl::StatusOr<wire::LoadedStage> Worker::Load(const wire::LoadRequest& request,
                                               const LoadProgress& progress) {
  const std::lock_guard load_lock(load_mutex_);
  const std::string spec_hash = wire::SpecHash(request.spec);
  std::shared_ptr<LoadedUnit> unit = TakeUnit();
  if (unit == nullptr || unit->broken || unit->description.spec_hash != spec_hash) {
    unit.reset();  // its memory first
    RETURN_IF_ERROR(CheckBudget(request.spec));
    {
      const std::lock_guard lock(mutex_);
      loading_ = true;
    }
    auto runner = loader_->Load(request.spec, request.part_sources, progress);
    const std::lock_guard lock(mutex_);
    loading_ = false;
    RETURN_IF_ERROR(runner.status());
    unit = std::make_shared<LoadedUnit>();
    unit->description = {.fingerprint = request.spec.fingerprint,
                         .layers = request.spec.layers,
                         .weights_bytes = (*runner)->weights_bytes(),
                         .kv_bytes = (*runner)->kv_bytes(),
                         .warnings = (*runner)->warnings(),
                         .spec_hash = spec_hash};
    unit->runner = *std::move(runner);
    const std::string device = loader_->device();
    unit->kv_form =
        fmt::format("{} host-layers {} kv-type {}", device.substr(0, device.find(':')),
                    unit->runner->num_host_layers(), static_cast<int>(request.spec.kv_type));
    busy_us_ = 0;
    steps_ = 0;
    spdlog::info("loaded layers {}-{}: {} bytes of weights, {}; {} of KV cache; {}",
                 request.spec.layers.begin, request.spec.layers.end - 1,
                 unit->description.weights_bytes, unit->runner->storage(),
                 unit->description.kv_bytes, NumaPlacement());
    for (const std::string& warning : unit->description.warnings) spdlog::warn("{}", warning);
  }
  if (unit->next == nullptr || unit->next_address != request.next_address ||
      unit->wire_type != request.wire_type) {
    unit->next.reset();
    if (unit->runner->last() != request.next_address.empty()) {
      return InvalidArgument("load request: next_address \"{}\", but layers [{}, {}) {} the last",
                             engine::Named(request.next_address), request.spec.layers.begin,
                             request.spec.layers.end, unit->runner->last() ? "are" : "are not");
    }
    if (!unit->runner->last()) {
      RETURN_IF_ERROR(wire::CheckWireType(request.wire_type, unit->runner->hidden_size()));
      ASSIGN_OR_RETURN(unit->next, MakeNextStage(request));
    }
    unit->next_address = request.next_address;
    unit->wire_type = request.wire_type;
  }
  unit->description.topology_hash = request.topology_hash;
  Measure(request.measure, unit.get());
  const std::lock_guard lock(mutex_);
  unit_ = unit;
  RaiseEpoch(request.epoch);
  return unit_->description;
}

// What cannot be measured stays unknown: that is no reason not to serve.
void Worker::Measure(wire::Measure what, LoadedUnit* unit) {
  if (what == wire::Measure::kNone) return;
  unit->kv_id = 0;  // measuring writes there
  wire::StageSpeed& speed = unit->description.speed;
  if (what == wire::Measure::kTogether) {
    const std::lock_guard running(run_mutex_);
    const double alone_us = speed.alone_us;
    if (auto measured = MeasureStageSpeed(unit->runner.get()); measured.ok()) speed = *measured;
    speed.alone_us = alone_us;
    return;
  }
  {
    const std::lock_guard running(run_mutex_);
    speed.alone_us = MeasureDecodeStep(unit->runner.get()).value_or(0);
  }
  if (unit->next == nullptr) return;
  if (auto link = unit->next->Measure(); link.ok()) unit->description.next_link = *link;
}

absl::StatusOr<std::unique_ptr<NextStage>> Worker::MakeNextStage(const wire::LoadRequest& request) {
  return next_stages_({.address = request.next_address,
                       .fingerprint = request.spec.fingerprint,
                       .first_layer = request.spec.layers.end,
                       .wire_type = request.wire_type,
                       .on_lost = [this](wire::StepFailed failed) {
                         Emit(current_attachment(), std::move(failed));
                       }});
}

void Worker::Unload() {
  const std::lock_guard load_lock(load_mutex_);
  TakeUnit();
}

void Worker::UnloadBroken(const std::shared_ptr<LoadedUnit>& unit) {
  const std::lock_guard load_lock(load_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (unit_ != unit) return;  // another was loaded meanwhile
  }
  TakeUnit();
}

std::shared_ptr<Worker::LoadedUnit> Worker::TakeUnit() {
  std::shared_ptr<LoadedUnit> unit;
  {
    const std::lock_guard lock(mutex_);
    unit = std::exchange(unit_, nullptr);
    // A step that waits for room at the next worker must not hold us up; the connection is made
    // anew for the next epoch.
    if (unit != nullptr && unit->next != nullptr) unit->next->Close();
  }
  queue_.DropAll();
  const std::lock_guard running(run_mutex_);
  if (unit != nullptr) unit->next.reset();
  return unit;
}

absl::Status Worker::CheckBudget(const engine::StageSpec& spec) const {
  ASSIGN_OR_RETURN(const engine::StageMemory memory, loader_->MemoryOf(spec));
  const uint64_t budget = options_.memory_budget_bytes;
  const uint64_t needed =
      engine::SaturatingSum({memory.weights_bytes, memory.kv_bytes, memory.scratch_bytes});
  if (budget == 0 || needed <= budget) return absl::OkStatus();
  return ResourceExhausted(
      "worker {}: layers {}-{} need {} bytes ({} weights, {} KV cache, {} scratch), the memory "
      "budget is {}",
      options_.name, spec.layers.begin, spec.layers.end - 1, needed, memory.weights_bytes,
      memory.kv_bytes, memory.scratch_bytes, budget);
}

// ---- The coordinator

absl::StatusOr<uint64_t> Worker::Attach(const wire::WorkerClient::AttachOptions& options,
                                        const std::function<void(uint64_t kv_id)>& accepted,
                                        EventSink sink) {
  const std::lock_guard attaching(attach_mutex_);
  ASSIGN_OR_RETURN(const uint64_t kv_id, ClaimKv(options.epoch, options.kv_id));
  uint64_t id = 0;
  {
    const std::lock_guard lock(sink_mutex_);
    if (attachment_ != nullptr) {
      attachment_->sink(wire::LinkClosed{absl::AbortedError("another coordinator has attached")});
    }
    id = ++attachments_;
    if (accepted) accepted(kv_id);
    attachment_ =
        std::make_unique<Attachment>(Attachment{.id = id,
                                                .epoch = options.epoch,
                                                .fingerprint = options.fingerprint,
                                                .lease = absl::ToChronoMilliseconds(options.lease),
                                                .sink = std::move(sink),
                                                .heard = Clock::now()});
  }
  queue_.DropAll();
  const std::lock_guard lock(mutex_);
  RaiseEpoch(options.epoch);
  return id;
}

// What is on its way of an older epoch may still be computed, but before everything of this one; it
// writes only what its own coordinator does not count on (Scheduler::Restart).
absl::StatusOr<uint64_t> Worker::ClaimKv(uint64_t epoch, uint64_t kv_id) {
  const std::lock_guard lock(mutex_);
  if (epoch < epoch_) {
    return FailedPrecondition("worker {}: the coordinator's epoch {} is over, the newest is {}",
                              options_.name, epoch, epoch_);
  }
  if (unit_ == nullptr) return 0;
  if (kv_id == 0 || unit_->kv_id != kv_id) unit_->kv_id = DrawId();
  return unit_->kv_id;
}

void Worker::Detach(uint64_t attachment) {
  {
    const std::lock_guard lock(sink_mutex_);
    if (attachment_ == nullptr || attachment_->id != attachment) return;
    attachment_.reset();
  }
  queue_.DropAll();
}

void Worker::End(uint64_t attachment, const absl::Status& why) {
  {
    const std::lock_guard lock(sink_mutex_);
    if (attachment_ == nullptr || attachment_->id != attachment) return;
    attachment_->sink(wire::LinkClosed{why});
    attachment_.reset();
  }
  queue_.DropAll();
}

void Worker::Emit(uint64_t attachment, wire::WorkerEvent event) {
  const std::lock_guard lock(sink_mutex_);
  if (attachment_ != nullptr && attachment_->id == attachment) attachment_->sink(std::move(event));
}

uint64_t Worker::current_attachment() const {
  const std::lock_guard lock(sink_mutex_);
  return attachment_ != nullptr ? attachment_->id : 0;
}

void Worker::Heartbeat(uint64_t attachment, uint64_t sequence) {
  const ProcessMemory memory = OwnMemory();
  const wire::WorkerHeartbeat answer{.sequence = sequence,
                                     .rss_bytes = memory.resident_bytes,
                                     .memory_available_bytes = AvailableBytes(),
                                     .queued = static_cast<int32_t>(queue_.size()),
                                     .busy_us = busy_us_,
                                     .steps = steps_,
                                     .major_faults = memory.major_faults,
                                     .mapped_resident_bytes = memory.mapped_resident_bytes,
                                     .sent_bytes = sent_bytes_,
                                     .changed_messages = wire::ChangedMessages()};
  const std::lock_guard lock(sink_mutex_);
  if (attachment_ == nullptr || attachment_->id != attachment) return;
  attachment_->heard = Clock::now();
  attachment_->sink(answer);
}

void Worker::SetEpoch(uint64_t attachment, uint64_t epoch) {
  {
    const std::lock_guard lock(sink_mutex_);
    if (attachment_ == nullptr || attachment_->id != attachment) return;
    attachment_->heard = Clock::now();
    attachment_->epoch = std::max(attachment_->epoch, epoch);
  }
  const std::lock_guard lock(mutex_);
  RaiseEpoch(epoch);
}

void Worker::RaiseEpoch(uint64_t epoch) {
  if (epoch <= epoch_) return;
  epoch_ = epoch;
  last_id_.reset();
  queue_.DropOlderThan(epoch);
  if (unit_ != nullptr && unit_->next != nullptr) unit_->next->SetEpoch(epoch);
}

// ---- Steps

void Worker::Submit(uint64_t attachment, std::shared_ptr<const engine::MicroBatch> batch) {
  std::string fingerprint;
  {
    const std::lock_guard lock(sink_mutex_);
    if (attachment_ == nullptr || attachment_->id != attachment) return;
    attachment_->heard = Clock::now();
    fingerprint = attachment_->fingerprint;
  }
  Push(fingerprint, std::move(batch), std::nullopt, nullptr)
      .IgnoreError();  // reported as StepFailed
}

absl::Status Worker::Enqueue(std::shared_ptr<const engine::MicroBatch> batch,
                             engine::HiddenStates hidden, std::function<void()> taken) {
  return Push("", std::move(batch), std::move(hidden),
              std::move(taken));  // CheckSender has seen the model
}

absl::Status Worker::Push(const std::string& fingerprint,
                          std::shared_ptr<const engine::MicroBatch> batch,
                          std::optional<engine::HiddenStates> hidden, std::function<void()> taken) {
  const uint64_t attachment = current_attachment();
  const auto push = [&]() -> absl::Status {
    std::shared_ptr<LoadedUnit> unit;
    {
      const std::lock_guard lock(mutex_);
      unit = unit_;
      if (unit == nullptr) {
        return FailedPrecondition("worker {}: {}", options_.name,
                                  loading_ ? "the stage is being loaded" : "no stage is loaded");
      }
    }
    if (!fingerprint.empty() && fingerprint != unit->description.fingerprint) {
      return FailedPrecondition(
          "worker {}: model mismatch: the coordinator serves {}, loaded is {}", options_.name,
          engine::Named(fingerprint), unit->description.fingerprint);
    }
    RETURN_IF_ERROR(engine::CheckMicroBatch(*batch, unit->runner->limits()));
    RETURN_IF_ERROR(CheckHidden(*batch, *unit->runner, hidden));
    if (batch->end_layer != 0 && batch->end_layer <= unit->description.layers.begin) {
      return InvalidArgument("micro-batch {}: ends before layer {}, but this stage begins at {}",
                             batch->id, batch->end_layer, unit->description.layers.begin);
    }

    const std::lock_guard lock(mutex_);
    if (batch->epoch < epoch_) {  // late, not wrong
      if (taken) taken();
      return absl::OkStatus();
    }
    RaiseEpoch(batch->epoch);  // the coordinator's word for it is on its way
    if (last_id_.has_value() && batch->id <= *last_id_) {
      return InvalidArgument("micro-batch {}: out of order, the last one was {}", batch->id,
                             *last_id_);
    }
    RETURN_IF_ERROR(queue_.Push({.batch = batch,
                                 .hidden = std::move(hidden),
                                 .attachment = attachment,
                                 .queued_at = Clock::now(),
                                 .taken = std::move(taken)}));
    last_id_ = batch->id;
    return absl::OkStatus();
  };
  absl::Status status = push();
  if (!status.ok())
    Emit(attachment,
         wire::StepFailed{.batch_id = batch->id, .epoch = batch->epoch, .status = status});
  return status;
}

absl::StatusOr<Worker::Expected> Worker::CheckSender(const std::string& fingerprint,
                                                     int32_t first_layer) const {
  const std::lock_guard lock(mutex_);
  if (unit_ == nullptr) {
    return FailedPrecondition("worker {}: {}", options_.name,
                              loading_ ? "the stage is being loaded" : "no stage is loaded");
  }
  const wire::LoadedStage& loaded = unit_->description;
  if (fingerprint != loaded.fingerprint || first_layer != loaded.layers.begin) {
    return FailedPrecondition(
        "worker {}: got hidden states for layer {} of model {}, expected layer {} of {}",
        options_.name, first_layer, engine::Named(fingerprint), loaded.layers.begin,
        loaded.fingerprint);
  }
  return Expected{.hidden_size = unit_->runner->hidden_size(),
                  .max_rows = unit_->runner->limits().max_rows};
}

// A step that was started; all of it is done then unless the stage overlaps.
struct Worker::RunningStep {
  QueuedStep step;
  std::shared_ptr<LoadedUnit> unit;
  wire::StageTimings timings;
  Clock::time_point start;
  absl::Status status;
  engine::StageOutput output;
};

void Worker::ComputeLoop() {
  while (std::optional<QueuedStep> step = queue_.Pop()) {
    const std::lock_guard running(run_mutex_);
    std::optional<RunningStep> first = StartStep(*std::move(step));
    // A device computes the next step while the result of this one leaves it. Now and then there is
    // a gap, for those who wait for run_mutex_.
    for (int i = 0; first.has_value(); ++i) {
      std::optional<RunningStep> second;
      if (first->unit->runner->overlaps() && i < kMostStepsInARow) {
        if (auto next = queue_.TryPop()) second = StartStep(*std::move(next));
      }
      FinishStep(*std::move(first));
      // Until now the device was busy with the first.
      if (second.has_value()) second->start = Clock::now();
      first = std::move(second);
    }
  }
}

std::optional<Worker::RunningStep> Worker::StartStep(QueuedStep step) {
  const engine::MicroBatch& batch = *step.batch;
  RunningStep running;
  {
    const std::lock_guard lock(mutex_);
    if (batch.epoch < epoch_) return std::nullopt;
    running.unit = unit_;
  }
  if (running.unit == nullptr) return std::nullopt;  // unloaded: the coordinator has asked for that

  running.timings.queue_us = MicrosecondsSince(step.queued_at);
  running.start = Clock::now();
  StageRunner& runner = *running.unit->runner;
  const engine::HiddenStates* input = step.hidden.has_value() ? &*step.hidden : nullptr;
  running.status =
      runner.overlaps() ? runner.Start(batch, input) : runner.Run(batch, input, &running.output);
  running.step = std::move(step);
  return running;
}

void Worker::FinishStep(RunningStep running) {
  const QueuedStep& step = running.step;
  const engine::MicroBatch& batch = *step.batch;
  StageRunner& runner = *running.unit->runner;
  absl::Status& status = running.status;
  if (status.ok() && runner.overlaps()) status = runner.Finish(&running.output);
  running.timings.compute_us = MicrosecondsSince(running.start);
  busy_us_ += running.timings.compute_us;
  ++steps_;

  if (absl::IsDataLoss(status)) running.unit->broken = true;  // the watching thread ends it

  const Clock::time_point computed = Clock::now();
  const bool ends = runner.last() || (batch.end_layer != 0 &&
                                      batch.end_layer <= running.unit->description.layers.end);
  if (status.ok() && ends) {
    Emit(step.attachment, wire::StepResult{.batch_id = batch.id,
                                           .epoch = batch.epoch,
                                           .results = std::move(running.output.results)});
  } else if (status.ok()) {
    const uint64_t bytes = wire::WireBytes(running.unit->wire_type, running.output.hidden.rows,
                                           running.output.hidden.cols);
    status = running.unit->next->Send(step.batch, std::move(running.output.hidden));
    if (status.ok()) sent_bytes_ += bytes;
  }
  running.timings.send_us = MicrosecondsSince(computed);
  if (!status.ok() && !absl::IsCancelled(status)) {
    Emit(step.attachment,
         wire::StepFailed{.batch_id = batch.id, .epoch = batch.epoch, .status = std::move(status)});
  }
  Emit(step.attachment,
       wire::StepTimed{.batch_id = batch.id, .epoch = batch.epoch, .timings = running.timings});
}

// ---- KV files

absl::Status Worker::WithStage(const std::shared_ptr<LoadedUnit>& unit, uint64_t epoch,
                               const std::function<absl::Status(StageRunner*)>& copy) {
  const std::lock_guard running(run_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (unit_ != unit || epoch != epoch_) {
      return FailedPrecondition("worker {}: epoch {} is over, and its KV blocks with it",
                                options_.name, epoch);
    }
  }
  return copy(unit->runner.get());
}

absl::StatusOr<uint64_t> Worker::KvFile(const wire::KvFileRequest& request) {
  if (request.action == wire::KvAction::kRemove) return kv_store_.Remove(request.key);
  std::shared_ptr<LoadedUnit> unit;
  {
    const std::lock_guard lock(mutex_);
    unit = unit_;
  }
  if (unit == nullptr) return FailedPrecondition("worker {}: no stage is loaded", options_.name);
  const KvRecord record{.key = request.key,
                        .layers = unit->description.layers,
                        .form = unit->kv_form,
                        .block_bytes = unit->runner->kv_block_bytes(),
                        .num_blocks = static_cast<int32_t>(request.blocks.size())};
  if (request.action == wire::KvAction::kSave) {
    return kv_store_.Save(record, [&](int32_t index, std::span<std::byte> bytes) {
      return WithStage(unit, request.epoch, [&](StageRunner* runner) {
        return runner->ReadKvBlock(request.blocks[index], bytes);
      });
    });
  }
  return kv_store_.Restore(record, [&](int32_t index, std::span<const std::byte> bytes) {
    return WithStage(unit, request.epoch, [&](StageRunner* runner) {
      return runner->WriteKvBlock(request.blocks[index], bytes);
    });
  });
}

// ---- Watching

void Worker::WatchLoop() {
  std::unique_lock lock(watch_mutex_);
  for (int round = 1; !watch_changed_.wait_for(lock, kWatchInterval, [this] { return stopping_; });
       ++round) {
    lock.unlock();
    const uint64_t attachment = current_attachment();
    if (absl::Status status = CheckLease(); !status.ok()) End(attachment, status);
    if (round % kWatchesPerFileCheck == 0) CheckFiles(attachment);
    lock.lock();
  }
}

absl::Status Worker::CheckLease() {
  const std::lock_guard lock(sink_mutex_);
  if (attachment_ == nullptr || Clock::now() - attachment_->heard <= attachment_->lease)
    return absl::OkStatus();
  return DeadlineExceeded(
      "worker {}: the coordinator was silent for longer than its lease of {} ms", options_.name,
      attachment_->lease.count());
}

void Worker::CheckFiles(uint64_t attachment) {
  std::shared_ptr<LoadedUnit> unit;
  {
    const std::lock_guard lock(mutex_);
    unit = unit_;
  }
  if (unit == nullptr) return;
  const absl::Status status = unit->runner->CheckFiles();
  if (status.ok()) return;
  unit->broken = true;
  UnloadBroken(unit);
  End(attachment, status);
}

}  // namespace baton::worker
