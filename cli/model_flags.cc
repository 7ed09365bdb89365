#include "cli/model_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/exit_code.h"
#include "cli/flag_values.h"

namespace baton::cli {

CLI::Option* AddModelFlags(CLI::App& app, ModelFlags& flags) {
  auto* model =
      app.add_option("-m,--model", flags.model, "GGUF file, or a model's name in the cache");
  app.add_option("-t,--threads", flags.threads,
                 "Threads of each stage; all that the process may use where absent")
      ->check(CLI::Range(1, 1024));
  app.add_option("-c,--context", flags.context,
                 fmt::format("Positions of a sequence, {} where absent", kDefaultContext))
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--device", flags.device, "auto, cpu or cuda:N")->capture_default_str();
  app.add_option("--kv-type", flags.kv_type, "Type of cached keys and values: f16, f32 or q8_0")
      ->capture_default_str();
  app.add_option("--chunk", flags.chunk, "Rows of a prompt that are computed together")
      ->check(CLI::Range(1, 1 << 16));
  auto* stages = app.add_option("--stages", flags.num_stages, "Stages inside the process")
                     ->check(CLI::Range(1, 1024));
  app.add_option("--split", flags.split, "Layers of the stages, as 0-9,10-29")->excludes(stages);
  return model;
}

absl::StatusOr<std::vector<engine::LayerRange>> StagesOf(const ModelFlags& flags,
                                                         int32_t num_layers) {
  if (!flags.split.empty()) {
    ASSIGN_OR_RETURN(auto ranges, ParseLayerRanges("--split", flags.split));
    if (ranges.back().end != num_layers) {
      return UsageError("--split: the last layer is {}, expected {}", ranges.back().end - 1,
                        num_layers - 1);
    }
    return ranges;
  }
  if (flags.num_stages > num_layers) {
    return UsageError("--stages: got {}, expected at most the model's {} layers", flags.num_stages,
                      num_layers);
  }
  std::vector<engine::LayerRange> ranges;
  for (int32_t i = 0; i < flags.num_stages; ++i) {
    ranges.push_back({.begin = num_layers * i / flags.num_stages,
                      .end = num_layers * (i + 1) / flags.num_stages});
  }
  return ranges;
}

int32_t ContextOf(const ModelFlags& flags, int32_t trained, int32_t needed) {
  if (flags.context > 0) return flags.context;
  const int32_t usual = trained > 0 ? std::min(kDefaultContext, trained) : kDefaultContext;
  return std::max(usual, needed);
}

}  // namespace baton::cli
