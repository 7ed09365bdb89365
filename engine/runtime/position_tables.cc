#include "engine/runtime/position_tables.h"

#include "engine/arch/rope.h"

namespace baton::engine {
namespace {

RopeParams MakeRope(const HyperParams& h, const RopeHyperParams& rope,
                    std::span<const float> factors) {
  return {.pairs = h.spec->rope_pairs,
          .dims = rope.dims,
          .offset = 0,
          .inv_freq = RopeFrequencies(rope, factors),
          .magnitude = static_cast<float>(RopeMagnitude(rope))};
}

std::span<const float> ChooseFactors(const RopeFactors& factors, const RopeHyperParams& rope,
                                     int32_t context_length) {
  if (!factors.all.empty()) return factors.all;
  return context_length > rope.original_context_length ? factors.longer : factors.shorter;
}

}  // namespace

PositionTables MakePositionTables(const HyperParams& h, const RopeFactors& factors,
                                  int32_t context_length) {
  PositionTables tables;
  if (h.max_alibi_bias > 0) {
    tables.alibi_slopes = AlibiSlopes(h.max_alibi_bias, h.layers[0].num_heads);
  }
  if (h.spec->position != PositionKind::kRope) return tables;
  tables.rope = MakeRope(h, h.rope, ChooseFactors(factors, h.rope, context_length));
  tables.window_rope = MakeRope(h, h.window_rope, {});
  tables.latent_key_rope = tables.rope;
  tables.rope.offset = h.latent.nope_dim;  // 0 but in latent attention
  return tables;
}

}  // namespace baton::engine
