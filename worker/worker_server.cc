#include "worker/worker_server.h"

#include <utility>

#include "proto/grpc_server.h"
#include "worker/grpc_next_stage.h"
#include "worker/worker.h"
#include "worker/worker_service.h"

namespace baton::worker {
namespace {

class GrpcWorkerServer : public WorkerServer {
 public:
  GrpcWorkerServer(const WorkerServerOptions& options, std::unique_ptr<StageLoader> loader)
      : worker_({.name = options.name.empty() ? options.listen : options.name,
                 .memory_budget_bytes = options.memory_budget_bytes,
                 .kv_folder = options.kv_folder,
                 .kv_limit_bytes = options.kv_limit_bytes},
                std::move(loader), GrpcNextStageFactory(options.security)),
        service_(&worker_, options.models_dir) {}

  absl::Status Listen(const wire::GrpcServerOptions& options) {
    ASSIGN_OR_RETURN(server_, wire::GrpcServer::Start(options, &service_));
    return absl::OkStatus();
  }

  wire::Address address() const override { return server_->address(); }

 private:
  Worker worker_;
  WorkerService service_;
  std::unique_ptr<wire::GrpcServer> server_;  // ends before what it serves
};

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Start(
    const WorkerServerOptions& options, std::unique_ptr<StageLoader> loader) {
  auto server = std::make_unique<GrpcWorkerServer>(options, std::move(loader));
  RETURN_IF_ERROR(server->Listen(
      {.listen = options.listen, .security = options.security, .insecure = options.insecure}));
  return server;
}

}  // namespace baton::worker
