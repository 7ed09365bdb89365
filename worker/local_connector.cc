#include "worker/local_connector.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <optional>
#include <utility>

#include "worker/serial_executor.h"

namespace baton::worker {
namespace {

constexpr size_t kMaxWaitingEvents = 4096;

absl::Status Gone(const std::string& address) {
  return Unavailable("worker {}: cannot be reached", address);
}

}  // namespace

// Events of one link on their way to its coordinator. Those that arise inside a call of the
// coordinator itself go through a thread of the link, so that it may hold a lock while it calls.
class LocalConnector::EventGate {
 public:
  explicit EventGate(std::function<void(wire::WorkerEvent)> on_event)
      : on_event_(std::move(on_event)), later_(kMaxWaitingEvents) {}

  void Emit(wire::WorkerEvent event) {
    if (calling_ != this) return Deliver(std::move(event));
    if (!later_.Run([this, event = std::move(event)] { Deliver(event); }))
      Close();  // a coordinator that takes no events
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    on_event_ = nullptr;
  }

  // While one lives, this thread is inside a call of the coordinator.
  class Call {
   public:
    explicit Call(EventGate* gate) { calling_ = gate; }
    ~Call() { calling_ = nullptr; }
  };

 private:
  void Deliver(wire::WorkerEvent event) {
    const std::lock_guard lock(mutex_);
    if (on_event_) on_event_(std::move(event));
  }

  static thread_local const EventGate* calling_;

  std::mutex mutex_;
  std::function<void(wire::WorkerEvent)> on_event_;  // guarded by mutex_
  SerialExecutor later_;                             // ends first
};
thread_local const LocalConnector::EventGate* LocalConnector::EventGate::calling_ = nullptr;

class LocalConnector::Link : public wire::WorkerLink {
 public:
  Link(std::string address, std::weak_ptr<Worker> worker, uint64_t attachment, uint64_t kv_id,
       std::shared_ptr<EventGate> gate)
      : address_(std::move(address)),
        worker_(std::move(worker)),
        attachment_(attachment),
        kv_id_(kv_id),
        gate_(std::move(gate)) {}
  ~Link() override {
    gate_->Close();
    if (const auto worker = worker_.lock(); worker != nullptr) worker->Detach(attachment_);
  }

  uint64_t kv_id() const override { return kv_id_; }
  void Submit(std::shared_ptr<const engine::MicroBatch> batch) override {
    const EventGate::Call call(gate_.get());
    if (const auto worker = worker_.lock(); worker != nullptr)
      worker->Submit(attachment_, std::move(batch));
  }
  void SetEpoch(uint64_t epoch) override {
    const EventGate::Call call(gate_.get());
    if (const auto worker = worker_.lock(); worker != nullptr) worker->SetEpoch(attachment_, epoch);
  }
  void Heartbeat(uint64_t sequence) override {
    const EventGate::Call call(gate_.get());
    if (const auto worker = worker_.lock(); worker != nullptr)
      worker->Heartbeat(attachment_, sequence);
  }

 private:
  const std::string address_;
  const std::weak_ptr<Worker> worker_;
  const uint64_t attachment_;
  const uint64_t kv_id_;
  const std::shared_ptr<EventGate> gate_;
};

class LocalConnector::Client : public wire::WorkerClient {
 public:
  Client(LocalConnector* connector, std::string address)
      : connector_(connector), address_(std::move(address)) {}

  absl::StatusOr<wire::WorkerInfo> GetInfo(absl::Duration) override {
    const auto worker = connector_->Find(address_);
    if (worker == nullptr) return Gone(address_);
    return worker->Info();
  }
  absl::StatusOr<wire::LoadedStage> LoadStage(const wire::LoadRequest& request,
                                              const engine::LoadProgress& progress,
                                              absl::Duration) override {
    const auto worker = connector_->Find(address_);
    if (worker == nullptr) return Gone(address_);
    return worker->Load(request, progress);
  }
  absl::Status UnloadStage(absl::Duration) override {
    const auto worker = connector_->Find(address_);
    if (worker == nullptr) return Gone(address_);
    worker->Unload();
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<wire::WorkerLink>> Attach(
      const AttachOptions& options, std::function<void(wire::WorkerEvent)> on_event,
      absl::Duration) override {
    const auto worker = connector_->Find(address_);
    if (worker == nullptr) return Gone(address_);
    auto gate = std::make_shared<EventGate>(std::move(on_event));
    uint64_t kv_id = 0;
    ASSIGN_OR_RETURN(const uint64_t attachment,
                     worker->Attach(
                         options, [&kv_id](uint64_t id) { kv_id = id; },
                         [gate](wire::WorkerEvent event) { gate->Emit(std::move(event)); }));
    return std::make_unique<Link>(address_, worker, attachment, kv_id, std::move(gate));
  }
  absl::StatusOr<std::string> ReadHeader(const std::string& file_name, absl::Duration) override {
    return Unimplemented("worker {}: {}: workers of this process have the coordinator's own files",
                         address_, file_name);
  }
  absl::StatusOr<uint64_t> KvFile(const wire::KvFileRequest& request, absl::Duration) override {
    const auto worker = connector_->Find(address_);
    if (worker == nullptr) return Gone(address_);
    return worker->KvFile(request);
  }
  absl::StatusOr<absl::Duration> Probe(size_t, absl::Duration) override {
    return absl::ZeroDuration();
  }

 private:
  LocalConnector* const connector_;
  const std::string address_;
};

class LocalConnector::Next : public NextStage {
 public:
  Next(LocalConnector* connector, NextStageOptions options)
      : connector_(connector), options_(std::move(options)) {}
  ~Next() override { Close(); }

