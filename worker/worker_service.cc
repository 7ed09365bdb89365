#include "worker/worker_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "proto/channel_options.h"
#include "proto/checksum.h"
#include "proto/load_convert.h"
#include "proto/peer_role.h"
#include "proto/status_convert.h"
#include "proto/version.h"
#include "proto/write_queue.h"
#include "worker/attach_reactor.h"
#include "worker/file_reactors.h"
#include "worker/forward_reactor.h"

namespace baton::worker {
namespace {

constexpr size_t kMaxWaitingLoads = 4;
constexpr size_t kMaxWaitingReads = 64;
constexpr size_t kMaxWaitingUpdates = 64;
constexpr auto kUpdateInterval = std::chrono::milliseconds(100);

class LoadReactor : public grpc::ServerWriteReactor<v1::LoadProgress> {
 public:
  LoadReactor(grpc::CallbackServerContext* context, const v1::LoadStageRequest& request,
              Worker* worker, SerialExecutor* loads)
      : context_(context),
        worker_(worker),
        request_(request),
        updates_([this](const v1::LoadProgress* update) { StartWrite(update); },
                 kMaxWaitingUpdates) {
    // The job alone ends the stream, so the reactor outlives it.
    if (!loads->Run([this] { End(Load()); })) End(ResourceExhausted("too many loads are waiting"));
  }

  void OnWriteDone(bool ok) override { updates_.OnWriteDone(ok); }
  void OnDone() override { delete this; }

 private:
  absl::Status Load() {
    RETURN_IF_ERROR(
        wire::CheckSameVersion("the coordinator", request_.protocol_version(), request_.build()));
    RETURN_IF_ERROR(wire::CheckSeal(&request_));
    ASSIGN_OR_RETURN(const wire::LoadRequest request, wire::FromProto(request_));
    const auto progress = [this](uint64_t done, uint64_t total) { return Report(done, total); };
    ASSIGN_OR_RETURN(done_, worker_->Load(request, progress));
    return absl::OkStatus();
  }

  bool Report(uint64_t done_bytes, uint64_t total_bytes) {
    const auto now = std::chrono::steady_clock::now();
    if (now - reported_ >= kUpdateInterval) {
      reported_ = now;
      v1::LoadProgress update;
      update.set_done_bytes(done_bytes);
      update.set_total_bytes(total_bytes);
      updates_.Push(std::move(update));
    }
    return !context_->IsCancelled();
  }

  void End(const absl::Status& status) {
    if (!status.ok()) {
      spdlog::error("loading layers {}-{}: {}", request_.layer_begin(), request_.layer_end() - 1,
                    Message(status));
      updates_.Close([this, status] { Finish(wire::ToGrpc(status)); });
      return;
    }
    v1::LoadProgress update;
    update.set_done_bytes(done_.weights_bytes);
    update.set_total_bytes(done_.weights_bytes);
    wire::ToProto(done_, update.mutable_done());
    updates_.Push(std::move(update));
    updates_.CloseWhenWritten([this] { Finish(grpc::Status::OK); });
  }

  grpc::CallbackServerContext* const context_;
  Worker* const worker_;
  v1::LoadStageRequest request_;
  wire::LoadedStage done_;
  std::chrono::steady_clock::time_point reported_;
  wire::WriteQueue<v1::LoadProgress> updates_;
};

// A stream that ends before it begins.
template <typename Reactor>
class Refused : public Reactor {
 public:
  explicit Refused(const absl::Status& status) { this->Finish(wire::ToGrpc(status)); }
  void OnDone() override { delete this; }
};

// Coordinators command; a worker may bring hidden states and read parts.
absl::Status CheckCoordinator(grpc::CallbackServerContext* context) {
  return wire::CheckPeerRole(*context->auth_context(), {wire::Role::kCoordinator});
}
absl::Status CheckMember(grpc::CallbackServerContext* context) {
  return wire::CheckPeerRole(*context->auth_context(),
                             {wire::Role::kCoordinator, wire::Role::kWorker});
}

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(wire::ToGrpc(status));
  return reactor;
}

}  // namespace

WorkerService::WorkerService(Worker* worker, std::string models_dir)
    : worker_(worker),
      models_dir_(std::move(models_dir)),
      loads_(kMaxWaitingLoads),
      reads_(kMaxWaitingReads) {}

