// What distinguishes one model architecture from another, as data: small orthogonal choices and the
// documented defaults of hyperparameters that a file may leave out.
//
// A field chooses between named functions of engine/runtime, it never forks one; a new kind of
// block is a new file there and one more enumerator here. The rows are in arch_table.cc, the only
// place that knows models by name.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/tensor/operation_params.h"

namespace baton::engine {

// Where a sub-layer (attention, feed-forward) normalizes.
enum class NormPlace : uint8_t {
  kBefore,  // its input
  kAfter,   // its output, before the residual is added
  kBoth
};

// What the feed-forward network starts from, and so whether it may run beside attention.
enum class Residual : uint8_t {
  kSequential,              // the sum after attention
  kParallel,                // the layer's input
  kParallelByKey,           // use_parallel_residual says which
  kParallelWithoutFfnNorm,  // parallel in files whose layers have no ffn_norm
};

enum class AttentionKind : uint8_t {
  kStandard,  // keys and values per head, possibly shared by groups of query heads
  kLatent     // keys and values from one latent vector a position (MLA, DeepSeek-V2)
};

enum class PositionKind : uint8_t {
  kRope,
  kLearned,  // position_embd.weight is added to the embedding
  kAlibi     // a slope per head times the distance is added to each score
};

enum class QkNorm : uint8_t {
  kNone,
  kPerHead,  // one weight [head_dim] for all heads
  kFull,     // weight [heads * head_dim], over the whole row
  kHeadOwn,  // weight [head_dim, heads], each head by itself
};

enum class GateKind : uint8_t {
  kNone,   // down(act(up(x)))
  kSplit,  // down(act(gate(x)) * up(x))
  kFused   // the same; ffn_up holds gate, then up
};

enum class EmbeddingScale : uint8_t { kOne, kSqrtHiddenSize };

enum class LogitScale : uint8_t { kMultiply, kDivide };

enum class SharedExpert : uint8_t {
  kNone,
  kPlain,
  kGated  // times sigmoid of a product with ffn_gate_inp_shexp
};

// Bits of ArchSpec::biases: the vectors a file must have. Others of the table are taken where a
// file has them.
enum BiasBits : uint32_t {
  kQkvBias = 1 << 0,
  kAttnOutputBias = 1 << 1,
  kFfnBias = 1 << 2,
  kNormBias = 1 << 3,
  kOutputBias = 1 << 4,
  kExpertBias = 1 << 5,
};

struct ArchSpec {
  std::string_view name;  // general.architecture, and the prefix of its keys

  // Norms and residuals
  NormKind norm = NormKind::kRms;
  bool norm_weights = true;  // false: norms have none
  NormPlace norm_place = NormPlace::kBefore;
  Residual residual = Residual::kSequential;
  std::string_view ffn_norm_name = "ffn_norm";  // some files call it post_attention_norm
  bool embedding_norm = false;                  // token_embd_norm after the embedding
  uint32_t biases = 0;                          // BiasBits

  // Attention
  AttentionKind attention = AttentionKind::kStandard;
  PositionKind position = PositionKind::kRope;
  RopePairs rope_pairs = RopePairs::kInterleaved;
  bool fused_qkv = false;  // files have attn_qkv; where they have attn_q, attn_k and attn_v, those
                           // are taken, and vice versa
  QkNorm qk_norm = QkNorm::kNone;
  bool qk_norm_optional = false;
  bool sinks = false;
  double default_attention_softcap = 0;
  double default_alibi_bias = 0;  // attention.max_alibi_bias
  int32_t wide_query_num_layers =
      0;  // models of this many layers scale scores by hidden_size / heads, not by head size
  bool head_dim_must_match_rope =
      false;  // rope.dimension_count other than the head size is refused
  double default_rope_theta = 10000.0;

  // Which layers see a window, and how positions differ by layer
  int32_t window_period =
      0;  // 0: never. Layer i sees all if i % period == period - 1, else the window
  bool window_required = false;  // attention.sliding_window must be there; else it defaults to:
  int32_t default_window = 0;
  double window_rope_theta = 0;             // RoPE base of window layers; 0: the model's
  bool window_rope_unscaled = false;        // window layers rotate without the model's RoPE scaling
  bool rope_on_window_layers_only = false;  // where there are windows
  int32_t no_rope_period = 0;               // layer i is not rotated if i % period == period - 1

  // Feed-forward
  GateKind gate = GateKind::kSplit;
  ActivationKind activation = ActivationKind::kSilu;
  double activation_limit = 0;

  // Mixture of experts, in files with expert_count > 0 and after the leading dense layers
  RouterScore router = RouterScore::kSoftmax;  // default of expert_gating_func
  bool normalize_experts = false;              // default of expert_weights_norm
  bool expert_ffn_is_share =
      false;  // expert_feed_forward_length defaults to feed_forward_length / expert_used_count
  SharedExpert shared_expert = SharedExpert::kNone;

  // Embedding and output
  EmbeddingScale embedding_scale =
      EmbeddingScale::kOne;  // default of embedding_scale, times default_embedding_scale
  double default_embedding_scale = 1.0;
  bool residual_scale_by_depth = false;  // residual_scale defaults to 1.4 / sqrt(layers)
  LogitScale logit_scale = LogitScale::kMultiply;
  double default_logit_scale = 1.0;
  bool logit_scale_by_width = false;  // logit_scale defaults to hidden_size / 256
  double default_logit_softcap = 0;
};

// All rows, sorted by name.
std::span<const ArchSpec> AllArchSpecs();
// nullptr: unknown.
const ArchSpec* FindArchSpec(std::string_view name);

}  // namespace baton::engine
