#include "engine/gguf/split_name.h"

#include <fmt/format.h>

#include <charconv>

namespace baton::engine {
namespace {

constexpr std::string_view kOf = "-of-";
constexpr std::string_view kExtension = ".gguf";
constexpr size_t kDigits = 5;

// Takes `suffix` off the end of `text`; false where it ends otherwise.
bool TakeSuffix(std::string_view* text, std::string_view suffix) {
  if (!text->ends_with(suffix)) return false;
  text->remove_suffix(suffix.size());
  return true;
}

std::optional<uint32_t> TakeNumber(std::string_view* text) {
  if (text->size() < kDigits) return std::nullopt;
  const std::string_view digits = text->substr(text->size() - kDigits);
  uint32_t number = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + kDigits, number);
  if (result.ec != std::errc() || result.ptr != digits.data() + kDigits) return std::nullopt;
  text->remove_suffix(kDigits);
  return number;
}

}  // namespace

std::string FormatSplitName(const SplitName& name) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", name.prefix, name.no + 1, name.count);
}

std::optional<SplitName> ParseSplitName(std::string_view path) {
  if (!TakeSuffix(&path, kExtension)) return std::nullopt;
  const auto count = TakeNumber(&path);
  if (!count || !TakeSuffix(&path, kOf)) return std::nullopt;
  const auto number = TakeNumber(&path);
  if (!number || *number == 0 || *number > *count || !TakeSuffix(&path, "-")) return std::nullopt;
  return SplitName{.prefix = std::string(path), .no = *number - 1, .count = *count};
}

}  // namespace baton::engine
