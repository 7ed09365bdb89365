#include "proto/grpc_worker_client.h"

#include <absl/time/clock.h>
#include <xxhash.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "baton/v1/worker.grpc.pb.h"
#include "engine/base/quote.h"
#include "engine/base/steady_time.h"
#include "proto/channel_options.h"
#include "proto/checksum.h"
#include "proto/grpc_worker_link.h"
#include "proto/load_convert.h"
#include "proto/status_convert.h"

namespace baton::wire {
namespace {

// A header holds the tokenizer: some 10 MB for the largest vocabularies.
constexpr size_t kMaxModelHeaderBytes = size_t{256} << 20;

constexpr auto kLookAtLoad = std::chrono::milliseconds(100);

// Ends a load that stands still, or that nobody wants any more, also while nothing arrives of it.
class LoadWatch {
 public:
  LoadWatch(const engine::LoadProgress& progress, absl::Duration patience,
            std::function<void()> end_call)
      : progress_(progress),
        patience_(patience),
        end_call_(std::move(end_call)),
        thread_([this](const std::stop_token& stop) { Run(stop); }) {}

  void Note(uint64_t done, uint64_t total) {
    const std::lock_guard lock(mutex_);
    if (done != done_ || total != total_) moved_ = SteadyNow();
    done_ = done;
    total_ = total;
  }
  // Why the call was ended from here.
  absl::Status ended() {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  void Run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (ended_.ok()) {
      wake_.wait_for(lock, stop, kLookAtLoad, [] { return false; });
      if (stop.stop_requested()) return;
      if (progress_ && !progress_(done_, total_)) {
        ended_ = Cancelled("loading was given up");
      } else if (SteadyNow() - moved_ >= patience_) {
        ended_ = DeadlineExceeded("loading: {} of {} bytes, and no progress in {}", done_, total_,
                                  absl::FormatDuration(patience_));
      }
    }
    end_call_();
  }

  const engine::LoadProgress& progress_;
  const absl::Duration patience_;
  const std::function<void()> end_call_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  uint64_t done_ = 0, total_ = 0;   // guarded by mutex_
  absl::Time moved_ = SteadyNow();  // guarded by mutex_
  absl::Status ended_;              // guarded by mutex_
  std::jthread thread_;             // last: uses all of the above
};

class GrpcWorkerClient : public WorkerClient {
 public:
  GrpcWorkerClient(std::string address, absl::StatusOr<std::shared_ptr<grpc::Channel>> channel)
      : address_(std::move(address)), channel_(std::move(channel)) {
    if (channel_.ok()) stub_ = v1::Worker::NewStub(*channel_);
  }

  absl::StatusOr<WorkerInfo> GetInfo(absl::Duration timeout) override {
    RETURN_IF_ERROR(channel_.status());
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    v1::WorkerInfo info;
    RETURN_IF_ERROR(Result(stub_->GetInfo(&context, v1::GetInfoRequest(), &info)));
    return FromProto(info);
  }

  absl::StatusOr<LoadedStage> LoadStage(const LoadRequest& request,
                                        const engine::LoadProgress& progress,
                                        absl::Duration patience) override {
    RETURN_IF_ERROR(channel_.status());
    v1::LoadStageRequest message;
    ToProto(request, &message);
    Seal(&message);
    grpc::ClientContext context;
    LoadWatch watch(progress, patience, [&context] { context.TryCancel(); });
    const auto reader = stub_->LoadStage(&context, message);
    v1::LoadProgress update;
    std::optional<LoadedStage> done;
    absl::Status sound;
    while (reader->Read(&update)) {
      if (sound = CheckSeal(&update); !sound.ok()) {
        context.TryCancel();
        break;
      }
      if (update.has_done()) done = FromProto(update.done());
      watch.Note(update.done_bytes(), update.total_bytes());
    }
    const absl::Status status = Result(reader->Finish());
    RETURN_IF_ERROR(Prefixed(sound, fmt::format("worker {}", address_)));
    if (status.ok() && done.has_value()) return *std::move(done);
    RETURN_IF_ERROR(Prefixed(watch.ended(), fmt::format("worker {}", address_)));
    RETURN_IF_ERROR(status);
    return Internal("worker {}: the answer to LoadStage ended early", address_);
  }

  absl::Status UnloadStage(absl::Duration timeout) override {
    RETURN_IF_ERROR(channel_.status());
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    v1::UnloadStageResponse response;
    return Result(stub_->UnloadStage(&context, v1::UnloadStageRequest(), &response));
  }

  absl::StatusOr<std::unique_ptr<WorkerLink>> Attach(const AttachOptions& options,
                                                     std::function<void(WorkerEvent)> on_event,
                                                     absl::Duration timeout) override {
    RETURN_IF_ERROR(channel_.status());
    return AttachOverGrpc(stub_.get(), address_, options, std::move(on_event), timeout);
  }

  absl::StatusOr<std::string> ReadHeader(const std::string& file_name,
                                         absl::Duration timeout) override {
    RETURN_IF_ERROR(channel_.status());
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    v1::ReadHeaderRequest request;
    request.set_file_name(file_name);
    const auto reader = stub_->ReadHeader(&context, request);
    v1::FileChunk chunk;
    std::string header;
    absl::Status wrong;
    while (reader->Read(&chunk)) {
      if (chunk.offset() != header.size() ||
          header.size() + chunk.data().size() > kMaxModelHeaderBytes ||
          chunk.hash() != XXH3_64bits(chunk.data().data(), chunk.data().size())) {
        wrong = DataLoss("worker {}: header of {}: a piece at byte {} is wrong", address_,
                         engine::Named(file_name), header.size());
        context.TryCancel();
        break;
      }
      header += chunk.data();
    }
    const absl::Status status = Result(reader->Finish());
    RETURN_IF_ERROR(wrong);
    RETURN_IF_ERROR(status);
    return header;
  }

  absl::StatusOr<uint64_t> KvFile(const KvFileRequest& request, absl::Duration timeout) override {
    RETURN_IF_ERROR(channel_.status());
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    v1::KvFileRequest message;
    ToProto(request, &message);
    Seal(&message);
    v1::KvFileResponse response;
    RETURN_IF_ERROR(Result(stub_->KvFile(&context, message, &response)));
    return response.bytes();
  }

  absl::StatusOr<absl::Duration> Probe(size_t payload_bytes, absl::Duration timeout) override {
    RETURN_IF_ERROR(channel_.status());
    grpc::ClientContext context;
    SetDeadline(context, timeout);
    v1::ProbeMessage request, answer;
    request.set_payload(std::string(payload_bytes, '\0'));
    const absl::Time start = SteadyNow();
    RETURN_IF_ERROR(Result(stub_->Probe(&context, request, &answer)));
    return SteadyNow() - start;
  }

 private:
  static void SetDeadline(grpc::ClientContext& context, absl::Duration timeout) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  }
  absl::Status Result(const grpc::Status& status) const {
    return Prefixed(FromGrpc(status), fmt::format("worker {}", address_));
  }

  const std::string address_;
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel_;
  std::unique_ptr<v1::Worker::Stub> stub_;
};

}  // namespace

std::unique_ptr<WorkerClient> GrpcWorkerConnector::Connect(const std::string& address) {
  return std::make_unique<GrpcWorkerClient>(address, MakeChannel(address, security_));
}

}  // namespace baton::wire
