// WorkerConnector over gRPC: one channel a worker, one long-lived stream an attachment, a deadline
// on every call.
#pragma once

#include <memory>
#include <string>

#include "proto/security.h"
#include "proto/worker_client.h"

namespace baton::wire {

// Connecting takes place at the first call, so Connect can't fail: a bad address is the status of
// each call.
class GrpcWorkerConnector : public WorkerConnector {
 public:
  explicit GrpcWorkerConnector(Security security) : security_(std::move(security)) {}
  std::unique_ptr<WorkerClient> Connect(const std::string& address) override;

 private:
  const Security security_;
};

}  // namespace baton::wire
