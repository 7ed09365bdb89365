// The stream at a worker that brings hidden states from the worker before it.
#pragma once

#include "baton/v1/worker.grpc.pb.h"
#include "worker/worker.h"

namespace baton::worker {

// Deletes itself when the stream is over; `worker` must outlive it.
grpc::ServerBidiReactor<v1::ForwardMessage, v1::ForwardCredit>* NewForwardReactor(Worker* worker);

}  // namespace baton::worker
