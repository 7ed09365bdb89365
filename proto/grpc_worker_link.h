// A coordinator's attachment to a worker over one gRPC stream.
#pragma once

#include <absl/time/time.h>

#include <functional>
#include <memory>
#include <string>

#include "baton/v1/worker.grpc.pb.h"
#include "proto/worker_client.h"

namespace baton::wire {

// Waits for the worker's hello. `stub` and its channel must outlive the link.
absl::StatusOr<std::unique_ptr<WorkerLink>> AttachOverGrpc(
    v1::Worker::Stub* stub, const std::string& address, const WorkerClient::AttachOptions& options,
    std::function<void(WorkerEvent)> on_event, absl::Duration timeout);

}  // namespace baton::wire
