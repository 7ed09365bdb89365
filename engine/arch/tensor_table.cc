#include "engine/arch/tensor_table.h"

#include <unordered_set>

namespace baton::engine {
namespace {

using H = const HyperParams&;
using L = const LayerHyperParams&;

constexpr Presence RequiredIf(bool condition) {
  return condition ? Presence::kRequired : Presence::kUnknown;
}
constexpr Presence OptionalIf(bool condition) {
  return condition ? Presence::kOptional : Presence::kUnknown;
}

// Conditions of the table. Named for when a tensor is there.
Presence Always(H, L) { return Presence::kRequired; }
Presence Maybe(H, L) { return Presence::kOptional; }
Presence WithLearnedPositions(H h, L) {
  return RequiredIf(h.spec->position == PositionKind::kLearned);
}
Presence WithEmbeddingNorm(H h, L) { return RequiredIf(h.spec->embedding_norm); }
Presence WithRope(H h, L) { return OptionalIf(h.spec->position == PositionKind::kRope); }

Presence NormWeight(H h, L) { return RequiredIf(h.spec->norm_weights); }
Presence NormBias(H h, bool there) {
  if (!there || h.spec->norm != NormKind::kLayer || !h.spec->norm_weights)
    return Presence::kUnknown;
  return (h.spec->biases & kNormBias) != 0 ? Presence::kRequired : Presence::kOptional;
}
Presence AnyNormBias(H h, L) { return NormBias(h, true); }
Presence EmbeddingNormBias(H h, L) { return NormBias(h, h.spec->embedding_norm); }

bool NormsInput(H h) { return h.spec->norm_place != NormPlace::kAfter; }
Presence InputNorm(H h, L) { return RequiredIf(NormsInput(h) && h.spec->norm_weights); }
Presence InputNormBias(H h, L) { return NormBias(h, NormsInput(h)); }
Presence SecondInputNorm(H h, L) { return OptionalIf(h.spec->residual == Residual::kParallel); }
Presence OutputNormOfPart(H h, L) {
  return RequiredIf(h.spec->norm_place != NormPlace::kBefore && h.spec->norm_weights);
}
bool MayLackFfnNorm(H h) {
  return h.spec->residual == Residual::kParallel ||
         h.spec->residual == Residual::kParallelWithoutFfnNorm;
}
Presence FfnNorm(H h, L) {
  if (!NormsInput(h) || !h.spec->norm_weights) return Presence::kUnknown;
  return MayLackFfnNorm(h) ? Presence::kOptional : Presence::kRequired;
}
Presence FfnNormBias(H h, L) {
  const Presence presence = NormBias(h, NormsInput(h));
  return presence == Presence::kRequired && MayLackFfnNorm(h) ? Presence::kOptional : presence;
}

bool Standard(H h) { return h.spec->attention == AttentionKind::kStandard; }
bool Latent(H h) { return h.spec->attention == AttentionKind::kLatent; }
Presence BiasOf(H h, uint32_t bit, bool there) {
  if (!there) return Presence::kUnknown;
  return (h.spec->biases & bit) != 0 ? Presence::kRequired : Presence::kOptional;
}
Presence StandardAttention(H h, L) { return RequiredIf(Standard(h)); }
Presence StandardOrUncompressedQuery(H h, L) {
  return RequiredIf(Standard(h) || h.latent.query_rank == 0);
}
Presence QkvBias(H h, L) { return BiasOf(h, kQkvBias, Standard(h)); }
Presence AttnOutputBias(H h, L) { return BiasOf(h, kAttnOutputBias, true); }
Presence Sinks(H h, L) { return RequiredIf(h.spec->sinks); }
template <QkNorm kKind>
Presence WithQkNorm(H h, L) {
  if (h.spec->qk_norm != kKind) return Presence::kUnknown;
  return h.spec->qk_norm_optional ? Presence::kOptional : Presence::kRequired;
}
Presence FullQkNormBias(H h, L) {
  return OptionalIf(h.spec->qk_norm == QkNorm::kFull && h.spec->norm == NormKind::kLayer);
}
Presence LatentAttention(H h, L) { return RequiredIf(Latent(h)); }
Presence CompressedQuery(H h, L) { return RequiredIf(Latent(h) && h.latent.query_rank > 0); }
Presence Absorbed(H h, L) { return RequiredIf(Latent(h) && h.latent.absorbed); }
Presence Expanded(H h, L) { return RequiredIf(Latent(h) && !h.latent.absorbed); }

Presence SplitGate(H h, L l) { return RequiredIf(!l.mixture && h.spec->gate == GateKind::kSplit); }
Presence SplitGateBias(H h, L l) {
  return BiasOf(h, kFfnBias, !l.mixture && h.spec->gate == GateKind::kSplit);
}
Presence FusedGate(H h, L l) { return RequiredIf(!l.mixture && h.spec->gate == GateKind::kFused); }
Presence SeparateUp(H h, L l) { return RequiredIf(!l.mixture && h.spec->gate != GateKind::kFused); }
Presence SeparateUpBias(H h, L l) {
  return BiasOf(h, kFfnBias, !l.mixture && h.spec->gate != GateKind::kFused);
}
Presence Dense(H, L l) { return RequiredIf(!l.mixture); }
Presence DenseBias(H h, L l) { return BiasOf(h, kFfnBias, !l.mixture); }

Presence Mixture(H, L l) { return RequiredIf(l.mixture); }
Presence ExpertBias(H h, L l) {
  return RequiredIf(l.mixture && (h.spec->biases & kExpertBias) != 0);
}
Presence MixtureMaybe(H, L l) { return OptionalIf(l.mixture); }
bool HasShared(H h, L l) { return l.mixture && h.experts.shared_ffn_size > 0; }
Presence Shared(H h, L l) { return RequiredIf(HasShared(h, l)); }
Presence GatedShared(H h, L l) {
  return RequiredIf(HasShared(h, l) && h.spec->shared_expert == SharedExpert::kGated);
}
Presence OutputBias(H h, L) { return BiasOf(h, kOutputBias, true); }

constexpr TensorPlace kFirst = TensorPlace::kFirstStage;
constexpr TensorPlace kEvery = TensorPlace::kEveryStage;
constexpr TensorPlace kLast = TensorPlace::kLastStage;
constexpr TensorPlace kLayer = TensorPlace::kLayer;
constexpr std::string_view kFfnNormName = "ffn_norm.";  // ArchSpec::ffn_norm_name takes its place

constexpr TensorRow Matrix(TensorRole role, TensorPlace place, std::string_view name,
                           std::array<Dim, 3> shape, Presence (*when)(H, L)) {
  return {.role = role, .place = place, .name = name, .shape = shape, .when = when};
}
constexpr TensorRow Vector(TensorRole role, TensorPlace place, std::string_view name,
                           std::array<Dim, 3> shape, Presence (*when)(H, L)) {
  return {.role = role, .place = place, .name = name, .shape = shape, .when = when, .vector = true};
}
constexpr TensorRow Instead(TensorRow row, TensorRole other) {
  row.instead = other;
  row.has_instead = true;
  return row;
}
constexpr TensorRow Sliced(TensorRow row, std::array<TensorSlice, 4> slices) {
  row.slices = slices;
  return row;
}

using R = TensorRole;
constexpr std::array<TensorSlice, 4> kQkvSlices = {
    {{R::kAttnQ, Dim::kQuery}, {R::kAttnK, Dim::kKey}, {R::kAttnV, Dim::kValue}}};
constexpr std::array<TensorSlice, 4> kQkvBiasSlices = {
    {{R::kAttnQBias, Dim::kQuery}, {R::kAttnKBias, Dim::kKey}, {R::kAttnVBias, Dim::kValue}}};
constexpr std::array<TensorSlice, 4> kGateUpSlices = {
    {{R::kFfnGate, Dim::kFfn}, {R::kFfnUp, Dim::kFfn}}};

// clang-format off
const TensorRow kTable[] = {
    Matrix(R::kTokenEmbedding, kFirst, "token_embd.weight", {Dim::kHidden, Dim::kVocab}, Always),
    Matrix(R::kPositionEmbedding, kFirst, "position_embd.weight", {Dim::kHidden, Dim::kContext}, WithLearnedPositions),
    Vector(R::kEmbeddingNorm, kFirst, "token_embd_norm.weight", {Dim::kHidden}, WithEmbeddingNorm),
    Vector(R::kEmbeddingNormBias, kFirst, "token_embd_norm.bias", {Dim::kHidden}, EmbeddingNormBias),
    Vector(R::kRopeFactors, kEvery, "rope_freqs.weight", {Dim::kRopePairs}, WithRope),
    Vector(R::kRopeFactorsLong, kEvery, "rope_factors_long.weight", {Dim::kRopePairs}, WithRope),
    Vector(R::kRopeFactorsShort, kEvery, "rope_factors_short.weight", {Dim::kRopePairs}, WithRope),
    Vector(R::kOutputNorm, kLast, "output_norm.weight", {Dim::kHidden}, NormWeight),
    Vector(R::kOutputNormBias, kLast, "output_norm.bias", {Dim::kHidden}, AnyNormBias),
    Matrix(R::kOutput, kLast, "output.weight", {Dim::kHidden, Dim::kVocab}, Maybe),
    Vector(R::kOutputBias, kLast, "output.bias", {Dim::kVocab}, OutputBias),

    Vector(R::kAttnNorm, kLayer, "attn_norm.weight", {Dim::kHidden}, InputNorm),
    Vector(R::kAttnNormBias, kLayer, "attn_norm.bias", {Dim::kHidden}, InputNormBias),
    Vector(R::kAttnNorm2, kLayer, "attn_norm_2.weight", {Dim::kHidden}, SecondInputNorm),
    Vector(R::kAttnNorm2Bias, kLayer, "attn_norm_2.bias", {Dim::kHidden}, SecondInputNorm),
    Instead(Matrix(R::kAttnQ, kLayer, "attn_q.weight", {Dim::kHidden, Dim::kQuery}, StandardOrUncompressedQuery), R::kAttnQkv),
    Instead(Vector(R::kAttnQBias, kLayer, "attn_q.bias", {Dim::kQuery}, QkvBias), R::kAttnQkvBias),
    Instead(Matrix(R::kAttnK, kLayer, "attn_k.weight", {Dim::kHidden, Dim::kKey}, StandardAttention), R::kAttnQkv),
    Instead(Vector(R::kAttnKBias, kLayer, "attn_k.bias", {Dim::kKey}, QkvBias), R::kAttnQkvBias),
    Instead(Matrix(R::kAttnV, kLayer, "attn_v.weight", {Dim::kHidden, Dim::kValue}, StandardAttention), R::kAttnQkv),
    Instead(Vector(R::kAttnVBias, kLayer, "attn_v.bias", {Dim::kValue}, QkvBias), R::kAttnQkvBias),
    Instead(Sliced(Matrix(R::kAttnQkv, kLayer, "attn_qkv.weight", {Dim::kHidden, Dim::kQkv}, StandardAttention), kQkvSlices), R::kAttnQ),
    Instead(Sliced(Vector(R::kAttnQkvBias, kLayer, "attn_qkv.bias", {Dim::kQkv}, QkvBias), kQkvBiasSlices), R::kAttnQBias),
    Vector(R::kAttnQNorm, kLayer, "attn_q_norm.weight", {Dim::kKeyDim}, WithQkNorm<QkNorm::kPerHead>),
    Vector(R::kAttnQNorm, kLayer, "attn_q_norm.weight", {Dim::kQuery}, WithQkNorm<QkNorm::kFull>),
    Vector(R::kAttnQNorm, kLayer, "attn_q_norm.weight", {Dim::kKeyDim, Dim::kHeads}, WithQkNorm<QkNorm::kHeadOwn>),
    Vector(R::kAttnQNormBias, kLayer, "attn_q_norm.bias", {Dim::kQuery}, FullQkNormBias),
    Vector(R::kAttnKNorm, kLayer, "attn_k_norm.weight", {Dim::kKeyDim}, WithQkNorm<QkNorm::kPerHead>),
    Vector(R::kAttnKNorm, kLayer, "attn_k_norm.weight", {Dim::kKey}, WithQkNorm<QkNorm::kFull>),
    Vector(R::kAttnKNorm, kLayer, "attn_k_norm.weight", {Dim::kKeyDim, Dim::kKvHeads}, WithQkNorm<QkNorm::kHeadOwn>),
    Vector(R::kAttnKNormBias, kLayer, "attn_k_norm.bias", {Dim::kKey}, FullQkNormBias),
    Vector(R::kAttnSinks, kLayer, "attn_sinks.weight", {Dim::kHeads}, Sinks),
    Matrix(R::kAttnOutput, kLayer, "attn_output.weight", {Dim::kHeadsValue, Dim::kHidden}, Always),
    Vector(R::kAttnOutputBias, kLayer, "attn_output.bias", {Dim::kHidden}, AttnOutputBias),
    Vector(R::kAttnPostNorm, kLayer, "post_attention_norm.weight", {Dim::kHidden}, OutputNormOfPart),

    Matrix(R::kAttnQA, kLayer, "attn_q_a.weight", {Dim::kHidden, Dim::kQueryRank}, CompressedQuery),
    Vector(R::kAttnQANorm, kLayer, "attn_q_a_norm.weight", {Dim::kQueryRank}, CompressedQuery),
    Matrix(R::kAttnQB, kLayer, "attn_q_b.weight", {Dim::kQueryRank, Dim::kQuery}, CompressedQuery),
    Matrix(R::kAttnKvA, kLayer, "attn_kv_a_mqa.weight", {Dim::kHidden, Dim::kKvRankRope}, LatentAttention),
    Vector(R::kAttnKvANorm, kLayer, "attn_kv_a_norm.weight", {Dim::kKvRank}, LatentAttention),
    Matrix(R::kAttnKB, kLayer, "attn_k_b.weight", {Dim::kNope, Dim::kKvRank, Dim::kHeads}, Absorbed),
    Matrix(R::kAttnVB, kLayer, "attn_v_b.weight", {Dim::kKvRank, Dim::kLatentValue, Dim::kHeads}, Absorbed),
    Matrix(R::kAttnKvB, kLayer, "attn_kv_b.weight", {Dim::kKvRank, Dim::kHeadsNopeValue}, Expanded),

    Vector(R::kFfnNorm, kLayer, "ffn_norm.weight", {Dim::kHidden}, FfnNorm),
    Vector(R::kFfnNormBias, kLayer, "ffn_norm.bias", {Dim::kHidden}, FfnNormBias),
    Matrix(R::kFfnGate, kLayer, "ffn_gate.weight", {Dim::kHidden, Dim::kFfn}, SplitGate),
    Vector(R::kFfnGateBias, kLayer, "ffn_gate.bias", {Dim::kFfn}, SplitGateBias),
    Matrix(R::kFfnUp, kLayer, "ffn_up.weight", {Dim::kHidden, Dim::kFfn}, SeparateUp),
    Vector(R::kFfnUpBias, kLayer, "ffn_up.bias", {Dim::kFfn}, SeparateUpBias),
    Sliced(Matrix(R::kFfnGateUp, kLayer, "ffn_up.weight", {Dim::kHidden, Dim::kTwoFfn}, FusedGate), kGateUpSlices),
    Matrix(R::kFfnDown, kLayer, "ffn_down.weight", {Dim::kFfn, Dim::kHidden}, Dense),
    Vector(R::kFfnDownBias, kLayer, "ffn_down.bias", {Dim::kHidden}, DenseBias),
    Vector(R::kFfnPostNorm, kLayer, "post_ffw_norm.weight", {Dim::kHidden}, OutputNormOfPart),

    Matrix(R::kRouter, kLayer, "ffn_gate_inp.weight", {Dim::kHidden, Dim::kExperts}, Mixture),
    Vector(R::kRouterBias, kLayer, "ffn_gate_inp.bias", {Dim::kExperts}, ExpertBias),
    Vector(R::kSelectionBias, kLayer, "exp_probs_b.bias", {Dim::kExperts}, MixtureMaybe),
    Matrix(R::kExpertGate, kLayer, "ffn_gate_exps.weight", {Dim::kHidden, Dim::kExpertFfn, Dim::kExperts}, Mixture),
    Vector(R::kExpertGateBias, kLayer, "ffn_gate_exps.bias", {Dim::kExpertFfn, Dim::kExperts}, ExpertBias),
    Matrix(R::kExpertUp, kLayer, "ffn_up_exps.weight", {Dim::kHidden, Dim::kExpertFfn, Dim::kExperts}, Mixture),
    Vector(R::kExpertUpBias, kLayer, "ffn_up_exps.bias", {Dim::kExpertFfn, Dim::kExperts}, ExpertBias),
    Matrix(R::kExpertDown, kLayer, "ffn_down_exps.weight", {Dim::kExpertFfn, Dim::kHidden, Dim::kExperts}, Mixture),
    Vector(R::kExpertDownBias, kLayer, "ffn_down_exps.bias", {Dim::kHidden, Dim::kExperts}, ExpertBias),
    Matrix(R::kSharedRouter, kLayer, "ffn_gate_inp_shexp.weight", {Dim::kHidden}, GatedShared),
    Matrix(R::kSharedGate, kLayer, "ffn_gate_shexp.weight", {Dim::kHidden, Dim::kSharedFfn}, Shared),
    Matrix(R::kSharedUp, kLayer, "ffn_up_shexp.weight", {Dim::kHidden, Dim::kSharedFfn}, Shared),
    Matrix(R::kSharedDown, kLayer, "ffn_down_shexp.weight", {Dim::kSharedFfn, Dim::kHidden}, Shared),
};
// clang-format on

// What a model-level row's condition sees where a layer's is asked for.
const LayerHyperParams kNoLayer;

const LayerHyperParams& LayerOf(const HyperParams& h, int32_t layer) {
  return layer < 0 ? kNoLayer : h.layers[layer];
}

const TensorRow& RowOf(TensorRole role) {
  for (const TensorRow& row : kTable) {
    if (row.role == role) return row;
  }
  __builtin_unreachable();  // each role has a row
}

bool SameShape(const TensorInfo& info, std::span<const int64_t> shape) {
  for (size_t i = 0; i < info.ne.size(); ++i) {
    if (info.ne[i] != (i < shape.size() ? shape[i] : 1)) return false;
  }
  return true;
}

absl::Status CheckType(const TensorRow& row, const TensorInfo& info, std::string_view where) {
  const kernels::QuantTraits& traits = kernels::TraitsOf(info.type);
  if (row.vector && info.type != kernels::QuantType::kF32) {
    return Unimplemented("{}: type {}, expected F32 ({})", info.name, traits.name, where);
  }
  if (traits.activation == kernels::ActivationFormat::kNone) {
    return Unimplemented("{}: type {}, expected one that has a matrix kernel ({})", info.name,
                         traits.name, where);
  }
  return absl::OkStatus();
}

// Looks up one row after another and collects what is there.
class StageTensorSearch {
 public:
  StageTensorSearch(const HyperParams& h, const TensorFinder& find, std::string_view where)
      : h_(h), find_(find), where_(where) {}

