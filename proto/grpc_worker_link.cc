#include "proto/grpc_worker_link.h"

#include <absl/synchronization/notification.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "proto/channel_options.h"
#include "proto/checksum.h"
#include "proto/load_convert.h"
#include "proto/micro_batch_convert.h"
#include "proto/status_convert.h"
#include "proto/version.h"
#include "proto/write_queue.h"

namespace baton::wire {
namespace {

// Micro-batches are bounded by the pipeline; this only stops a stream that no longer moves.
constexpr size_t kMaxWaitingMessages = 1024;

// Lives until gRPC has told its end; owned by the link, which waits for that.
class AttachReactor : public grpc::ClientBidiReactor<v1::CoordinatorMessage, v1::WorkerMessage> {
 public:
  AttachReactor(std::string address, std::function<void(WorkerEvent)> on_event)
      : address_(std::move(address)),
        on_event_(std::move(on_event)),
        outgoing_([this](const v1::CoordinatorMessage* message) { StartWrite(message); },
                  kMaxWaitingMessages) {}

  void Start(v1::Worker::Stub* stub) {
    stub->async()->Attach(&context_, this);
    AddHold();  // writes come from other threads; released by Stop
    StartRead(&incoming_);
    StartCall();
  }

  // What can't be sent any more is lost with the link, which says so.
  void Send(v1::CoordinatorMessage message) {
    if (!outgoing_.Push(std::move(message))) context_.TryCancel();
  }

  // Ends the stream for a reason of this side.
  void Fail(absl::Status status) {
    {
      const std::lock_guard lock(mutex_);
      if (own_error_.ok()) own_error_ = std::move(status);
    }
    context_.TryCancel();
    outgoing_.Close([this] { RemoveHold(); });
  }

  // OK once the worker's hello is there, or how the stream ended before.
  absl::Status WaitForHello(absl::Duration timeout) {
    std::unique_lock lock(mutex_);
    if (!greeted_.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                           [this] { return hello_status_.has_value(); })) {
      return DeadlineExceeded("worker {}: no answer to Attach within {}", address_,
                              absl::FormatDuration(timeout));
    }
    return *hello_status_;
  }

  uint64_t kv_id() const { return kv_id_; }  // once greeted