  absl::Status Send(std::shared_ptr<const engine::MicroBatch> batch,
                    engine::HiddenStates hidden) override {
    RETURN_IF_ERROR(window_->Take(batch->epoch));
    const auto worker = Receiver(batch->epoch);
    absl::Status status =
        worker != nullptr ? worker->CheckSender(options_.fingerprint, options_.first_layer).status()
                          : Gone(options_.address);
    if (status.ok())
      status = worker->Enqueue(std::move(batch), std::move(hidden),
                               [window = window_] { window->Return(); });
    if (!status.ok()) window_->Return();
    return Prefixed(status, "next stage");
  }
  void SetEpoch(uint64_t epoch) override { window_->SetEpoch(epoch); }
  void Close() override { window_->Close(); }

 private:
  // Outlives the stage: micro-batches in the receiver's queue give their place back.
  class Window {
   public:
    absl::Status Take(uint64_t epoch) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return used_ < kForwardWindow || closed_ || epoch < epoch_; });
      if (closed_ || epoch < epoch_) return Cancelled("next stage: not needed any more");
      ++used_;
      return absl::OkStatus();
    }
    void Return() {
      const std::lock_guard lock(mutex_);
      --used_;
      changed_.notify_all();
    }
    void SetEpoch(uint64_t epoch) {
      const std::lock_guard lock(mutex_);
      epoch_ = std::max(epoch_, epoch);
      changed_.notify_all();
    }
    void Close() {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      changed_.notify_all();
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    int used_ = 0;
    uint64_t epoch_ = 0;
    bool closed_ = false;
  };

  // The worker that got the first batch of this epoch; one that took its place is for newer epochs.
  std::shared_ptr<Worker> Receiver(uint64_t epoch) {
    std::shared_ptr<Worker> worker = receiver_.lock();
    if (worker == nullptr && (!receiver_epoch_.has_value() || epoch > *receiver_epoch_)) {
      worker = connector_->Find(options_.address);
      receiver_ = worker;
    }
    receiver_epoch_ = epoch;
    return worker;
  }

  LocalConnector* const connector_;
  const NextStageOptions options_;
  const std::shared_ptr<Window> window_ = std::make_shared<Window>();
  std::weak_ptr<Worker> receiver_;          // compute thread only
  std::optional<uint64_t> receiver_epoch_;  // compute thread only
};

LocalConnector::~LocalConnector() {
  // Outside the lock: a worker that ends may look for the next one.
  std::map<std::string, std::shared_ptr<Worker>> workers;
  {
    const std::lock_guard lock(mutex_);
    workers.swap(workers_);
  }
}

void LocalConnector::Add(const std::string& address, WorkerOptions options,
                         std::unique_ptr<StageLoader> loader) {
  auto worker = std::make_shared<Worker>(std::move(options), std::move(loader),
                                         [this](NextStageOptions next) {
                                           return absl::StatusOr<std::unique_ptr<NextStage>>(
                                               std::make_unique<Next>(this, std::move(next)));
                                         });
  const std::lock_guard lock(mutex_);
  workers_[address] = std::move(worker);
}

void LocalConnector::Remove(const std::string& address) {
  std::shared_ptr<Worker> worker;
  {
    const std::lock_guard lock(mutex_);
    if (const auto entry = workers_.extract(address); !entry.empty())
      worker = std::move(entry.mapped());
  }
}

std::shared_ptr<Worker> LocalConnector::Find(const std::string& address) {
  const std::lock_guard lock(mutex_);
  const auto entry = workers_.find(address);
  return entry != workers_.end() ? entry->second : nullptr;
}

std::unique_ptr<wire::WorkerClient> LocalConnector::Connect(const std::string& address) {
  return std::make_unique<Client>(this, address);
}

}  // namespace baton::worker
