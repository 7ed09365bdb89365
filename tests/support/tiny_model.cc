#include "tests/support/tiny_model.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "engine/arch/hyperparams.h"
#include "engine/arch/tensor_table.h"
#include "kernels/half.h"
#include "tests/support/random_blocks.h"

namespace baton::testing {
namespace {

using engine::ArchSpec;
using engine::Dim;
using engine::GgufWriter;
using engine::HyperParams;
using engine::Presence;
using engine::TensorRole;
using engine::TensorRow;
using kernels::QuantType;

constexpr int32_t kHeads = 4;
constexpr int32_t kKvHeads = 2;

void SetVocabulary(GgufWriter& writer) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {2, 3, 3};  // unknown, control, control
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(6);  // byte
  }
  for (char letter = 'a'; static_cast<int32_t>(tokens.size()) < kTinyVocabSize; ++letter) {
    tokens.push_back(std::string(1, letter));
    types.push_back(1);  // normal
  }
  const std::vector<float> scores(tokens.size(), 0.0f);
  writer.SetString("tokenizer.ggml.model", "llama");
  writer.SetStrings("tokenizer.ggml.tokens", tokens);
  writer.SetFloats("tokenizer.ggml.scores", scores);
  writer.SetInts("tokenizer.ggml.token_type", types);
  writer.SetUint32("tokenizer.ggml.bos_token_id", 1);
  writer.SetUint32("tokenizer.ggml.eos_token_id", 2);
  writer.SetBool("tokenizer.ggml.add_bos_token", true);
}

void SetHyperParams(const TinyModelOptions& o, const ArchSpec& spec, GgufWriter& writer) {
  const auto key = [&spec](std::string_view name) { return fmt::format("{}.{}", spec.name, name); };
  const int32_t head_dim = o.hidden_size / kHeads;
  writer.SetString("general.architecture", spec.name);
  writer.SetString("general.name", fmt::format("tiny {}", spec.name));
  writer.SetUint32(key("context_length"), o.context_length);
  writer.SetUint32(key("embedding_length"), o.hidden_size);
  writer.SetUint32(key("block_count"), o.num_layers);
  writer.SetUint32(key("feed_forward_length"), o.hidden_size);
  writer.SetUint32(key("attention.head_count"), kHeads);
  writer.SetUint32(key("attention.head_count_kv"), kKvHeads);
  writer.SetFloat32(key("attention.layer_norm_rms_epsilon"), 1e-5f);
  writer.SetFloat32(key("attention.layer_norm_epsilon"), 1e-5f);
  writer.SetUint32(key("rope.dimension_count"),
                   spec.head_dim_must_match_rope ? head_dim : head_dim / 2);
  if (spec.window_period > 0) writer.SetUint32(key("attention.sliding_window"), 16);
  if (spec.attention == engine::AttentionKind::kLatent) {
    writer.SetUint32(key("attention.q_lora_rank"), o.optional_tensors ? 32 : 0);
    writer.SetUint32(key("attention.kv_lora_rank"), 32);
    writer.SetUint32(key("attention.key_length_mla"), head_dim);
    writer.SetUint32(key("attention.value_length_mla"), head_dim);
  }
  if (!o.experts) return;
  writer.SetUint32(key("expert_count"), 4);
  writer.SetUint32(key("expert_used_count"), 2);
  writer.SetUint32(key("expert_feed_forward_length"), o.hidden_size);
  writer.SetUint32(key("leading_dense_block_count"), 1);
  writer.SetUint32(key("expert_shared_count"), 1);
}

// A fused tensor and the split ones stand for each other: the one that files of this architecture
// have.
bool IsOtherForm(const TensorRow& row, const ArchSpec& spec) {
  return row.has_instead && (row.slices[0].size != Dim::kNone) != spec.fused_qkv;
}

bool Wanted(const TensorRow& row, const HyperParams& h, int32_t layer, const TinyModelOptions& o) {
  if (row.role == TensorRole::kOutput) return !o.tied;
  if (IsOtherForm(row, *h.spec) && h.spec->attention == engine::AttentionKind::kStandard)
    return false;
  const Presence presence = TensorPresence(row, h, layer);
  return presence == Presence::kRequired || (presence == Presence::kOptional && o.optional_tensors);
}

struct TinyTensor {
  TensorRole role;
  std::vector<int64_t> shape;
  QuantType type;
  bool vector;

  int64_t size() const {
    int64_t n = 1;
    for (const int64_t dim : shape) n *= dim;
    return n;
  }
};

QuantType TypeOf(const TensorRow& row, const std::vector<int64_t>& shape,
                 const TinyModelOptions& o) {
  if (row.vector) return QuantType::kF32;
  return shape[0] % kernels::TraitsOf(o.type).block_size == 0 ? o.type : QuantType::kF16;
}

