#include "engine/arch/hyperparams.h"

#include <cmath>
#include <limits>
#include <optional>

#include "engine/arch/rope.h"

namespace baton::engine {
namespace {

constexpr int32_t kMaxLayers = 4096;
constexpr int32_t kMaxSize =
    1 << 24;  // of anything that is a width or a count: products of two stay far below 2^63
constexpr int32_t kMaxInt = std::numeric_limits<int32_t>::max();

// Reads the keys of one architecture, each with its bounds. The full key stands in every error.
class KeyReader {
 public:
  KeyReader(const Metadata& metadata, std::string_view prefix)
      : metadata_(metadata), prefix_(prefix) {}

  std::string Key(std::string_view name) const { return fmt::format("{}.{}", prefix_, name); }
  bool Has(std::string_view name) const { return metadata_.Has(Key(name)); }

  absl::StatusOr<std::optional<int32_t>> FindCount(std::string_view name, int32_t min,
                                                   int32_t max) const {
    const std::string key = Key(name);
    ASSIGN_OR_RETURN(const auto value, metadata_.FindUint(key));
    if (!value) return std::optional<int32_t>();
    RETURN_IF_ERROR(CheckBounds(key, *value, min, max));
    return std::optional<int32_t>(static_cast<int32_t>(*value));
  }

  absl::StatusOr<int32_t> Count(std::string_view name, int32_t min, int32_t max) const {
    ASSIGN_OR_RETURN(const auto value, FindCount(name, min, max));
    if (!value) return Missing(name);
    return *value;
  }

  absl::StatusOr<int32_t> CountOr(std::string_view name, int32_t min, int32_t max,
                                  int32_t absent) const {
    ASSIGN_OR_RETURN(const auto value, FindCount(name, min, max));
    return value.value_or(absent);
  }

  // One number a layer, from an array of that length or a scalar for all; empty where the key is
  // absent.
  absl::StatusOr<std::vector<int32_t>> PerLayer(std::string_view name, int32_t num_layers,
                                                int32_t min, int32_t max) const {
    const std::string key = Key(name);
    const GgufValue* value = metadata_.Find(key);
    if (value == nullptr) return std::vector<int32_t>();
    if (value->type != GgufType::kArray) {
      ASSIGN_OR_RETURN(const int32_t scalar, Count(name, min, max));
      return std::vector<int32_t>(num_layers, scalar);
    }
    if (value->count != static_cast<uint64_t>(num_layers)) {
      return InvalidArgument("{}: {} values, expected one for each of {} layers", key, value->count,
                             num_layers);
    }
    ASSIGN_OR_RETURN(const std::vector<int64_t> values, metadata_.GetInts(key));
    for (const int64_t v : values) {
      if (v < min || v > max) return InvalidArgument("{}: {}, expected {} to {}", key, v, min, max);
    }
    return std::vector<int32_t>(values.begin(), values.end());
  }

  // A finite number, not negative.
  absl::StatusOr<double> RealOr(std::string_view name, double absent) const {
    const std::string key = Key(name);
    ASSIGN_OR_RETURN(const auto value, metadata_.FindFloat(key));
    if (!value) return absent;
    if (!std::isfinite(*value) || *value < 0) {
      return InvalidArgument("{}: {}, expected a finite number, not negative", key, *value);
    }
    return *value;
  }

  // The same, where 0 stands for "as if absent".
  absl::StatusOr<double> NonzeroOr(std::string_view name, double absent) const {
    ASSIGN_OR_RETURN(const double value, RealOr(name, absent));
    return value == 0 ? absent : value;
  }

  absl::StatusOr<bool> BoolOr(std::string_view name, bool absent) const {
    ASSIGN_OR_RETURN(const auto value, metadata_.FindBool(Key(name)));
    return value.value_or(absent);
  }

  absl::Status Missing(std::string_view name) const {
    return InvalidArgument("{}: no such key, expected one in a model of this architecture",
                           Key(name));
  }

  const Metadata& metadata() const { return metadata_; }

