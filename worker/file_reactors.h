// Streams of file contents: GGUF headers for coordinators without the file, byte ranges for workers
// without the part.
#pragma once

#include <string>

#include "baton/v1/worker.grpc.pb.h"
#include "worker/serial_executor.h"

namespace baton::worker {

// Only *.gguf files that lie in models_dir itself are readable. Reactors delete themselves; `reads`
// must outlive them.
grpc::ServerWriteReactor<v1::FileChunk>* NewReadHeaderReactor(const std::string& models_dir,
                                                              const v1::ReadHeaderRequest& request,
                                                              SerialExecutor* reads);
grpc::ServerWriteReactor<v1::FileChunk>* NewReadPartReactor(const std::string& models_dir,
                                                            const v1::ReadPartRequest& request,
                                                            SerialExecutor* reads);

}  // namespace baton::worker
