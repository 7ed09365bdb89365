// What a request may say. An InvalidArgument names the parameter, what was got and what is
// expected.
#pragma once

#include <cstdint>
#include <span>

#include "coordinator/generation.h"
#include "engine/base/status.h"
#include "engine/base/token_id.h"

namespace baton::coordinator {

inline constexpr int32_t kMaxTopLogprobs = 20;
inline constexpr size_t kMaxLogitBias = 4096;
inline constexpr int32_t kMaxPriority = 1000;

// All but the prompt.
absl::Status CheckGenerationRequest(const GenerationRequest& request, int32_t vocab_size);
absl::Status CheckTokenIds(std::span<const engine::TokenId> ids, int32_t vocab_size);

}  // namespace baton::coordinator
