#include "engine/quantize/quant_recipe.h"

#include <algorithm>
#include <cctype>

#include "engine/base/quote.h"
#include "engine/gguf/tensor_layer.h"
#include "engine/quantize/row_quantizer.h"

namespace baton::engine {
namespace {

using kernels::QuantType;

constexpr QuantRecipe Plain(std::string_view name, QuantType type, uint32_t file_type) {
  return {name, type, type, type, type, file_type};
}
// Nearly every tool gives the output matrix more bits.
constexpr QuantRecipe WithOutput(std::string_view name, QuantType type, uint32_t file_type) {
  return {name, type, type, type, QuantType::kQ6_K, file_type};
}

constexpr QuantRecipe kRecipes[] = {
    Plain("F32", QuantType::kF32, 0),
    Plain("F16", QuantType::kF16, 1),
    Plain("BF16", QuantType::kBF16, 32),
    Plain("Q8_0", QuantType::kQ8_0, 7),
    WithOutput("Q4_0", QuantType::kQ4_0, 2),
    WithOutput("Q4_1", QuantType::kQ4_1, 3),
    WithOutput("Q5_0", QuantType::kQ5_0, 8),
    WithOutput("Q5_1", QuantType::kQ5_1, 9),
    WithOutput("IQ4_NL", QuantType::kIQ4_NL, 25),
    WithOutput("Q4_K", QuantType::kQ4_K, 14),
    {"Q4_K_M", QuantType::kQ4_K, QuantType::kQ5_K, QuantType::kQ6_K, QuantType::kQ6_K, 15},
    WithOutput("Q5_K", QuantType::kQ5_K, 16),
    {"Q5_K_M", QuantType::kQ5_K, QuantType::kQ6_K, QuantType::kQ6_K, QuantType::kQ6_K, 17},
    Plain("Q6_K", QuantType::kQ6_K, 18),
};

// What takes a type's place where rows are not whole blocks of it.
struct Substitute {
  QuantType type;
  QuantType instead;
};
constexpr Substitute kSubstitutes[] = {
    {QuantType::kQ4_K, QuantType::kQ5_0},
    {QuantType::kQ5_K, QuantType::kQ5_1},
    {QuantType::kQ6_K, QuantType::kQ8_0},
};

QuantType FittingType(QuantType type, int64_t row) {
  const auto fits = [row](QuantType t) { return row % kernels::TraitsOf(t).block_size == 0; };
  if (fits(type)) return type;
  const auto* substitute = std::ranges::find(kSubstitutes, type, &Substitute::type);
  if (substitute != std::end(kSubstitutes) && fits(substitute->instead)) return substitute->instead;
  return QuantType::kF16;
}

// Small, or too sensitive to be rounded.
bool StaysAsItIs(const TensorInfo& tensor) {
  constexpr std::string_view kKept[] = {"_norm.weight", "ffn_gate_inp.weight",
                                        "position_embd.weight", "token_types.weight"};
  const bool matrix = tensor.ne[1] > 1 || tensor.ne[2] > 1 || tensor.ne[3] > 1;
  if (!matrix || !tensor.name.ends_with("weight")) return true;
  return std::ranges::any_of(kKept,
                             [&](std::string_view end) { return tensor.name.ends_with(end); });
}

int NumLayers(const GgufModel& model) {
  int layers = 0;
  for (const TensorInfo& tensor : model.tensors()) {
    layers = std::max(layers, LayerOfTensor(tensor.name).value_or(-1) + 1);
  }
  return layers;
}

// The first and the last eighth of the layers, and each third between: where errors cost most
// (llama.cpp's rule).
bool IsPreciseLayer(int layer, int num_layers) {
  const int eighth = num_layers / 8;
  return layer < eighth || layer >= 7 * num_layers / 8 || (layer - eighth) % 3 == 2;
}

QuantType WantedType(const TensorInfo& tensor, const QuantRecipe& recipe, bool tied,
                     int num_layers) {
  const std::string_view name = tensor.name;
  if (name == "output.weight" || (tied && name == "token_embd.weight")) return recipe.output;
  if (name.ends_with("attn_qkv.weight")) return recipe.fused;
  const bool sensitive = name.ends_with("attn_v.weight") || name.find("ffn_down") != name.npos;
  const auto layer = LayerOfTensor(name);
  if (sensitive && layer && IsPreciseLayer(*layer, num_layers)) return recipe.precise;
  return recipe.base;
}

}  // namespace

std::span<const QuantRecipe> QuantRecipes() { return kRecipes; }

absl::StatusOr<QuantRecipe> FindQuantRecipe(std::string_view name) {
  const auto equal = [](char a, char b) {
    return std::toupper(static_cast<unsigned char>(a)) == static_cast<unsigned char>(b);
  };
  std::string names;
  for (const QuantRecipe& recipe : kRecipes) {
    if (std::ranges::equal(name, recipe.name, equal)) return recipe;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", recipe.name);
  }
  return InvalidArgument("type {}, expected one of {}", Named(name), names);
}

QuantRecipe PureRecipe(const QuantRecipe& recipe) {
  return Plain(recipe.name, recipe.base, recipe.file_type);
}

absl::StatusOr<std::vector<QuantType>> QuantizedTypes(const GgufModel& model,
                                                      const QuantRecipe& recipe) {
  const bool tied = model.FindTensor("output.weight") == nullptr;
  const int num_layers = NumLayers(model);
  std::vector<QuantType> types;
  for (const TensorInfo& tensor : model.tensors()) {
    QuantType type = tensor.type;
    if (!StaysAsItIs(tensor)) {
      type = FittingType(WantedType(tensor, recipe, tied, num_layers), tensor.ne[0]);
    }
    if (type != tensor.type && RowReaderOf(tensor.type) == nullptr) {
      return Unimplemented(
          "{}: type {} would be quantized a second time, expected F32, F16 or BF16",
          Named(tensor.name), kernels::TraitsOf(tensor.type).name);
    }
    types.push_back(type);
  }
  return types;
}

}  // namespace baton::engine
