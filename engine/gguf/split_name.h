// Keys and file names of split sets, as GGUF tools write them: NAME-00001-of-00003.gguf, counted
// from 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::engine {

inline constexpr std::string_view kSplitNoKey = "split.no";        // from 0
inline constexpr std::string_view kSplitCountKey = "split.count";  // 0, 1 or absent: not split
inline constexpr std::string_view kSplitTensorsCountKey = "split.tensors.count";  // of all parts

// The split.* keys of one file.
struct SplitKeys {
  uint64_t no = 0;
  uint64_t count = 0;  // 0: not split
  std::optional<uint64_t> num_tensors;
};

struct SplitName {
  std::string prefix;  // with the folder, if any: "models/NAME"
  uint32_t no = 0;     // from 0
  uint32_t count = 0;
};

std::string FormatSplitName(const SplitName& name);
std::optional<SplitName> ParseSplitName(std::string_view path);  // nullopt: another kind of name

}  // namespace baton::engine
