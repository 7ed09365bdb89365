// Which weight type each tensor of a quantized model gets.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/gguf/gguf_file.h"
#include "kernels/quant_types.h"

namespace baton::engine {

// A row of what `baton quantize` can make.
struct QuantRecipe {
  std::string_view name;       // as GGUF tools call it
  kernels::QuantType base;     // of most matrices
  kernels::QuantType fused;    // of fused attention matrices
  kernels::QuantType precise;  // of half of the layers' attn_v and ffn_down
  kernels::QuantType output;   // of the output matrix, or of the embedding that stands for it
  uint32_t file_type;          // general.file_type
};

std::span<const QuantRecipe> QuantRecipes();
// InvalidArgument lists the names there are. Letter case does not matter.
absl::StatusOr<QuantRecipe> FindQuantRecipe(std::string_view name);
// All matrices in the base type.
QuantRecipe PureRecipe(const QuantRecipe& recipe);

// For each tensor of the model its type in the result. Norms, biases, routers and other small
// tensors stay as they are; where a row is not a multiple of the type's block, a type with smaller
// blocks takes its place. Unimplemented where a tensor would have to be quantized a second time.
absl::StatusOr<std::vector<kernels::QuantType>> QuantizedTypes(const GgufModel& model,
                                                               const QuantRecipe& recipe);

}  // namespace baton::engine