grpc::ServerUnaryReactor* WorkerService::GetInfo(grpc::CallbackServerContext* context,
                                                 const v1::GetInfoRequest*,
                                                 v1::WorkerInfo* response) {
  if (absl::Status status = CheckMember(context); !status.ok()) return Answer(context, status);
  wire::ToProto(worker_->Info(), response);
  return Answer(context, absl::OkStatus());
}

grpc::ServerWriteReactor<v1::LoadProgress>* WorkerService::LoadStage(
    grpc::CallbackServerContext* context, const v1::LoadStageRequest* request) {
  if (absl::Status status = CheckCoordinator(context); !status.ok())
    return new Refused<grpc::ServerWriteReactor<v1::LoadProgress>>(status);
  return new LoadReactor(context, *request, worker_, &loads_);
}

grpc::ServerUnaryReactor* WorkerService::UnloadStage(grpc::CallbackServerContext* context,
                                                     const v1::UnloadStageRequest*,
                                                     v1::UnloadStageResponse*) {
  if (absl::Status status = CheckCoordinator(context); !status.ok()) return Answer(context, status);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool accepted = loads_.Run([this, reactor] {
    worker_->Unload();
    spdlog::info("unloaded");
    reactor->Finish(grpc::Status::OK);
  });
  if (!accepted) reactor->Finish(wire::ToGrpc(ResourceExhausted("too many loads are waiting")));
  return reactor;
}

grpc::ServerBidiReactor<v1::CoordinatorMessage, v1::WorkerMessage>* WorkerService::Attach(
    grpc::CallbackServerContext* context) {
  if (absl::Status status = CheckCoordinator(context); !status.ok())
    return new Refused<grpc::ServerBidiReactor<v1::CoordinatorMessage, v1::WorkerMessage>>(status);
  return NewAttachReactor(context, worker_);
}

grpc::ServerBidiReactor<v1::ForwardMessage, v1::ForwardCredit>* WorkerService::Forward(
    grpc::CallbackServerContext* context) {
  if (absl::Status status = CheckMember(context); !status.ok())
    return new Refused<grpc::ServerBidiReactor<v1::ForwardMessage, v1::ForwardCredit>>(status);
  return NewForwardReactor(worker_);
}

grpc::ServerUnaryReactor* WorkerService::KvFile(grpc::CallbackServerContext* context,
                                                const v1::KvFileRequest* request,
                                                v1::KvFileResponse* response) {
  if (absl::Status status = CheckCoordinator(context); !status.ok()) return Answer(context, status);
  v1::KvFileRequest message = *request;
  if (absl::Status status = wire::CheckSeal(&message); !status.ok()) return Answer(context, status);
  const auto wanted = wire::FromProto(message);
  if (!wanted.ok()) return Answer(context, wanted.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool accepted = reads_.Run([this, reactor, response, wanted = *wanted] {
    const absl::StatusOr<uint64_t> bytes = worker_->KvFile(wanted);
    if (bytes.ok()) response->set_bytes(*bytes);
    reactor->Finish(wire::ToGrpc(bytes.status()));
  });
  if (!accepted) reactor->Finish(wire::ToGrpc(ResourceExhausted("too many reads are waiting")));
  return reactor;
}

grpc::ServerWriteReactor<v1::FileChunk>* WorkerService::ReadHeader(
    grpc::CallbackServerContext* context, const v1::ReadHeaderRequest* request) {
  if (absl::Status status = CheckMember(context); !status.ok())
    return new Refused<grpc::ServerWriteReactor<v1::FileChunk>>(status);
  return NewReadHeaderReactor(models_dir_, *request, &reads_);
}

grpc::ServerWriteReactor<v1::FileChunk>* WorkerService::ReadPart(
    grpc::CallbackServerContext* context, const v1::ReadPartRequest* request) {
  if (absl::Status status = CheckMember(context); !status.ok())
    return new Refused<grpc::ServerWriteReactor<v1::FileChunk>>(status);
  return NewReadPartReactor(models_dir_, *request, &reads_);
}

grpc::ServerUnaryReactor* WorkerService::Probe(grpc::CallbackServerContext* context,
                                               const v1::ProbeMessage* request,
                                               v1::ProbeMessage* response) {
  if (absl::Status status = CheckMember(context); !status.ok()) return Answer(context, status);
  if (request->answer_bytes() > wire::kMaxChunkBytes) {
    return Answer(context, InvalidArgument("Probe: answer_bytes: got {}, expected up to {}",
                                           request->answer_bytes(), wire::kMaxChunkBytes));
  }
  response->mutable_payload()->resize(request->answer_bytes());
  return Answer(context, absl::OkStatus());
}

}  // namespace baton::worker
