#include "tests/support/fake_worker.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "proto/spec_hash.h"

namespace baton::testing {

using engine::kKvBlockPositions;
using engine::MicroBatch;
using engine::TokenId;

namespace {

uint64_t Mix(uint64_t hash, TokenId token) {
  hash = (hash ^ static_cast<uint64_t>(token)) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

constexpr uint64_t kSeed = 0x243F6A8885A308D3u;

TokenId Draw(uint64_t hash, const FakeModel& model) {
  return static_cast<TokenId>(hash % static_cast<uint64_t>(model.vocab_size));
}

}  // namespace

TokenId FakeNextToken(std::span<const TokenId> tokens, const FakeModel& model) {
  uint64_t hash = kSeed;
  for (const TokenId token : tokens) hash = Mix(hash, token);
  return Draw(hash, model);
}

std::vector<TokenId> FakeContinuation(std::vector<TokenId> tokens, int count,
                                      const FakeModel& model) {
  std::vector<TokenId> next;
  uint64_t hash = kSeed;
  for (const TokenId token : tokens) hash = Mix(hash, token);
  for (int i = 0; i < count; ++i) {
    next.push_back(Draw(hash, model));
    hash = Mix(hash, next.back());
  }
  return next;
}

std::vector<TokenId> FakePrompt(int length, int seed) {
  std::vector<TokenId> tokens(length);
  for (int i = 0; i < length; ++i) tokens[i] = (seed * 7919 + i * 31) % 1000;
  return tokens;
}

using Listener = std::function<void(wire::WorkerEvent)>;

struct FakeCluster::State {
  FakeModel model;
  mutable std::mutex mutex;
  std::map<std::string, std::shared_ptr<Worker>> workers;
  absl::Duration per_batch, per_row;
  std::map<std::string, absl::Status> failing_loads;
  std::map<std::string, absl::Duration> load_times;
  TokenId failing_token = engine::kNoToken;
  absl::Status token_failure;
  int token_failures_left = 0;
  std::map<std::string, int> loads;
  std::map<std::string, int64_t> rows;
  int in_flight = 0;
  int most_in_flight = 0;
  uint64_t last_instance = 0;

  std::shared_ptr<Worker> Find(const std::string& address) {
    const std::lock_guard lock(mutex);
    const auto found = workers.find(address);
    return found != workers.end() ? found->second : nullptr;
  }
};

// One life of a worker process.
class FakeCluster::Worker {
 public:
  Worker(std::string address, std::string instance, std::shared_ptr<State> cluster)
      : address_(std::move(address)), instance_(std::move(instance)), cluster_(std::move(cluster)) {
    thread_ = std::thread([this] { Run(); });
  }
  ~Worker() { End(); }

  void End() {
    std::shared_ptr<const Listener> listener;
    {
      const std::lock_guard lock(mutex_);
      if (ended_) return;
      ended_ = true;
      listener = std::exchange(listener_, nullptr);
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    if (listener != nullptr) (*listener)(wire::LinkClosed{Unavailable("connection reset")});
  }

  bool Answers(absl::Duration timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout), [this] {
      return ended_ || !stopped_;
    }) && !ended_;
  }
  void SetStopped(bool stopped) {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = stopped;
    }
    changed_.notify_all();
  }