  absl::Status Look(const TensorRow& row, int32_t layer) {
    const Presence presence = TensorPresence(row, h_, layer);
    if (presence == Presence::kUnknown) return absl::OkStatus();
    const std::string name = TensorName(row, *h_.spec, layer);
    const TensorInfo* info = find_(name);
    if (info == nullptr && row.role == TensorRole::kOutput)
      info = find_(RowOf(TensorRole::kTokenEmbedding).name);
    if (info != nullptr) return Take(row, layer, *info);
    return presence == Presence::kRequired ? CheckReplaced(row, layer, name) : absl::OkStatus();
  }

  std::vector<FoundTensor> TakeFound() { return std::move(found_); }

 private:
  absl::Status Take(const TensorRow& row, int32_t layer, const TensorInfo& info) {
    const std::vector<int64_t> shape = TensorShape(row, h_, layer);
    if (!SameShape(info, shape)) {
      return InvalidArgument("{}: shape {}, expected {} ({})", info.name,
                             ShapeString(std::span(info.ne).first(info.num_dims)),
                             ShapeString(shape), where_);
    }
    RETURN_IF_ERROR(CheckType(row, info, where_));
    found_.push_back({&row, layer, &info});
    return absl::OkStatus();
  }

  absl::Status CheckReplaced(const TensorRow& row, int32_t layer, std::string_view name) const {
    if (!row.has_instead) return InvalidArgument("{}: no such tensor ({})", name, where_);
    const TensorRow& instead = RowOf(row.instead);
    const std::string other = TensorName(instead, *h_.spec, layer);
    const bool usable = TensorPresence(instead, h_, layer) != Presence::kUnknown;
    if (usable && find_(other) != nullptr) return absl::OkStatus();
    const bool fused = h_.spec->fused_qkv;
    return InvalidArgument("{}: no such tensor, nor {} ({})", fused ? other : name,
                           fused ? name : other, where_);
  }