 private:
  static absl::Status CheckBounds(std::string_view key, uint64_t value, int32_t min, int32_t max) {
    if (value >= static_cast<uint64_t>(min) && value <= static_cast<uint64_t>(max))
      return absl::OkStatus();
    return InvalidArgument("{}: {}, expected {} to {}", key, value, min, max);
  }

  const Metadata& metadata_;
  std::string_view prefix_;
};

absl::StatusOr<const ArchSpec*> FindSpec(const Metadata& metadata) {
  ASSIGN_OR_RETURN(const auto name, metadata.FindString("general.architecture"));
  if (!name)
    return InvalidArgument(
        "general.architecture: no such key, expected the name of an architecture");
  const ArchSpec* spec = FindArchSpec(*name);
  if (spec != nullptr) return spec;
  std::string known;
  for (const ArchSpec& row : AllArchSpecs())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  return Unimplemented("general.architecture: \"{}\", expected one of: {}", *name, known);
}

absl::Status ReadVocabulary(const KeyReader& keys, int64_t embedding_rows, HyperParams& h) {
  const GgufValue* tokens = keys.metadata().Find("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->type == GgufType::kArray && tokens->count >= 1 &&
      tokens->count <= kMaxSize) {
    h.vocab_size = static_cast<int32_t>(tokens->count);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(h.vocab_size, keys.CountOr("vocab_size", 1, kMaxSize, 0));
  if (h.vocab_size == 0 && embedding_rows > 0 && embedding_rows <= kMaxSize) {
    h.vocab_size = static_cast<int32_t>(embedding_rows);
  }
  if (h.vocab_size == 0) return keys.Missing("vocab_size");
  return absl::OkStatus();
}

// Layers that only predict further tokens (nextn) stand behind the model's own and are not run.
struct LayerCounts {
  int32_t in_file = 0;
};

absl::Status ReadSizes(const KeyReader& keys, HyperParams& h, LayerCounts& counts) {
  ASSIGN_OR_RETURN(h.context_length, keys.Count("context_length", 1, kMaxInt / 2));
  ASSIGN_OR_RETURN(h.hidden_size, keys.Count("embedding_length", 1, kMaxSize));
  ASSIGN_OR_RETURN(counts.in_file, keys.Count("block_count", 1, kMaxLayers));
  ASSIGN_OR_RETURN(const int32_t predicting,
                   keys.CountOr("nextn_predict_layers", 0, counts.in_file - 1, 0));
  h.num_layers = counts.in_file - predicting;
  h.layers.resize(h.num_layers);

  const std::string_view eps = h.spec->norm == NormKind::kRms ? "attention.layer_norm_rms_epsilon"
                                                              : "attention.layer_norm_epsilon";
  if (!keys.Has(eps)) return keys.Missing(eps);
  ASSIGN_OR_RETURN(h.norm_eps, keys.RealOr(eps, 0));
  ASSIGN_OR_RETURN(const bool causal, keys.BoolOr("attention.causal", true));
  if (!causal)
    return Unimplemented("{}: false, expected a model that generates",
                         keys.Key("attention.causal"));
  return absl::OkStatus();
}

absl::Status ReadHeads(const KeyReader& keys, const LayerCounts& counts, HyperParams& h) {
  ASSIGN_OR_RETURN(const auto heads,
                   keys.PerLayer("attention.head_count", counts.in_file, 1, 65536));
  if (heads.empty()) return keys.Missing("attention.head_count");
  ASSIGN_OR_RETURN(auto kv_heads,
                   keys.PerLayer("attention.head_count_kv", counts.in_file, 1, 65536));
  if (kv_heads.empty()) kv_heads = heads;
  for (int32_t i = 0; i < h.num_layers; ++i) {
    h.layers[i].num_heads = heads[i];
    h.layers[i].num_kv_heads = kv_heads[i];
    if (heads[i] % kv_heads[i] != 0) {
      return InvalidArgument("{}: {}, expected a divisor of {} heads (layer {})",
                             keys.Key("attention.head_count_kv"), kv_heads[i], heads[i], i);
    }
  }
  if (!keys.Has("attention.key_length") && h.hidden_size % heads[0] != 0) {
    return InvalidArgument("{}: {}, expected a multiple of {} heads where there is no {}",
                           keys.Key("embedding_length"), h.hidden_size, heads[0],
                           keys.Key("attention.key_length"));
  }
  ASSIGN_OR_RETURN(h.key_dim,
                   keys.CountOr("attention.key_length", 1, 65536, h.hidden_size / heads[0]));
  ASSIGN_OR_RETURN(h.value_dim,
                   keys.CountOr("attention.value_length", 1, 65536, h.hidden_size / heads[0]));
  if (h.value_dim == 0) h.value_dim = h.key_dim;
  return absl::OkStatus();
}

absl::StatusOr<RopeScaling> ReadRopeScalingType(const KeyReader& keys, double factor) {
  const std::string key = keys.Key("rope.scaling.type");
  ASSIGN_OR_RETURN(const auto type, keys.metadata().FindString(key));
  // Files from before the type was written scale linearly.
  if (!type || *type == "linear") return factor == 1.0 ? RopeScaling::kNone : RopeScaling::kLinear;
  if (*type == "none") return RopeScaling::kNone;
  if (*type == "yarn") return RopeScaling::kYarn;
  if (*type == "longrope") return RopeScaling::kLongRope;
  return InvalidArgument("{}: \"{}\", expected none, linear, yarn or longrope", key, *type);
}

absl::Status ReadRope(const KeyReader& keys, HyperParams& h) {
  RopeHyperParams& rope = h.rope;
  ASSIGN_OR_RETURN(rope.dims, keys.CountOr("rope.dimension_count", 0, 65536, h.key_dim));
  if (rope.dims % 2 != 0 || rope.dims > h.key_dim) {
    return InvalidArgument("{}: {}, expected an even number up to the head size {}",
                           keys.Key("rope.dimension_count"), rope.dims, h.key_dim);
  }
  if (h.spec->head_dim_must_match_rope && rope.dims != h.key_dim) {
    return InvalidArgument("{}: {}, expected the head size {}", keys.Key("rope.dimension_count"),
                           rope.dims, h.key_dim);
  }
  ASSIGN_OR_RETURN(rope.theta, keys.NonzeroOr("rope.freq_base", h.spec->default_rope_theta));
  ASSIGN_OR_RETURN(const double old_factor, keys.NonzeroOr("rope.scale_linear", 1.0));
  ASSIGN_OR_RETURN(rope.factor, keys.NonzeroOr("rope.scaling.factor", old_factor));
  ASSIGN_OR_RETURN(rope.scaling, ReadRopeScalingType(keys, rope.factor));
  ASSIGN_OR_RETURN(
      rope.original_context_length,
      keys.CountOr("rope.scaling.original_context_length", 0, kMaxInt, h.context_length));
  if (rope.original_context_length == 0) rope.original_context_length = h.context_length;
  ASSIGN_OR_RETURN(rope.attention_factor, keys.NonzeroOr("rope.scaling.attn_factor", 1.0));
  ASSIGN_OR_RETURN(rope.beta_fast, keys.NonzeroOr("rope.scaling.yarn_beta_fast", rope.beta_fast));
  ASSIGN_OR_RETURN(rope.beta_slow, keys.NonzeroOr("rope.scaling.yarn_beta_slow", rope.beta_slow));
  ASSIGN_OR_RETURN(rope.log_multiplier, keys.RealOr("rope.scaling.yarn_log_multiplier", 0.0));

  h.window_rope = rope;
  if (h.spec->window_rope_unscaled) {
    h.window_rope.scaling = RopeScaling::kNone;
    h.window_rope.factor = 1.0;
    h.window_rope.attention_factor = 1.0;
  }
  const double theta = h.spec->window_rope_theta > 0 ? h.spec->window_rope_theta : rope.theta;
  ASSIGN_OR_RETURN(h.window_rope.theta, keys.NonzeroOr("rope.freq_base_swa", theta));
  return absl::OkStatus();
}

// Which layers have a window: by an array of booleans, a period in the file, or the architecture's.
absl::StatusOr<std::vector<bool>> ReadWindowPattern(const KeyReader& keys,
                                                    const LayerCounts& counts, int32_t period) {
  const std::string_view name = "attention.sliding_window_pattern";
  const GgufValue* value = keys.metadata().Find(keys.Key(name));
  if (value != nullptr && value->type == GgufType::kArray) {
    ASSIGN_OR_RETURN(const auto flags, keys.PerLayer(name, counts.in_file, 0, 1));
    return std::vector<bool>(flags.begin(), flags.end());
  }
  ASSIGN_OR_RETURN(period, keys.CountOr(name, 0, kMaxLayers, period));
  std::vector<bool> windowed(counts.in_file);
  for (int32_t i = 0; i < counts.in_file; ++i) windowed[i] = period == 0 || i % period < period - 1;
  return windowed;
}

absl::Status ReadWindows(const KeyReader& keys, const LayerCounts& counts, HyperParams& h) {
  if (h.spec->window_period == 0) return absl::OkStatus();
  const std::string_view name = "attention.sliding_window";
  if (h.spec->window_required && !keys.Has(name)) return keys.Missing(name);
  ASSIGN_OR_RETURN(const int32_t window, keys.CountOr(name, 0, kMaxInt, h.spec->default_window));
  if (window == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<bool> windowed,
                   ReadWindowPattern(keys, counts, h.spec->window_period));
  for (int32_t i = 0; i < h.num_layers; ++i) {
    LayerHyperParams& layer = h.layers[i];
    layer.window = windowed[i] ? window : 0;
    layer.window_rope = windowed[i];
    if (h.spec->rope_on_window_layers_only) layer.rotates = windowed[i];
  }
  return absl::OkStatus();
}

void ChooseRotatingLayers(HyperParams& h) {
  const int32_t period = h.spec->no_rope_period;
  for (int32_t i = 0; i < h.num_layers; ++i) {
    LayerHyperParams& layer = h.layers[i];
    if (h.spec->position != PositionKind::kRope || h.rope.dims == 0) layer.rotates = false;
    if (period > 0 && i % period == period - 1) layer.rotates = false;
  }
}

absl::Status ReadLatent(const KeyReader& keys, HyperParams& h) {
  if (h.spec->attention != AttentionKind::kLatent) return absl::OkStatus();
  LatentHyperParams& latent = h.latent;
  ASSIGN_OR_RETURN(latent.query_rank, keys.CountOr("attention.q_lora_rank", 0, kMaxSize, 0));
  ASSIGN_OR_RETURN(latent.kv_rank, keys.Count("attention.kv_lora_rank", 1, 65536));
  latent.absorbed = keys.Has("attention.key_length_mla");
  if (latent.absorbed) {
    ASSIGN_OR_RETURN(h.key_dim, keys.Count("attention.key_length_mla", 1, 65536));
    ASSIGN_OR_RETURN(h.value_dim, keys.Count("attention.value_length_mla", 1, 65536));
  }
  latent.rope_dim = h.rope.dims;
  latent.nope_dim = h.key_dim - h.rope.dims;
  latent.value_dim = h.value_dim;
  if (latent.nope_dim <= 0) {
    return InvalidArgument("{}: {}, expected less than the head size {}",
                           keys.Key("rope.dimension_count"), h.rope.dims, h.key_dim);
  }
  return absl::OkStatus();
}

absl::Status ReadAttention(const KeyReader& keys, HyperParams& h) {
  const bool wide_query = h.spec->wide_query_num_layers == h.num_layers;
  const int32_t query_size = wide_query ? h.hidden_size / h.layers[0].num_heads : h.key_dim;
  ASSIGN_OR_RETURN(
      h.attention_scale,
      keys.NonzeroOr("attention.scale", 1.0 / std::sqrt(static_cast<double>(query_size))));
  const double yarn = YarnScoreFactor(h.rope);
  h.attention_scale *= yarn * yarn;
  ASSIGN_OR_RETURN(h.attention_softcap,
                   keys.RealOr("attn_logit_softcapping", h.spec->default_attention_softcap));
  ASSIGN_OR_RETURN(h.max_alibi_bias,
                   keys.RealOr("attention.max_alibi_bias", h.spec->default_alibi_bias));
  ASSIGN_OR_RETURN(h.clamp_qkv, keys.RealOr("attention.clamp_kqv", 0));
  h.parallel_residual = h.spec->residual == Residual::kParallel;
  if (h.spec->residual == Residual::kParallelByKey) {
    ASSIGN_OR_RETURN(h.parallel_residual, keys.BoolOr("use_parallel_residual", true));
  }
  return absl::OkStatus();
}

absl::Status ReadFeedForward(const KeyReader& keys, const LayerCounts& counts, HyperParams& h) {
  ASSIGN_OR_RETURN(const auto sizes,
                   keys.PerLayer("feed_forward_length", counts.in_file, 1, kMaxSize));
  ASSIGN_OR_RETURN(h.experts.count, keys.CountOr("expert_count", 0, 65536, 0));
  ASSIGN_OR_RETURN(const int32_t dense,
                   keys.CountOr("leading_dense_block_count", 0, kMaxLayers, 0));
  for (int32_t i = 0; i < h.num_layers; ++i) {
    LayerHyperParams& layer = h.layers[i];
    layer.mixture = h.experts.count > 0 && i >= dense;
    if (sizes.empty() && !layer.mixture) return keys.Missing("feed_forward_length");
    layer.ffn_size = sizes.empty() ? 0 : sizes[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<RouterScore> ReadRouterScore(const KeyReader& keys, RouterScore absent) {
  ASSIGN_OR_RETURN(const int32_t id, keys.CountOr("expert_gating_func", 0, 3, 0));
  switch (id) {
    case 1:
      return RouterScore::kSoftmax;
    case 2:
      return RouterScore::kSigmoid;
    case 3:
      return RouterScore::kSoftmaxOfChosen;
    default:
      return absent;
  }
}

absl::StatusOr<int32_t> ReadSharedExpertSize(const KeyReader& keys, const HyperParams& h) {
  if (h.spec->shared_expert == SharedExpert::kNone) return 0;
  ASSIGN_OR_RETURN(const auto size,
                   keys.FindCount("expert_shared_feed_forward_length", 0, kMaxSize));
  if (size) return *size;
  ASSIGN_OR_RETURN(const auto count, keys.FindCount("expert_shared_count", 0, 65536));
  if (count && static_cast<int64_t>(*count) * h.experts.ffn_size > kMaxSize) {
    return InvalidArgument("{}: {} experts of {}, expected up to {} in all",
                           keys.Key("expert_shared_count"), *count, h.experts.ffn_size, kMaxSize);
  }
  if (count) return *count * h.experts.ffn_size;
  return h.spec->shared_expert == SharedExpert::kGated ? h.layers.back().ffn_size : 0;
}

absl::Status ReadExperts(const KeyReader& keys, HyperParams& h) {
  ExpertHyperParams& experts = h.experts;
  if (experts.count == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(experts.used, keys.Count("expert_used_count", 1, experts.count));
  const int32_t share = h.spec->expert_ffn_is_share ? experts.used : 1;
  ASSIGN_OR_RETURN(experts.ffn_size, keys.CountOr("expert_feed_forward_length", 1, kMaxSize,
                                                  h.layers.back().ffn_size / share));
  if (experts.ffn_size == 0) return keys.Missing("expert_feed_forward_length");
  ASSIGN_OR_RETURN(experts.shared_ffn_size, ReadSharedExpertSize(keys, h));
  ASSIGN_OR_RETURN(experts.score, ReadRouterScore(keys, h.spec->router));
  ASSIGN_OR_RETURN(experts.normalize,
                   keys.BoolOr("expert_weights_norm", h.spec->normalize_experts));
  ASSIGN_OR_RETURN(experts.scale, keys.NonzeroOr("expert_weights_scale", 1.0));
  ASSIGN_OR_RETURN(experts.num_groups, keys.CountOr("expert_group_count", 0, experts.count, 0));
  ASSIGN_OR_RETURN(experts.num_used_groups,
                   keys.CountOr("expert_group_used_count", 0, experts.num_groups, 0));
  if (experts.num_groups > 1 &&
      (experts.count % experts.num_groups != 0 || experts.num_used_groups == 0)) {
    return InvalidArgument(
        "{}: {} groups ({} used), expected a divisor of {} experts and at least one used",
        keys.Key("expert_group_count"), experts.num_groups, experts.num_used_groups, experts.count);
  }
  return absl::OkStatus();
}

absl::Status ReadScales(const KeyReader& keys, HyperParams& h) {
  const ArchSpec& spec = *h.spec;
  const double width = h.hidden_size;
  const double embedding =
      spec.default_embedding_scale *
      (spec.embedding_scale == EmbeddingScale::kSqrtHiddenSize ? std::sqrt(width) : 1.0);
  ASSIGN_OR_RETURN(h.embedding_scale, keys.NonzeroOr("embedding_scale", embedding));
  const double residual =
      spec.residual_scale_by_depth ? 1.4 / std::sqrt(static_cast<double>(h.num_layers)) : 1.0;
  ASSIGN_OR_RETURN(h.residual_scale, keys.NonzeroOr("residual_scale", residual));
  const double logit = spec.logit_scale_by_width ? width / 256.0 : spec.default_logit_scale;
  ASSIGN_OR_RETURN(h.logit_scale, keys.NonzeroOr("logit_scale", logit));
  if (spec.logit_scale == LogitScale::kDivide) h.logit_scale = 1.0 / h.logit_scale;
  ASSIGN_OR_RETURN(h.logit_softcap,
                   keys.RealOr("final_logit_softcapping", spec.default_logit_softcap));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HyperParams> ParseHyperParams(const Metadata& metadata, int64_t embedding_rows) {
  HyperParams h;
  ASSIGN_OR_RETURN(h.spec, FindSpec(metadata));
  const KeyReader keys(metadata, h.spec->name);
  LayerCounts counts;
  RETURN_IF_ERROR(ReadVocabulary(keys, embedding_rows, h));
  RETURN_IF_ERROR(ReadSizes(keys, h, counts));
  RETURN_IF_ERROR(ReadHeads(keys, counts, h));
  RETURN_IF_ERROR(ReadRope(keys, h));
  RETURN_IF_ERROR(ReadWindows(keys, counts, h));
  ChooseRotatingLayers(h);
  RETURN_IF_ERROR(ReadLatent(keys, h));
  RETURN_IF_ERROR(ReadAttention(keys, h));
  RETURN_IF_ERROR(ReadFeedForward(keys, counts, h));
  RETURN_IF_ERROR(ReadExperts(keys, h));
  RETURN_IF_ERROR(ReadScales(keys, h));
  return h;
}

absl::StatusOr<HyperParams> ParseHyperParams(const GgufModel& model) {
  const TensorInfo* embedding = model.FindTensor("token_embd.weight");
  return ParseHyperParams(model.metadata(), embedding == nullptr ? 0 : embedding->ne[1]);
}

int32_t HyperParams::cache_heads(int32_t layer) const {
  if (spec->attention == AttentionKind::kStandard) return layers[layer].num_kv_heads;
  return latent.absorbed ? 1 : layers[layer].num_heads;
}

int32_t HyperParams::cache_key_dim() const {
  return cache_value_in_key() ? latent.kv_rank + latent.rope_dim : key_dim;
}

int32_t HyperParams::cache_value_dim() const {
  return cache_value_in_key() ? latent.kv_rank : value_dim;
}

bool HyperParams::cache_value_in_key() const {
  return spec->attention == AttentionKind::kLatent && latent.absorbed;
}

}  // namespace baton::engine
