// The numbers of a model, read once from its metadata. A value: whoever needs it copies it; any
// thread may read it.
//
// Each key is present, absent (then the architecture's documented default holds), of a wrong type
// or out of range (then an error names it). Nothing here looks at a weight's bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/arch/arch_spec.h"
#include "engine/base/status.h"
#include "engine/gguf/gguf_file.h"
#include "engine/gguf/metadata.h"

namespace baton::engine {

enum class RopeScaling : uint8_t { kNone, kLinear, kYarn, kLongRope };

// How positions become angles; engine/arch/rope.h makes frequencies of it.
struct RopeHyperParams {
  int32_t dims = 0;  // of each head that rotate
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;                  // positions are divided by it (linear, YaRN)
  int32_t original_context_length = 0;  // the training length the scaling starts from
  double attention_factor = 1.0;        // rope.scaling.attn_factor, a factor of the magnitude
  double beta_fast = 32.0;  // YaRN: rotations over the original context where extrapolation ends
  double beta_slow = 1.0;   // … and where interpolation begins
  double log_multiplier = 0.0;  // YaRN: rope.scaling.yarn_log_multiplier, of the score scale
};

// What may differ between layers.
struct LayerHyperParams {
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t ffn_size = 0;
  int32_t window = 0;        // positions a row sees; 0: all
  bool rotates = true;       // RoPE
  bool window_rope = false;  // by HyperParams::window_rope instead of rope
  bool mixture = false;      // experts instead of a dense feed-forward network
};

// Latent attention: sizes of the compressed query, of the compressed key-value vector and of a
// head's parts.
struct LatentHyperParams {
  int32_t query_rank = 0;  // 0: queries are not compressed
  int32_t kv_rank = 0;
  int32_t rope_dim = 0;   // the rotated part of a head's key
  int32_t nope_dim = 0;   // the other part
  int32_t value_dim = 0;  // of a head
  bool absorbed = true;   // attn_k_b and attn_v_b: scores are taken in the latent space. Else
                          // attn_kv_b expands keys
};

struct ExpertHyperParams {
  int32_t count = 0;  // 0: no mixture in this model
  int32_t used = 0;
  int32_t ffn_size = 0;
  int32_t shared_ffn_size = 0;
  int32_t num_groups = 0;
  int32_t num_used_groups = 0;
  RouterScore score = RouterScore::kSoftmax;
  bool normalize = false;
  double scale = 1.0;
};

struct HyperParams {
  const ArchSpec* spec = nullptr;  // a row of the static table
  int32_t vocab_size = 0;
  int32_t context_length = 0;  // trained
  int32_t hidden_size = 0;
  int32_t num_layers = 0;
  int32_t key_dim = 0;    // of a head
  int32_t value_dim = 0;  // of a head
  double norm_eps = 0;

  RopeHyperParams rope;
  RopeHyperParams window_rope;
  double attention_scale = 0;  // of scores
  double attention_softcap = 0;
  double max_alibi_bias = 0;
  double clamp_qkv = 0;  // 0: none
  bool parallel_residual = false;
  double embedding_scale = 1.0;
  double residual_scale = 1.0;
  double logit_scale = 1.0;  // a factor, whatever the file says
  double logit_softcap = 0;

  LatentHyperParams latent;  // AttentionKind::kLatent only
  ExpertHyperParams experts;
  std::vector<LayerHyperParams> layers;  // [num_layers]

  // Heads and widths of the keys and values that layer's cache holds (one shared head in the latent
  // space).
  int32_t cache_heads(int32_t layer) const;
  int32_t cache_key_dim() const;
  int32_t cache_value_dim() const;
  bool cache_value_in_key() const;
};

// Unimplemented lists the known architectures where the file's is unknown; InvalidArgument names
// the key. `embedding_rows` (of token_embd.weight) gives the vocabulary's size where neither tokens
// nor a key do.
absl::StatusOr<HyperParams> ParseHyperParams(const Metadata& metadata, int64_t embedding_rows = 0);
absl::StatusOr<HyperParams> ParseHyperParams(const GgufModel& model);

}  // namespace baton::engine
