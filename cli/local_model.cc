#include "cli/local_model.h"

#include <algorithm>

#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/vocabulary_model.h"

namespace baton::cli {

absl::StatusOr<std::unique_ptr<engine::GgufModel>> OpenModelFile(const std::string& name) {
  ASSIGN_OR_RETURN(engine::GgufModel model, OpenModel(name));
  return std::make_unique<engine::GgufModel>(std::move(model));
}

absl::StatusOr<LocalModel> LoadLocalModel(std::unique_ptr<engine::GgufModel> file,
                                          const ModelFlags& flags, int32_t context_length) {
  LocalModel model{.file = std::move(file), .backend = nullptr, .pipeline = nullptr};
  const auto hyperparams = engine::ParseHyperParams(*model.file);
  if (!hyperparams.ok()) return AsBadData(hyperparams.status());
  engine::LocalPipelineOptions options;
  options.context_length = context_length;
  ASSIGN_OR_RETURN(options.stages, StagesOf(flags, hyperparams->num_layers));
  ASSIGN_OR_RETURN(options.kv_type, ParseKvType("--kv-type", flags.kv_type));
  options.max_rows = std::max(options.max_rows, flags.chunk);
  auto backend = engine::MakeBackend({.device = flags.device, .threads = flags.threads});
  if (!backend.ok()) return WithExitCode(backend.status(), kUsage);
  model.backend = *std::move(backend);
  auto pipeline = engine::LocalPipeline::Open(*model.file, options, model.backend.get());
  if (!pipeline.ok()) return AsBadData(pipeline.status());
  model.pipeline = std::make_unique<engine::LocalPipeline>(*std::move(pipeline));
  return model;
}

}  // namespace baton::cli
