// A model run by this thread, stage after stage, without a coordinator: what `logits`, `perplexity`
// and `bench` need.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/model_flags.h"
#include "engine/backend/backend.h"
#include "engine/base/status.h"
#include "engine/gguf/gguf_file.h"
#include "engine/runtime/local_pipeline.h"

namespace baton::cli {

struct LocalModel {
  std::unique_ptr<engine::GgufModel> file;
  std::unique_ptr<engine::Backend> backend;
  std::unique_ptr<engine::LocalPipeline> pipeline;

  int32_t vocab_size() const { return pipeline->hyperparams().vocab_size; }
};

// An error in the file is bad data, whatever it is; one in a flag is a usage error.
absl::StatusOr<LocalModel> LoadLocalModel(std::unique_ptr<engine::GgufModel> file,
                                          const ModelFlags& flags, int32_t context_length);
absl::StatusOr<std::unique_ptr<engine::GgufModel>> OpenModelFile(const std::string& name);

}  // namespace baton::cli