  const HyperParams& h_;
  const TensorFinder& find_;
  std::string_view where_;
  std::vector<FoundTensor> found_;
};

bool InStage(TensorPlace place, const HyperParams& h, LayerRange layers) {
  switch (place) {
    case TensorPlace::kFirstStage:
      return layers.begin == 0;
    case TensorPlace::kEveryStage:
      return true;
    case TensorPlace::kLastStage:
      return layers.end == h.num_layers;
    case TensorPlace::kLayer:
      return false;
  }
  return false;
}

// "blk.12.attn_q.weight" -> 12; -1: of no layer.
int32_t LayerOfName(std::string_view name) {
  if (!name.starts_with("blk.")) return -1;
  int32_t layer = 0;
  size_t i = 4;
  for (; i < name.size() && name[i] >= '0' && name[i] <= '9' && layer < 100000; ++i)
    layer = layer * 10 + (name[i] - '0');
  return i > 4 && i < name.size() && name[i] == '.' ? layer : -1;
}

}  // namespace

std::span<const TensorRow> TensorTable() { return kTable; }

std::string TensorName(const TensorRow& row, const ArchSpec& spec, int32_t layer) {
  if (row.place != TensorPlace::kLayer) return std::string(row.name);
  if (row.name.starts_with(kFfnNormName)) {
    return fmt::format("blk.{}.{}.{}", layer, spec.ffn_norm_name,
                       row.name.substr(kFfnNormName.size()));
  }
  return fmt::format("blk.{}.{}", layer, row.name);
}

int64_t DimSize(Dim dim, const HyperParams& h, int32_t layer) {
  const LayerHyperParams& l = LayerOf(h, layer);
  const int64_t heads = l.num_heads;
  const int64_t query = heads * h.key_dim;
  const int64_t key = static_cast<int64_t>(l.num_kv_heads) * h.key_dim;
  const int64_t value = static_cast<int64_t>(l.num_kv_heads) * h.value_dim;
  switch (dim) {
    case Dim::kNone:
      return 1;
    case Dim::kHidden:
      return h.hidden_size;
    case Dim::kVocab:
      return h.vocab_size;
    case Dim::kContext:
      return h.context_length;
    case Dim::kRopePairs:
      return h.rope.dims / 2;
    case Dim::kQuery:
      return query;
    case Dim::kKey:
      return key;
    case Dim::kValue:
      return value;
    case Dim::kQkv:
      return query + key + value;
    case Dim::kHeadsValue:
      return heads * h.value_dim;
    case Dim::kKeyDim:
      return h.key_dim;
    case Dim::kHeads:
      return heads;
    case Dim::kKvHeads:
      return l.num_kv_heads;
    case Dim::kQueryRank:
      return h.latent.query_rank;
    case Dim::kKvRank:
      return h.latent.kv_rank;
    case Dim::kKvRankRope:
      return h.latent.kv_rank + h.latent.rope_dim;
    case Dim::kNope:
      return h.latent.nope_dim;
    case Dim::kLatentValue:
      return h.latent.value_dim;
    case Dim::kHeadsNopeValue:
      return heads * (h.latent.nope_dim + h.latent.value_dim);
    case Dim::kFfn:
      return l.ffn_size;
    case Dim::kTwoFfn:
      return 2 * static_cast<int64_t>(l.ffn_size);
    case Dim::kExperts:
      return h.experts.count;
    case Dim::kExpertFfn:
      return h.experts.ffn_size;
    case Dim::kSharedFfn:
      return h.experts.shared_ffn_size;
  }
  return 0;
}

std::vector<int64_t> TensorShape(const TensorRow& row, const HyperParams& hyperparams,
                                 int32_t layer) {
  std::vector<int64_t> shape;
  for (const Dim dim : row.shape) {
    if (dim != Dim::kNone) shape.push_back(DimSize(dim, hyperparams, layer));
  }
  return shape;
}

Presence TensorPresence(const TensorRow& row, const HyperParams& hyperparams, int32_t layer) {
  return row.when(hyperparams, LayerOf(hyperparams, layer));
}

absl::StatusOr<std::vector<FoundTensor>> FindStageTensors(const HyperParams& hyperparams,
                                                          LayerRange layers,
                                                          const TensorFinder& find,
                                                          std::string_view where) {
  if (layers.begin < 0 || layers.end > hyperparams.num_layers || layers.begin >= layers.end) {
    return InvalidArgument("layers [{}, {}): expected a range within [0, {})", layers.begin,
                           layers.end, hyperparams.num_layers);
  }
  StageTensorSearch search(hyperparams, find, where);
  for (const TensorRow& row : kTable) {
    if (InStage(row.place, hyperparams, layers)) RETURN_IF_ERROR(search.Look(row, -1));
  }
  for (int32_t layer = layers.begin; layer < layers.end; ++layer) {
    for (const TensorRow& row : kTable) {
      if (row.place == TensorPlace::kLayer) RETURN_IF_ERROR(search.Look(row, layer));
    }
  }
  return search.TakeFound();
}

absl::Status CheckNoUnknownTensor(const HyperParams& hyperparams,
                                  std::span<const TensorInfo> tensors, std::string_view where) {
  std::unordered_set<std::string> known;
  for (const TensorRow& row : kTable) {
    const bool of_layer = row.place == TensorPlace::kLayer;
    for (int32_t layer = of_layer ? 0 : -1; layer < (of_layer ? hyperparams.num_layers : 0);
         ++layer) {
      if (TensorPresence(row, hyperparams, layer) == Presence::kUnknown) continue;
      known.insert(TensorName(row, *hyperparams.spec, layer));
    }
  }
  for (const TensorInfo& info : tensors) {
    if (LayerOfName(info.name) >= hyperparams.num_layers) continue;  // layers that only predict
    if (!known.contains(std::string(info.name))) {
      return Unimplemented("{}: no tensor of architecture {} that this build knows ({})", info.name,
                           hyperparams.spec->name, where);
    }
  }
  return absl::OkStatus();
}

}  // namespace baton::engine
