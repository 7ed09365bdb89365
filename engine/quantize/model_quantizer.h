// Writes a model in other weight types. Rows are read from the mapping, quantized by all threads
// and written at once, so that memory stays small whatever the model's size.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/base/status.h"
#include "engine/gguf/gguf_file.h"
#include "engine/quantize/quant_recipe.h"

namespace baton::engine {

// Bytes of the source that are done, and of all there are; called often, by the caller's thread.
using QuantizeProgress = std::function<void(uint64_t done, uint64_t total)>;

// One file, whatever the number of the source's parts; it appears under its name when it is whole.
absl::Status QuantizeModel(const GgufModel& model, const QuantRecipe& recipe,
                           const std::string& path, int threads, const QuantizeProgress& progress);

}  // namespace baton::engine
