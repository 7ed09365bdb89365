#include "worker/attach_reactor.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "proto/checksum.h"
#include "proto/load_convert.h"
#include "proto/micro_batch_convert.h"
#include "proto/status_convert.h"
#include "proto/version.h"
#include "proto/write_queue.h"

namespace baton::worker {
namespace {

// A coordinator that doesn't read for so many messages is as good as gone.
constexpr size_t kMaxUnreadMessages = 4096;
constexpr absl::Duration kMinLease = absl::Milliseconds(200);
constexpr absl::Duration kMaxLease = absl::Minutes(10);

class AttachReactor : public grpc::ServerBidiReactor<v1::CoordinatorMessage, v1::WorkerMessage> {
 public:
  AttachReactor(grpc::CallbackServerContext* context, Worker* worker)
      : context_(context),
        worker_(worker),
        outgoing_([this](const v1::WorkerMessage* message) { StartWrite(message); },
                  kMaxUnreadMessages) {
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return End(absl::OkStatus());
    if (absl::Status status = Handle(); !status.ok()) return End(status);
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override { outgoing_.OnWriteDone(ok); }
  void OnDone() override {
    if (attachment_.has_value()) worker_->Detach(*attachment_);
    delete this;
  }

 private:
  absl::Status Handle() {
    const v1::CoordinatorMessage& message = incoming_;
    // First, as another version may seal in another way.
    if (message.has_hello()) {
      RETURN_IF_ERROR(wire::CheckSameVersion("the coordinator", message.hello().protocol_version(),
                                             message.hello().build()));
    }
    RETURN_IF_ERROR(wire::CheckSeal(&incoming_));
    if (!attachment_.has_value()) {
      if (!message.has_hello())
        return FailedPrecondition("Attach: the first message must be a hello");
      return Greet(message.hello());
    }
    switch (message.message_case()) {
      case v1::CoordinatorMessage::kHeartbeat:
        worker_->Heartbeat(*attachment_, message.heartbeat().sequence());
        return absl::OkStatus();
      case v1::CoordinatorMessage::kBatch: {
        ASSIGN_OR_RETURN(engine::MicroBatch batch, wire::FromProto(message.batch()));
        worker_->Submit(*attachment_, std::make_shared<const engine::MicroBatch>(std::move(batch)));
        return absl::OkStatus();
      }
      case v1::CoordinatorMessage::kSetEpoch:
        worker_->SetEpoch(*attachment_, message.set_epoch().epoch());
        return absl::OkStatus();
      case v1::CoordinatorMessage::kHello:
        return FailedPrecondition("Attach: a second hello");
      case v1::CoordinatorMessage::MESSAGE_NOT_SET:
        break;
    }
    return InvalidArgument("Attach: a message of a kind that this build doesn't know");
  }

  absl::Status Greet(const v1::CoordinatorMessage::Hello& hello) {
    v1::WorkerMessage answer;
    wire::ToProto(worker_->Info(), answer.mutable_hello());
    const wire::WorkerClient::AttachOptions options{
        .fingerprint = hello.fingerprint(),
        .epoch = hello.epoch(),
        .lease = std::clamp(absl::Milliseconds(hello.lease_ms()), kMinLease, kMaxLease),
        .kv_id = hello.kv_id()};
    const auto accepted = [&](uint64_t kv_id) {
      answer.mutable_hello()->set_kv_id(kv_id);
      Push(std::move(answer));
    };
    ASSIGN_OR_RETURN(attachment_,
                     worker_->Attach(options, accepted,
                                     [this](wire::WorkerEvent event) { Send(std::move(event)); }));
    return absl::OkStatus();
  }

  // From the worker's threads, until Detach.
  void Send(wire::WorkerEvent event) {
    if (const auto* closed = std::get_if<wire::LinkClosed>(&event)) {
      End(closed->status);
      if (absl::IsDeadlineExceeded(closed->status))
        context_->TryCancel();  // a silent peer takes no goodbye
      return;
    }
    if (auto* result = std::get_if<wire::StepResult>(&event)) {
      for (v1::WorkerMessage& message : wire::ToProto(*result)) Push(std::move(message));
      return;
    }
    v1::WorkerMessage message;
    if (auto* failed = std::get_if<wire::StepFailed>(&event))
      wire::ToProto(*failed, message.mutable_failed());
    if (auto* timed = std::get_if<wire::StepTimed>(&event))
      wire::ToProto(*timed, message.mutable_timed());
    if (auto* heartbeat = std::get_if<wire::WorkerHeartbeat>(&event))
      wire::ToProto(*heartbeat, message.mutable_heartbeat());
    Push(std::move(message));
  }

  void Push(v1::WorkerMessage message) {
    if (outgoing_.Push(std::move(message))) return;
    context_->TryCancel();  // over already, or so slow that only this ends it
  }

  void End(const absl::Status& status) {
    outgoing_.Close([this, status] { Finish(wire::ToGrpc(status)); });
  }

  grpc::CallbackServerContext* const context_;
  Worker* const worker_;
  v1::CoordinatorMessage incoming_;
  std::optional<uint64_t> attachment_;  // touched by reactions only, which come one at a time
  wire::WriteQueue<v1::WorkerMessage> outgoing_;
};

}  // namespace

grpc::ServerBidiReactor<v1::CoordinatorMessage, v1::WorkerMessage>* NewAttachReactor(
    grpc::CallbackServerContext* context, Worker* worker) {
  return new AttachReactor(context, worker);
}

}  // namespace baton::worker