  // Ends the stream and returns when no callback runs any more.
  void Stop() {
    Silence();
    context_.TryCancel();
    outgoing_.Close([this] { RemoveHold(); });
    done_.WaitForNotification();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {  // OnDone tells why, once nothing is in flight
      outgoing_.Close([this] { RemoveHold(); });
      return;
    }
    if (absl::Status status = Handle(); !status.ok()) return Fail(std::move(status));
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override { outgoing_.OnWriteDone(ok); }

  void OnDone(const grpc::Status& status) override {
    absl::Status end = FromGrpc(status);
    {
      const std::lock_guard lock(mutex_);
      if (!own_error_.ok()) end = own_error_;
    }
    if (end.ok()) end = Unavailable("the worker ended the stream");
    end = Prefixed(end, fmt::format("worker {}", address_));
    // Before the hello there is no link: Attach returns the error.
    if (!Greet(end)) Emit(LinkClosed{end});
    done_.Notify();
  }

 private:
  // Versions first, as another one may seal in another way.
  absl::Status Check() {
    if (incoming_.has_hello()) {
      RETURN_IF_ERROR(CheckSameVersion("the worker", incoming_.hello().protocol_version(),
                                       incoming_.hello().build()));
    }
    return CheckSeal(&incoming_);
  }

  absl::Status Handle() {
    const absl::Status sound = Check();
    const v1::WorkerMessage& message = incoming_;
    if (message.has_hello()) {
      kv_id_ = message.hello().kv_id();
      Greet(Prefixed(sound, fmt::format("worker {}", address_)));
    }
    RETURN_IF_ERROR(sound);
    switch (message.message_case()) {
      case v1::WorkerMessage::kHello:
        return absl::OkStatus();
      case v1::WorkerMessage::kHeartbeat:
        Emit(FromProto(message.heartbeat()));
        return absl::OkStatus();
      case v1::WorkerMessage::kResult: {
        ASSIGN_OR_RETURN(std::optional<StepResult> result, results_.Add(message.result()));
        if (result.has_value()) Emit(*std::move(result));
        return absl::OkStatus();
      }
      case v1::WorkerMessage::kFailed:
        Emit(FromProto(message.failed()));
        return absl::OkStatus();
      case v1::WorkerMessage::kTimed:
        Emit(FromProto(message.timed()));
        return absl::OkStatus();
      case v1::WorkerMessage::MESSAGE_NOT_SET:
        break;
    }
    return InvalidArgument("a message of a kind that this build doesn't know");
  }

  // False if there was an answer already.
  bool Greet(absl::Status status) {
    {
      const std::lock_guard lock(mutex_);
      if (hello_status_.has_value()) return false;
      hello_status_ = std::move(status);
    }
    greeted_.notify_all();
    return true;
  }

  void Emit(WorkerEvent event) {
    const std::lock_guard lock(event_mutex_);
    if (on_event_) on_event_(std::move(event));
  }
  void Silence() {
    const std::lock_guard lock(event_mutex_);
    on_event_ = nullptr;
  }

  const std::string address_;
  grpc::ClientContext context_;
  v1::WorkerMessage incoming_;
  StepResultAssembler results_;  // touched by OnReadDone only

  std::mutex event_mutex_;
  std::function<void(WorkerEvent)> on_event_;  // guarded by event_mutex_

  uint64_t kv_id_ = 0;  // written before greeted_

  std::mutex mutex_;
  std::optional<absl::Status> hello_status_;  // guarded by mutex_
  absl::Status own_error_;                    // guarded by mutex_; why this side ended the stream
  std::condition_variable greeted_;
  absl::Notification done_;
  WriteQueue<v1::CoordinatorMessage> outgoing_;
};

class GrpcWorkerLink : public WorkerLink {
 public:
  explicit GrpcWorkerLink(std::unique_ptr<AttachReactor> reactor) : reactor_(std::move(reactor)) {}
  ~GrpcWorkerLink() override { reactor_->Stop(); }

  uint64_t kv_id() const override { return reactor_->kv_id(); }

  void Submit(std::shared_ptr<const engine::MicroBatch> batch) override {
    v1::CoordinatorMessage message;
    ToProto(*batch, message.mutable_batch());
    if (const size_t bytes = message.ByteSizeLong() + kSealBytes; bytes > kMaxMessageBytes) {
      return reactor_->Fail(
          ResourceExhausted("micro-batch {}: takes {} bytes on the wire, at most {} fit a message",
                            batch->id, bytes, kMaxMessageBytes));
    }
    reactor_->Send(std::move(message));
  }

  void SetEpoch(uint64_t epoch) override {
    v1::CoordinatorMessage message;
    message.mutable_set_epoch()->set_epoch(epoch);
    reactor_->Send(std::move(message));
  }

  void Heartbeat(uint64_t sequence) override {
    v1::CoordinatorMessage message;
    message.mutable_heartbeat()->set_sequence(sequence);
    reactor_->Send(std::move(message));
  }

 private:
  const std::unique_ptr<AttachReactor> reactor_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerLink>> AttachOverGrpc(
    v1::Worker::Stub* stub, const std::string& address, const WorkerClient::AttachOptions& options,
    std::function<void(WorkerEvent)> on_event, absl::Duration timeout) {
  auto reactor = std::make_unique<AttachReactor>(address, std::move(on_event));
  reactor->Start(stub);
  v1::CoordinatorMessage message;
  v1::CoordinatorMessage::Hello& hello = *message.mutable_hello();
  hello.set_protocol_version(kProtocolVersion);
  hello.set_build(std::string(BuildId()));
  hello.set_fingerprint(options.fingerprint);
  hello.set_epoch(options.epoch);
  hello.set_lease_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(options.lease)));
  hello.set_kv_id(options.kv_id);
  reactor->Send(std::move(message));
  if (absl::Status status = reactor->WaitForHello(timeout); !status.ok()) {
    reactor->Stop();
    return status;
  }
  return std::make_unique<GrpcWorkerLink>(std::move(reactor));
}

}  // namespace baton::wire
