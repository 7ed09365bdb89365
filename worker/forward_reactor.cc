#include "worker/forward_reactor.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "proto/checksum.h"
#include "proto/micro_batch_convert.h"
#include "proto/status_convert.h"
#include "proto/tensor_convert.h"
#include "proto/write_queue.h"
#include "worker/next_stage.h"

namespace baton::worker {
namespace {

using Credits = wire::WriteQueue<v1::ForwardCredit>;
constexpr size_t kMaxWaitingCredits = 4 * kForwardWindow;

class ForwardReactor : public grpc::ServerBidiReactor<v1::ForwardMessage, v1::ForwardCredit> {
 public:
  explicit ForwardReactor(Worker* worker)
      : worker_(worker),
        credits_(std::make_shared<Credits>(
            [this](const v1::ForwardCredit* credit) { StartWrite(credit); }, kMaxWaitingCredits)),
        waiting_(std::make_shared<std::atomic<int>>(0)) {
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return End(absl::OkStatus());
    if (absl::Status status = Handle(); !status.ok()) return End(status);
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override { credits_->OnWriteDone(ok); }
  void OnDone() override { delete this; }

 private:
  absl::Status Handle() {
    RETURN_IF_ERROR(wire::CheckSeal(&incoming_));
    const v1::ForwardMessage& message = incoming_;
    if (message.has_batch()) RETURN_IF_ERROR(Begin(message));
    if (batch_ == nullptr) return InvalidArgument("Forward: hidden states without a micro-batch");
    if (message.has_hidden())
      RETURN_IF_ERROR(
          Prefixed(hidden_.Add(message.hidden()), fmt::format("micro-batch {}", batch_->id)));
    return hidden_.complete() ? Deliver() : absl::OkStatus();
  }

  absl::Status Begin(const v1::ForwardMessage& message) {
    if (batch_ != nullptr)
      return InvalidArgument("Forward: micro-batch {} isn't complete, but another begins",
                             batch_->id);
    if (!greeted_) {
      fingerprint_ = message.fingerprint();
      first_layer_ = message.first_layer();
      greeted_ = true;
    }
    // At each micro-batch, because another stage may have been loaded since the last.
    ASSIGN_OR_RETURN(const Worker::Expected expected,
                     worker_->CheckSender(fingerprint_, first_layer_));
    if (*waiting_ >= kForwardWindow) {
      return ResourceExhausted("Forward: more than {} micro-batches without credit",
                               kForwardWindow);
    }
    ASSIGN_OR_RETURN(engine::MicroBatch batch, wire::FromProto(message.batch()));
    if (batch.rows() < 1 || batch.rows() > expected.max_rows) {
      return InvalidArgument("micro-batch {}: rows: got {}, expected 1 to {}", batch.id,
                             batch.rows(), expected.max_rows);
    }
    hidden_ = wire::HiddenStatesAssembler(batch.rows(), expected.hidden_size);
    batch_ = std::make_shared<const engine::MicroBatch>(std::move(batch));
    return absl::OkStatus();
  }

  absl::Status Deliver() {
    ++*waiting_;
    // May run after this reactor is gone.
    auto taken = [credits = credits_, waiting = waiting_] {
      --*waiting;
      v1::ForwardCredit credit;
      credit.set_batches(1);
      credits->Push(std::move(credit));
    };
    return worker_->Enqueue(std::exchange(batch_, nullptr), hidden_.Take(), std::move(taken));
  }

  void End(const absl::Status& status) {
    credits_->Close([this, status] { Finish(wire::ToGrpc(status)); });
  }

  Worker* const worker_;
  v1::ForwardMessage incoming_;

  // Touched by reactions only, which come one at a time.
  bool greeted_ = false;
  std::string fingerprint_;
  int32_t first_layer_ = 0;
  std::shared_ptr<const engine::MicroBatch>
      batch_;  // whose hidden states are on their way; null: none
  wire::HiddenStatesAssembler hidden_;

  const std::shared_ptr<Credits> credits_;
  const std::shared_ptr<std::atomic<int>>
      waiting_;  // delivered, not yet taken out of the worker's queue
};

}  // namespace

grpc::ServerBidiReactor<v1::ForwardMessage, v1::ForwardCredit>* NewForwardReactor(Worker* worker) {
  return new ForwardReactor(worker);
}

}  // namespace baton::worker