  wire::WorkerInfo Info() const {
    const std::lock_guard lock(mutex_);
    wire::WorkerInfo info;
    info.name = address_;
    info.protocol_version = wire::kProtocolVersion;
    info.build = wire::BuildId();
    info.instance_id = instance_;
    info.pid = 1000;
    info.device = "cpu";
    info.memory_available_bytes = uint64_t{8} << 30;
    info.loaded = loaded_;
    if (loaded_) info.stage = stage_;
    return info;
  }
  bool Holds(const wire::LoadRequest& request) const {
    const std::lock_guard lock(mutex_);
    return loaded_ && request.spec.layers == spec_.layers &&
           request.spec.num_kv_blocks == spec_.num_kv_blocks;
  }
  // True where it had to be loaded.
  bool Load(const wire::LoadRequest& request) {
    const bool same = Holds(request);
    const std::lock_guard computing(computing_);
    const std::lock_guard lock(mutex_);
    next_address_ = request.next_address;
    stage_ = {.fingerprint = request.spec.fingerprint,
              .layers = request.spec.layers,
              .spec_hash = wire::SpecHash(request.spec),
              .topology_hash = request.topology_hash};
    if (same) return false;
    spec_ = request.spec;
    loaded_ = true;
    kv_id_ = 0;
    kv_.assign(static_cast<size_t>(spec_.num_kv_blocks) * kKvBlockPositions, engine::kNoToken);
    return true;
  }
  // The name of its KV.
  uint64_t Attach(uint64_t epoch, uint64_t kv_id, Listener listener) {
    static std::atomic<uint64_t> last_kv_id = 0;
    const std::lock_guard lock(mutex_);
    epoch_ = epoch;
    listener_ = std::make_shared<const Listener>(std::move(listener));
    if (kv_id == 0 || kv_id != kv_id_) kv_id_ = ++last_kv_id;
    return kv_id_;
  }
  // Waits for a call that is under way, as a link's destructor must.
  void Detach(uint64_t epoch) {
    const std::lock_guard calling(calling_);
    const std::lock_guard lock(mutex_);
    if (epoch == epoch_) listener_ = nullptr;
  }
  void Cut() {
    const std::lock_guard calling(calling_);
    std::shared_ptr<const Listener> listener;
    {
      const std::lock_guard lock(mutex_);
      listener = std::exchange(listener_, nullptr);
    }
    if (listener != nullptr) (*listener)(wire::LinkClosed{Unavailable("connection reset")});
  }
  // `hashes`: what the stage before has in its KV for each row with output, as hidden states would
  // depend on it.
  void Push(std::shared_ptr<const MicroBatch> batch, std::vector<uint64_t> hashes = {}) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back({std::move(batch), std::move(hashes)});
    }
    changed_.notify_all();
  }
  void Beat(uint64_t sequence) {
    {
      const std::lock_guard lock(mutex_);
      beats_.push_back(sequence);
    }
    changed_.notify_all();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(
          lock, [this] { return ended_ || (!stopped_ && (!queue_.empty() || !beats_.empty())); });
      if (ended_) return;
      if (!beats_.empty()) {
        wire::WorkerHeartbeat beat;
        beat.sequence = beats_.front();
        beats_.pop_front();
        lock.unlock();
        Tell(beat);
        lock.lock();
        continue;
      }
      const auto [batch, hashes] = std::move(queue_.front());
      queue_.pop_front();
      if (batch->epoch != epoch_) continue;
      lock.unlock();
      Step(batch, hashes);
      lock.lock();
    }
  }

  void Tell(const wire::WorkerEvent& event) {
    const std::lock_guard calling(calling_);
    std::shared_ptr<const Listener> listener;
    {
      const std::lock_guard lock(mutex_);
      listener = listener_;
    }
    if (listener != nullptr) (*listener)(event);
  }

  void Step(const std::shared_ptr<const MicroBatch>& batch, const std::vector<uint64_t>& before) {
    const std::lock_guard computing(computing_);
    absl::Duration time;
    absl::Status failure;
    std::string next_address;
    {
      const std::lock_guard lock(mutex_);
      next_address = next_address_;
    }
    {
      const std::lock_guard lock(cluster_->mutex);
      time = cluster_->per_batch + batch->rows() * cluster_->per_row;
      cluster_->rows[address_] += batch->rows();
      const bool bad = std::find(batch->tokens.begin(), batch->tokens.end(),
                                 cluster_->failing_token) != batch->tokens.end();
      if (bad && cluster_->token_failures_left > 0) {
        --cluster_->token_failures_left;
        failure = cluster_->token_failure;
      }
      if (spec_.layers.begin == 0) {
        cluster_->most_in_flight = std::max(cluster_->most_in_flight, ++cluster_->in_flight);
      }
    }
    if (time > absl::ZeroDuration()) std::this_thread::sleep_for(absl::ToChronoNanoseconds(time));
    // Born again, and nobody has loaded it yet: the worker before it does not know.
    if (kv_.empty()) failure = Unavailable("no stage is loaded");
    if (!failure.ok()) {
      Tell(wire::StepFailed{batch->id, batch->epoch, failure});
      return;
    }
    Store(*batch);
    std::vector<uint64_t> hashes;
    for (const engine::OutputRow& output : batch->outputs) {
      const uint64_t hash = Hash(*batch, output);
      const bool equal = before.empty() || before[hashes.size()] == hash;
      hashes.push_back(equal ? hash : ~hash);
    }
    wire::StepTimed timed{batch->id, batch->epoch, {}};
    timed.timings.compute_us = static_cast<uint64_t>(absl::ToInt64Microseconds(time));
    if (next_address.empty() || (batch->end_layer != 0 && batch->end_layer <= spec_.layers.end)) {
      wire::StepResult result{batch->id, batch->epoch, {}};
      for (size_t i = 0; i < hashes.size(); ++i) {
        engine::RowResult& row = result.results.emplace_back();
        row.row = batch->outputs[i].row;
        row.token = Draw(hashes[i], cluster_->model);
      }
      {
        const std::lock_guard lock(cluster_->mutex);
        --cluster_->in_flight;
      }
      Tell(result);
    } else if (const auto next = cluster_->Find(next_address)) {
      next->Push(batch, std::move(hashes));
    } else {
      Tell(wire::StepFailed{batch->id, batch->epoch,
                            Unavailable("{}: not reachable", next_address)});
    }
    Tell(timed);
  }

  TokenId& Slot(const engine::SequenceRows& rows, int32_t position) {
    const int32_t block = rows.kv_blocks.at(position / kKvBlockPositions);
    return kv_.at(static_cast<size_t>(block) * kKvBlockPositions + position % kKvBlockPositions);
  }
  void Store(const MicroBatch& batch) {
    int32_t row = 0;
    for (const engine::SequenceRows& rows : batch.sequences) {
      for (int32_t i = 0; i < rows.num_rows; ++i)
        Slot(rows, rows.first_position + i) = batch.tokens[row++];
    }
  }
  // Of all tokens up to the row.
  uint64_t Hash(const MicroBatch& batch, const engine::OutputRow& output) {
    int32_t first = 0;
    for (const engine::SequenceRows& rows : batch.sequences) {
      if (output.row < first + rows.num_rows) {
        uint64_t hash = kSeed;
        const int32_t last = rows.first_position + output.row - first;
        for (int32_t position = 0; position <= last; ++position)
          hash = Mix(hash, Slot(rows, position));
        return hash;
      }
      first += rows.num_rows;
    }
    return 0;
  }

  const std::string address_, instance_;
  const std::shared_ptr<State> cluster_;
  mutable std::mutex mutex_;
  std::mutex computing_;
  std::mutex calling_;  // held while a listener is called
  std::condition_variable changed_;
  std::deque<std::pair<std::shared_ptr<const MicroBatch>, std::vector<uint64_t>>> queue_;
  std::deque<uint64_t> beats_;
  bool ended_ = false, stopped_ = false, loaded_ = false;
  engine::StageSpec spec_;
  wire::LoadedStage stage_;
  std::string next_address_;
  std::vector<TokenId> kv_;  // [num_kv_blocks * kKvBlockPositions]
  uint64_t epoch_ = 0;
  uint64_t kv_id_ = 0;  // 0: nobody's
  std::shared_ptr<const Listener> listener_;
  std::thread thread_;
};

