// The coordinator's stream at a worker.
#pragma once

#include "baton/v1/worker.grpc.pb.h"
#include "worker/worker.h"

namespace baton::worker {

// Deletes itself when the stream is over; `worker` must outlive it.
grpc::ServerBidiReactor<v1::CoordinatorMessage, v1::WorkerMessage>* NewAttachReactor(
    grpc::CallbackServerContext* context, Worker* worker);

}  // namespace baton::worker
