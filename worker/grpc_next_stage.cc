#include "worker/grpc_next_stage.h"

#include <absl/synchronization/notification.h>
#include <absl/time/clock.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "baton/v1/worker.grpc.pb.h"
#include "engine/base/steady_time.h"
#include "proto/channel_options.h"
#include "proto/checksum.h"
#include "proto/link_speed.h"
#include "proto/micro_batch_convert.h"
#include "proto/status_convert.h"
#include "proto/tensor_convert.h"
#include "proto/write_queue.h"

namespace baton::worker {
namespace {

// A worker that restarts needs a moment to listen again.
constexpr absl::Duration kConnectTimeout = absl::Seconds(3);
constexpr absl::Duration kConnectSlice =
    absl::Milliseconds(50);  // between looks at whether connecting still makes sense
// The window bounds them; this is never reached.
constexpr size_t kMaxForwardMessages = size_t{1} << 16;

// One stream. Owned by GrpcNextStage; gRPC's threads call the reactions.
class ForwardStream : public grpc::ClientBidiReactor<v1::ForwardMessage, v1::ForwardCredit> {
 public:
  // `on_credit` and `on_end` come from gRPC's threads; on_end is the last call.
  ForwardStream(v1::Worker::Stub* stub, std::function<void(uint32_t)> on_credit,
                std::function<void(absl::Status)> on_end)
      : on_credit_(std::move(on_credit)),
        on_end_(std::move(on_end)),
        outgoing_([this](const v1::ForwardMessage* message) { StartWrite(message); },
                  kMaxForwardMessages) {
    stub->async()->Forward(&context_, this);
    AddHold();  // writes come from the compute thread
    StartRead(&credit_);
    StartCall();
  }
  ~ForwardStream() override {
    Cancel();
    EndWrites();
    done_.WaitForNotification();
  }

  bool Send(v1::ForwardMessage message) { return outgoing_.Push(std::move(message)); }
  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      EndWrites();
      return;
    }
    if (!wire::CheckSeal(&credit_).ok()) {
      Cancel();
      return EndWrites();
    }
    on_credit_(credit_.batches());
    StartRead(&credit_);
  }
  void OnWriteDone(bool ok) override { outgoing_.OnWriteDone(ok); }
  void OnDone(const grpc::Status& status) override {
    on_end_(wire::FromGrpc(status));
    done_.Notify();
  }

 private:
  void EndWrites() {
    outgoing_.Close([this] { RemoveHold(); });
  }

  const std::function<void(uint32_t)> on_credit_;
  const std::function<void(absl::Status)> on_end_;
  grpc::ClientContext context_;
  v1::ForwardCredit credit_;
  wire::WriteQueue<v1::ForwardMessage> outgoing_;
  absl::Notification done_;
};

class GrpcNextStage : public NextStage {
 public:
  GrpcNextStage(NextStageOptions options, std::shared_ptr<grpc::Channel> channel)
      : options_(std::move(options)),
        channel_(std::move(channel)),
        stub_(v1::Worker::NewStub(channel_)) {
    channel_->GetState(/*try_to_connect=*/true);
  }
  ~GrpcNextStage() override {
    Close();
    stream_.reset();
  }

  absl::Status Send(std::shared_ptr<const engine::MicroBatch> batch,
                    engine::HiddenStates hidden) override {
    RETURN_IF_ERROR(OpenStream(batch->epoch));
    RETURN_IF_ERROR(TakeCredit(*batch));
    return SendPieces(*batch, hidden);
  }

  void SetEpoch(uint64_t epoch) override {
    {
      const std::lock_guard lock(mutex_);
      epoch_ = std::max(epoch_, epoch);
    }
    changed_.notify_all();
  }

  void Close() override {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

  absl::StatusOr<wire::LinkSpeed> Measure() override {
    if (!channel_->WaitForConnected(absl::ToChronoTime(absl::Now() + kConnectTimeout)))
      return Lost("cannot be reached");
    const wire::Prober probe = [this](size_t bytes, absl::Duration timeout) {
      return Probe(bytes, timeout);
    };
    return wire::MeasureLink(probe);
  }

 private:
  struct Sent {
    uint64_t batch_id = 0;
    uint64_t epoch = 0;
  };

  absl::StatusOr<absl::Duration> Probe(size_t bytes, absl::Duration timeout) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    v1::ProbeMessage request, answer;
    request.set_payload(std::string(bytes, '\0'));
    const absl::Time begin = SteadyNow();
    const grpc::Status status = stub_->Probe(&context, request, &answer);
    if (!status.ok()) return wire::FromGrpc(status);
    return SteadyNow() - begin;
  }

  absl::Status Lost(std::string_view why) const {
    return Unavailable("next worker {}: {}", options_.address, why);
  }

  // Cancelled where a batch of this epoch need not be sent. With mutex_ held.
  absl::Status CheckWanted(uint64_t epoch) const {
    if (closed_ || epoch < epoch_)
      return Cancelled("next worker {}: not needed any more", options_.address);
    return absl::OkStatus();
  }

