// Every tensor that a model may have: its role, its name in GGUF files, its shape, and when it must
// be there.
//
// One table for all architectures. Binding, checks, memory planning and the tiny models of the
// tests are loops over it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/arch/hyperparams.h"
#include "engine/arch/layer_range.h"
#include "engine/base/status.h"
#include "engine/gguf/gguf_file.h"

namespace baton::engine {

enum class TensorRole : uint8_t {
  // Of the model
  kTokenEmbedding,
  kPositionEmbedding,
  kEmbeddingNorm,
  kEmbeddingNormBias,
  kRopeFactors,
  kRopeFactorsLong,
  kRopeFactorsShort,
  kOutputNorm,
  kOutputNormBias,
  kOutput,
  kOutputBias,
  // Of a layer: attention
  kAttnNorm,
  kAttnNormBias,
  kAttnNorm2,
  kAttnNorm2Bias,
  kAttnQ,
  kAttnQBias,
  kAttnK,
  kAttnKBias,
  kAttnV,
  kAttnVBias,
  kAttnQkv,
  kAttnQkvBias,
  kAttnQNorm,
  kAttnQNormBias,
  kAttnKNorm,
  kAttnKNormBias,
  kAttnSinks,
  kAttnOutput,
  kAttnOutputBias,
  kAttnPostNorm,
  // … latent attention
  kAttnQA,
  kAttnQANorm,
  kAttnQB,
  kAttnKvA,
  kAttnKvANorm,
  kAttnKB,
  kAttnVB,
  kAttnKvB,
  // … feed-forward
  kFfnNorm,
  kFfnNormBias,
  kFfnGate,
  kFfnGateBias,
  kFfnUp,
  kFfnUpBias,
  kFfnGateUp,
  kFfnDown,
  kFfnDownBias,
  kFfnPostNorm,
  // … mixture of experts
  kRouter,
  kRouterBias,
  kSelectionBias,
  kExpertGate,
  kExpertGateBias,
  kExpertUp,
  kExpertUpBias,
  kExpertDown,
  kExpertDownBias,
  kSharedRouter,
  kSharedGate,
  kSharedUp,
  kSharedDown,
};
inline constexpr int kNumTensorRoles = static_cast<int>(TensorRole::kSharedDown) + 1;

// Which stages hold a tensor.
enum class TensorPlace : uint8_t { kFirstStage, kEveryStage, kLastStage, kLayer };

enum class Presence : uint8_t { kUnknown, kOptional, kRequired };

// A length in a shape, by hyperparameter.
enum class Dim : uint8_t {
  kNone,
  kHidden,
  kVocab,
  kContext,
  kRopePairs,
  kQuery,       // heads * key_dim
  kKey,         // kv_heads * key_dim
  kValue,       // kv_heads * value_dim
  kQkv,         // their sum
  kHeadsValue,  // heads * value_dim
  kKeyDim,
  kHeads,
  kKvHeads,
  kQueryRank,
  kKvRank,
  kKvRankRope,  // kv_rank + rope_dim
  kNope,
  kLatentValue,
  kHeadsNopeValue,  // heads * (nope_dim + value_dim)
  kFfn,
  kTwoFfn,
  kExperts,
  kExpertFfn,
  kSharedFfn,
};

// A fused tensor is bound as these, one after another along its last dimension.
struct TensorSlice {
  TensorRole role;
  Dim size = Dim::kNone;  // kNone ends the list
};

struct TensorRow {
  TensorRole role;
  TensorPlace place;
  std::string_view name;  // after "blk.N." for kLayer
  std::array<Dim, 3> shape;
  Presence (*when)(const HyperParams& hyperparams, const LayerHyperParams& layer);
  bool vector = false;  // F32; else any type that has a matrix kernel
  TensorRole instead =
      TensorRole::kTokenEmbedding;  // a required tensor may be missing if this one is there …
  bool has_instead = false;         // … where this says so
  std::array<TensorSlice, 4> slices = {};
};

std::span<const TensorRow> TensorTable();

// "blk.3.attn_q.weight"
std::string TensorName(const TensorRow& row, const ArchSpec& spec, int32_t layer);
// The shape a tensor of that row must have, without trailing ones.
std::vector<int64_t> TensorShape(const TensorRow& row, const HyperParams& hyperparams,
                                 int32_t layer);
Presence TensorPresence(const TensorRow& row, const HyperParams& hyperparams, int32_t layer);
int64_t DimSize(Dim dim, const HyperParams& hyperparams, int32_t layer);

struct FoundTensor {
  const TensorRow* row = nullptr;
  int32_t layer = -1;  // -1: of the model
  const TensorInfo* info = nullptr;
};

// nullptr: absent.
using TensorFinder = std::function<const TensorInfo*(std::string_view name)>;

// The tensors of a stage, each with the shape and a type that the table allows; `where` stands in
// errors. A tied output is found as token_embd.weight in the role kOutput.
absl::StatusOr<std::vector<FoundTensor>> FindStageTensors(const HyperParams& hyperparams,
                                                          LayerRange layers,
                                                          const TensorFinder& find,
                                                          std::string_view where);

// Unimplemented names a tensor of the file that no row of the table accounts for: a part of the
// model would be ignored.
absl::Status CheckNoUnknownTensor(const HyperParams& hyperparams,
                                  std::span<const TensorInfo> tensors, std::string_view where);

}  // namespace baton::engine
