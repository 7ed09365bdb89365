// The Worker service of proto/baton/v1/worker.proto: moves messages between streams and a Worker,
// and computes nothing.
//
// Owner: worker_server. gRPC's threads call it; loading and reading files take place on two threads
// of its own.
#pragma once

#include <memory>
#include <string>

#include "baton/v1/worker.grpc.pb.h"
#include "worker/serial_executor.h"
#include "worker/worker.h"

namespace baton::worker {

class WorkerService : public v1::Worker::CallbackService {
 public:
  // `models_dir`: whose GGUF files may be read by peers. `worker` must outlive the service.
  WorkerService(Worker* worker, std::string models_dir);

  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const v1::GetInfoRequest* request,
                                    v1::WorkerInfo* response) override;
  grpc::ServerWriteReactor<v1::LoadProgress>* LoadStage(
      grpc::CallbackServerContext* context, const v1::LoadStageRequest* request) override;
  grpc::ServerUnaryReactor* UnloadStage(grpc::CallbackServerContext* context,
                                        const v1::UnloadStageRequest* request,
                                        v1::UnloadStageResponse* response) override;
  grpc::ServerBidiReactor<v1::CoordinatorMessage, v1::WorkerMessage>* Attach(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::ForwardMessage, v1::ForwardCredit>* Forward(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* KvFile(grpc::CallbackServerContext* context,
                                   const v1::KvFileRequest* request,
                                   v1::KvFileResponse* response) override;
  grpc::ServerWriteReactor<v1::FileChunk>* ReadHeader(
      grpc::CallbackServerContext* context, const v1::ReadHeaderRequest* request) override;
  grpc::ServerWriteReactor<v1::FileChunk>* ReadPart(grpc::CallbackServerContext* context,
                                                    const v1::ReadPartRequest* request) override;
  grpc::ServerUnaryReactor* Probe(grpc::CallbackServerContext* context,
                                  const v1::ProbeMessage* request,
                                  v1::ProbeMessage* response) override;

 private:
  Worker* const worker_;
  const std::string models_dir_;
  SerialExecutor loads_;
  SerialExecutor reads_;
};

}  // namespace baton::worker