namespace {

class FakeLink : public wire::WorkerLink {
 public:
  FakeLink(std::shared_ptr<FakeCluster::Worker> worker, uint64_t epoch, uint64_t kv_id)
      : worker_(std::move(worker)), epoch_(epoch), kv_id_(kv_id) {}
  ~FakeLink() override { worker_->Detach(epoch_); }
  void Submit(std::shared_ptr<const MicroBatch> batch) override { worker_->Push(std::move(batch)); }
  uint64_t kv_id() const override { return kv_id_; }
  void SetEpoch(uint64_t) override {}
  void Heartbeat(uint64_t sequence) override { worker_->Beat(sequence); }

 private:
  std::shared_ptr<FakeCluster::Worker> worker_;
  uint64_t epoch_;
  uint64_t kv_id_;
};

}  // namespace

class FakeClient : public wire::WorkerClient {
 public:
  FakeClient(std::string address, std::shared_ptr<FakeCluster::State> cluster)
      : address_(std::move(address)), cluster_(std::move(cluster)) {}

  absl::StatusOr<wire::WorkerInfo> GetInfo(absl::Duration timeout) override {
    ASSIGN_OR_RETURN(const auto worker, Reach(timeout));
    return worker->Info();
  }
  absl::StatusOr<wire::LoadedStage> LoadStage(const wire::LoadRequest& request,
                                              const engine::LoadProgress& progress,
                                              absl::Duration patience) override {
    ASSIGN_OR_RETURN(const auto worker, Reach(patience));
    absl::Duration time;
    {
      const std::lock_guard lock(cluster_->mutex);
      const auto failure = cluster_->failing_loads.find(address_);
      if (failure != cluster_->failing_loads.end() && !failure->second.ok()) return failure->second;
      time = cluster_->load_times[address_];
    }
    if (worker->Holds(request)) time = absl::ZeroDuration();
    constexpr absl::Duration kTell = absl::Milliseconds(10);
    for (absl::Duration done; done < time; done += kTell) {
      absl::SleepFor(kTell);
      if (cluster_->Find(address_) != worker) return Unavailable("connection reset");
      if (progress && !progress(absl::ToInt64Milliseconds(done), absl::ToInt64Milliseconds(time)))
        return Cancelled("loading was given up");
    }
    if (worker->Load(request)) {
      const std::lock_guard lock(cluster_->mutex);
      ++cluster_->loads[address_];
    }
    if (progress) progress(1, 1);
    wire::LoadedStage stage;
    stage.fingerprint = request.spec.fingerprint;
    stage.layers = request.spec.layers;
    return stage;
  }
  absl::Status UnloadStage(absl::Duration) override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<wire::WorkerLink>> Attach(
      const AttachOptions& options, std::function<void(wire::WorkerEvent)> on_event,
      absl::Duration timeout) override {
    ASSIGN_OR_RETURN(const auto worker, Reach(timeout));
    const uint64_t kv_id = worker->Attach(options.epoch, options.kv_id, std::move(on_event));
    return std::make_unique<FakeLink>(worker, options.epoch, kv_id);
  }
  absl::StatusOr<std::string> ReadHeader(const std::string&, absl::Duration) override {
    return Unimplemented("a fake worker has no files");
  }
  absl::StatusOr<absl::Duration> Probe(size_t, absl::Duration) override {
    return absl::Microseconds(50);
  }

