#include "cli/flag_values.h"

#include <charconv>
#include <optional>

#include "cli/exit_code.h"
#include "engine/base/quote.h"
#include "engine/base/units.h"

namespace baton::cli {
namespace {

std::optional<int32_t> ParseInt(std::string_view text) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string_view> SplitAtCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.push_back(part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

absl::Status Expected(std::string_view flag, std::string_view got, std::string_view expected) {
  return UsageError("{}: got {}, expected {}", flag, engine::Named(got), expected);
}

}  // namespace

absl::StatusOr<uint64_t> ParseSize(std::string_view flag, std::string_view text) {
  const auto bytes = engine::ParseBytes(text);
  if (!bytes.ok()) return UsageError("{}: {}", flag, Message(bytes.status()));
  return bytes;
}

absl::StatusOr<absl::Duration> ParseDuration(std::string_view flag, std::string_view text) {
  if (const auto seconds = ParseInt(text); seconds && *seconds >= 0) return absl::Seconds(*seconds);
  const auto duration = engine::ParseDuration(text);
  if (!duration.ok()) return UsageError("{}: {}", flag, Message(duration.status()));
  return duration;
}

absl::StatusOr<std::vector<engine::TokenId>> ParseTokenIds(std::string_view flag,
                                                           std::string_view text) {
  std::vector<engine::TokenId> ids;
  if (text.empty()) return ids;
  for (std::string_view part : SplitAtCommas(text)) {
    const auto id = ParseInt(part);
    if (!id || *id < 0) return Expected(flag, part, "token ids such as 1,2,3");
    ids.push_back(*id);
  }
  return ids;
}

absl::StatusOr<std::vector<int>> ParseCounts(std::string_view flag, std::string_view text) {
  std::vector<int> counts;
  for (std::string_view part : SplitAtCommas(text)) {
    const auto count = ParseInt(part);
    if (!count || *count < 1) return Expected(flag, part, "numbers such as 1,2");
    counts.push_back(*count);
  }
  return counts;
}

absl::StatusOr<std::vector<engine::LayerRange>> ParseLayerRanges(std::string_view flag,
                                                                 std::string_view text) {
  std::vector<engine::LayerRange> ranges;
  int32_t next = 0;
  for (std::string_view part : SplitAtCommas(text)) {
    const size_t dash = part.find('-');
    const auto first = ParseInt(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : ParseInt(part.substr(dash + 1));
    if (!first || !last || *last < *first) return Expected(flag, part, "layers such as 0-9,10-29");
    if (*first != next) {
      return UsageError("{}: layers {} begin at {}, expected {}: ranges follow each other", flag,
                        part, *first, next);
    }
    next = *last + 1;
    ranges.push_back({.begin = *first, .end = next});
  }
  return ranges;
}

absl::StatusOr<engine::KvType> ParseKvType(std::string_view flag, std::string_view text) {
  if (text == "f16") return engine::KvType::kF16;
  if (text == "f32") return engine::KvType::kF32;
  if (text == "q8_0") return engine::KvType::kQ8_0;
  return Expected(flag, text, "f16, f32 or q8_0");
}

}  // namespace baton::cli
