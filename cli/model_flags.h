// Flags of all commands that run a model in this process, or ask a server for one.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "engine/arch/layer_range.h"
#include "engine/base/status.h"
#include "engine/gguf/gguf_file.h"
#include "engine/tensor/operation_params.h"

namespace baton::cli {

// Positions of a sequence where nobody says otherwise; a model trained on fewer has those.
inline constexpr int32_t kDefaultContext = 4096;

struct ModelFlags {
  std::string model;
  int threads = 0;      // 0: as many as the process may use
  int32_t context = 0;  // 0: kDefaultContext
  int32_t chunk = 0;    // prompt rows of a micro-batch; 0: chosen by baton
  int32_t num_stages = 1;
  std::string split;  // layer ranges of the stages
  std::string device = "auto";
  std::string kv_type = "f16";
};

// -m, -t, -c, --device, --kv-type, --chunk, --stages, --split. The model is required unless
// `server` may take its place.
CLI::Option* AddModelFlags(CLI::App& app, ModelFlags& flags);
// The stages that --stages or --split ask for: contiguous ranges of all layers. Usage errors.
absl::StatusOr<std::vector<engine::LayerRange>> StagesOf(const ModelFlags& flags,
                                                         int32_t num_layers);
// -c, or the default for a model; at least `needed` where neither says so.
int32_t ContextOf(const ModelFlags& flags, int32_t trained, int32_t needed = 0);

}  // namespace baton::cli