 private:
  absl::StatusOr<std::shared_ptr<FakeCluster::Worker>> Reach(absl::Duration timeout) {
    auto worker = cluster_->Find(address_);
    if (worker == nullptr) return Unavailable("connection refused");
    if (!worker->Answers(timeout)) return DeadlineExceeded("no answer");
    return worker;
  }

  const std::string address_;
  const std::shared_ptr<FakeCluster::State> cluster_;
};

FakeCluster::FakeCluster(const FakeModel& model) : state_(std::make_shared<State>()) {
  state_->model = model;
}

FakeCluster::~FakeCluster() {
  std::map<std::string, std::shared_ptr<Worker>> workers;
  {
    const std::lock_guard lock(state_->mutex);
    workers.swap(state_->workers);
  }
  for (const auto& [address, worker] : workers) worker->End();
}

void FakeCluster::AddWorker(const std::string& address) { Restart(address); }

void FakeCluster::Kill(const std::string& address) {
  std::shared_ptr<Worker> worker;
  {
    const std::lock_guard lock(state_->mutex);
    const auto found = state_->workers.find(address);
    if (found == state_->workers.end()) return;
    worker = found->second;
    state_->workers.erase(found);
    state_->in_flight = 0;
  }
  worker->End();
}

void FakeCluster::Cut(const std::string& address) {
  if (const auto worker = Find(address)) worker->Cut();
}

void FakeCluster::Restart(const std::string& address) {
  const std::lock_guard lock(state_->mutex);
  if (state_->workers.contains(address)) return;
  const std::string instance = fmt::format("life {}", ++state_->last_instance);
  state_->workers[address] = std::make_shared<Worker>(address, instance, state_);
}

void FakeCluster::Stop(const std::string& address) {
  if (const auto worker = Find(address)) worker->SetStopped(true);
}
void FakeCluster::Continue(const std::string& address) {
  if (const auto worker = Find(address)) worker->SetStopped(false);
}

void FakeCluster::SetStepTime(absl::Duration per_batch, absl::Duration per_row) {
  const std::lock_guard lock(state_->mutex);
  state_->per_batch = per_batch;
  state_->per_row = per_row;
}

void FakeCluster::SetLoadTime(const std::string& address, absl::Duration time) {
  const std::lock_guard lock(state_->mutex);
  state_->load_times[address] = time;
}

void FakeCluster::FailLoads(const std::string& address, const absl::Status& status) {
  const std::lock_guard lock(state_->mutex);
  state_->failing_loads[address] = status;
}

void FakeCluster::FailOnToken(TokenId token, const absl::Status& status, int times) {
  const std::lock_guard lock(state_->mutex);
  state_->failing_token = token;
  state_->token_failure = status;
  state_->token_failures_left = times;
}

int FakeCluster::loads(const std::string& address) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->loads.find(address);
  return found != state_->loads.end() ? found->second : 0;
}

int64_t FakeCluster::rows(const std::string& address) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->rows.find(address);
  return found != state_->rows.end() ? found->second : 0;
}

int FakeCluster::most_in_flight() const {
  const std::lock_guard lock(state_->mutex);
  return state_->most_in_flight;
}

std::shared_ptr<FakeCluster::Worker> FakeCluster::Find(const std::string& address) const {
  return state_->Find(address);
}

std::unique_ptr<wire::WorkerClient> FakeCluster::Connect(const std::string& address) {
  return std::make_unique<FakeClient>(address, state_);
}

}  // namespace baton::testing