  // A stream that works, and for each epoch a new one: what a flipped bit in its framing has
  // spoilt goes with the old. Only the compute thread opens and replaces streams.
  absl::Status OpenStream(uint64_t epoch) {
    {
      const std::lock_guard lock(mutex_);
      RETURN_IF_ERROR(CheckWanted(epoch));
      if (stream_ != nullptr && !ended_ && epoch <= stream_epoch_) return absl::OkStatus();
      if (!sent_.empty() && epoch <= stream_epoch_) return Lost(Message(end_));
    }
    stream_.reset();
    RETURN_IF_ERROR(WaitUntilConnected(epoch));
    {
      const std::lock_guard lock(mutex_);
      sent_.clear();
      ended_ = false;
      stream_epoch_ = epoch;
    }
    greeted_ = false;
    stream_ = std::make_unique<ForwardStream>(
        stub_.get(), [this](uint32_t batches) { OnCredit(batches); },
        [this](absl::Status status) { OnEnd(std::move(status)); });
    return absl::OkStatus();
  }

  absl::Status WaitUntilConnected(uint64_t epoch) {
    const absl::Time deadline = SteadyNow() + kConnectTimeout;
    while (!channel_->WaitForConnected(absl::ToChronoTime(absl::Now() + kConnectSlice))) {
      if (SteadyNow() >= deadline) return Lost("cannot be reached");
      const std::lock_guard lock(mutex_);
      RETURN_IF_ERROR(CheckWanted(epoch));
    }
    return absl::OkStatus();
  }

  absl::Status TakeCredit(const engine::MicroBatch& batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return ended_ || sent_.size() < kForwardWindow || !CheckWanted(batch.epoch).ok();
    });
    RETURN_IF_ERROR(CheckWanted(batch.epoch));
    if (ended_) return Lost(Message(end_));
    sent_.push_back({batch.id, batch.epoch});
    return absl::OkStatus();
  }

  absl::Status SendPieces(const engine::MicroBatch& batch, const engine::HiddenStates& hidden) {
    const uint64_t bytes = wire::WireBytes(options_.wire_type, hidden.rows, hidden.cols);
    uint64_t offset = 0;
    do {
      v1::ForwardMessage message;
      if (!std::exchange(greeted_, true)) {
        message.set_fingerprint(options_.fingerprint);
        message.set_first_layer(options_.first_layer);
      }
      if (offset == 0) wire::ToProto(batch, message.mutable_batch());
      wire::CutPiece(hidden, options_.wire_type, offset, wire::kMaxChunkBytes,
                     message.mutable_hidden());
      offset += message.hidden().data().size();
      if (const size_t size = message.ByteSizeLong() + wire::kSealBytes;
          size > wire::kMaxMessageBytes) {
        const std::lock_guard lock(mutex_);
        sent_.pop_back();
        return ResourceExhausted(
            "micro-batch {}: takes {} bytes on the wire, at most {} fit a message", batch.id, size,
            wire::kMaxMessageBytes);
      }
      if (!stream_->Send(std::move(message))) {
        stream_->Cancel();  // over, or broken on this side alone
        break;              // OnEnd has the reason, and tells of this batch
      }
    } while (offset < bytes);
    return absl::OkStatus();
  }

  void OnCredit(uint32_t batches) {
    {
      const std::lock_guard lock(mutex_);
      sent_.erase(sent_.begin(), sent_.begin() + std::min<size_t>(batches, sent_.size()));
    }
    changed_.notify_all();
  }

  void OnEnd(absl::Status status) {
    std::optional<wire::StepFailed> lost;
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      end_ = status.ok() ? Unavailable("it ended the stream") : std::move(status);
      if (!closed_ && !sent_.empty() && sent_.back().epoch >= epoch_) {
        lost = {.batch_id = sent_.front().batch_id,
                .epoch = sent_.back().epoch,
                .status = Lost(Message(end_))};
      }
    }
    changed_.notify_all();
    if (lost.has_value() && options_.on_lost) options_.on_lost(*std::move(lost));
  }

  const NextStageOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::Worker::Stub> stub_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;        // guarded by mutex_
  uint64_t epoch_ = 0;         // guarded by mutex_; older batches are not wanted
  bool ended_ = false;         // guarded by mutex_; the stream is over, by …
  absl::Status end_;           // guarded by mutex_
  uint64_t stream_epoch_ = 0;  // guarded by mutex_; of the stream
  std::deque<Sent> sent_;      // guarded by mutex_; not yet out of the receiver's queue

  bool greeted_ = false;                   // compute thread only
  std::unique_ptr<ForwardStream> stream_;  // compute thread only, until the end
};

}  // namespace

NextStageFactory GrpcNextStageFactory(wire::Security security) {
  return [security = std::move(security)](
             NextStageOptions options) -> absl::StatusOr<std::unique_ptr<NextStage>> {
    ASSIGN_OR_RETURN(auto channel, wire::MakeChannel(options.address, security));
    return std::make_unique<GrpcNextStage>(std::move(options), std::move(channel));
  };
}

}  // namespace baton::worker