bool IsNormWeight(TensorRole role) {
  switch (role) {
    case TensorRole::kEmbeddingNorm:
    case TensorRole::kOutputNorm:
    case TensorRole::kAttnNorm:
    case TensorRole::kAttnNorm2:
    case TensorRole::kAttnQNorm:
    case TensorRole::kAttnKNorm:
    case TensorRole::kAttnPostNorm:
    case TensorRole::kAttnQANorm:
    case TensorRole::kAttnKvANorm:
    case TensorRole::kFfnNorm:
    case TensorRole::kFfnPostNorm:
    case TensorRole::kRopeFactors:
    case TensorRole::kRopeFactorsLong:
    case TensorRole::kRopeFactorsShort:
      return true;  // around one
    default:
      return false;
  }
}

// Uniform in [-1, 1), by the generator's own bits: distributions of the standard library differ
// between libraries.
float Uniform(std::mt19937& random) { return static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f; }

template <class Store>
std::vector<uint8_t> FloatsAs(int64_t count, size_t bytes_each, std::mt19937& random, float scale,
                              const Store& store) {
  std::vector<uint8_t> bytes(count * bytes_each);
  for (int64_t i = 0; i < count; ++i) store(Uniform(random) * scale, bytes.data() + i * bytes_each);
  return bytes;
}

std::vector<uint8_t> Vector(const TinyTensor& tensor, std::mt19937& random) {
  const float center = IsNormWeight(tensor.role) ? 1.0f : 0.0f;
  return FloatsAs(tensor.size(), 4, random, 0.2f, [center](float f, uint8_t* to) {
    const float value = center + f;
    std::memcpy(to, &value, 4);
  });
}

std::vector<uint8_t> Matrix(const TinyTensor& tensor, std::mt19937& random) {
  const float scale =
      1.7f / std::sqrt(static_cast<float>(tensor.shape[0]));  // unit variance passes through
  switch (tensor.type) {
    case QuantType::kF32:
      return FloatsAs(tensor.size(), 4, random, scale,
                      [](float f, uint8_t* to) { std::memcpy(to, &f, 4); });
    case QuantType::kF16:
      return FloatsAs(tensor.size(), 2, random, scale, [](float f, uint8_t* to) {
        const uint16_t half = kernels::FloatToHalf(f);
        std::memcpy(to, &half, 2);
      });
    default:
      return RandomBlocks(tensor.type, tensor.size(), random);
  }
}

std::vector<TinyTensor> DeclareTensors(const HyperParams& h, const TinyModelOptions& o,
                                       GgufWriter& writer) {
  std::vector<TinyTensor> tensors;
  const auto declare = [&](const TensorRow& row, int32_t layer) {
    if (!Wanted(row, h, layer, o)) return;
    const std::vector<int64_t> shape = TensorShape(row, h, layer);
    tensors.push_back({row.role, shape, TypeOf(row, shape, o), row.vector});
    writer.AddTensor(TensorName(row, *h.spec, layer), shape, tensors.back().type);
  };
  for (const TensorRow& row : engine::TensorTable()) {
    if (row.place != engine::TensorPlace::kLayer) declare(row, -1);
  }
  for (int32_t layer = 0; layer < h.num_layers; ++layer) {
    for (const TensorRow& row : engine::TensorTable()) {
      if (row.place == engine::TensorPlace::kLayer) declare(row, layer);
    }
  }
  return tensors;
}

absl::StatusOr<HyperParams> ReadBack(const GgufWriter& writer) {
  const std::string header = writer.Header();
  ASSIGN_OR_RETURN(const auto parsed, engine::ParseGgufHeader(header, header.size(), "tiny model"));
  return engine::ParseHyperParams(parsed.metadata);
}

}  // namespace

absl::Status WriteTinyModel(const TinyModelOptions& options, const std::string& path) {
  const ArchSpec* spec = engine::FindArchSpec(options.architecture);
  if (spec == nullptr) return NotFound("{}: no such architecture", options.architecture);
  GgufWriter writer;
  SetHyperParams(options, *spec, writer);
  SetVocabulary(writer);
  if (options.edit) options.edit(writer);
  ASSIGN_OR_RETURN(const HyperParams hyperparams, ReadBack(writer));
  const std::vector<TinyTensor> tensors = DeclareTensors(hyperparams, options, writer);

  std::mt19937 random(options.seed);
  return writer.WriteTo(path, [&](size_t index, std::ostream& out) {
    const TinyTensor& tensor = tensors[index];
    const auto bytes = tensor.vector ? Vector(tensor, random) : Matrix(tensor, random);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    return absl::OkStatus();
  });
}

}  // namespace baton::testing
