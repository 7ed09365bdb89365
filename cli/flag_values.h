// Values as people write them on a command line. Errors are usage errors and name the flag.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/arch/layer_range.h"
#include "engine/base/status.h"
#include "engine/base/token_id.h"
#include "engine/tensor/operation_params.h"

namespace baton::cli {

absl::StatusOr<uint64_t> ParseSize(std::string_view flag,
                                   std::string_view text);  // 4GiB, 500MB, 1024
absl::StatusOr<absl::Duration> ParseDuration(std::string_view flag,
                                             std::string_view text);  // 30s, 1.5m; 30 is seconds
absl::StatusOr<std::vector<engine::TokenId>> ParseTokenIds(std::string_view flag,
                                                           std::string_view text);  // 1,2,3
absl::StatusOr<std::vector<int>> ParseCounts(std::string_view flag,
                                             std::string_view text);  // 1,16: each at least 1
// 0-9,10-29: inclusive, in order, without gaps.
absl::StatusOr<std::vector<engine::LayerRange>> ParseLayerRanges(std::string_view flag,
                                                                 std::string_view text);
absl::StatusOr<engine::KvType> ParseKvType(std::string_view flag,
                                           std::string_view text);  // f16, f32, q8_0

}  // namespace baton::cli
