#include "engine/base/units.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "engine/base/quote.h"

namespace baton::engine {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr Unit kByteUnits[] = {
    {"", 1},      {"B", 1},        {"kB", 1e3},     {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
    {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
};
constexpr Unit kTimeUnits[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
constexpr Unit kBandwidthUnits[] = {
    {"kbit/s", 125}, {"Mbit/s", 125e3}, {"Gbit/s", 125e6}, {"B/s", 1},        {"kB/s", 1e3},
    {"MB/s", 1e6},   {"GB/s", 1e9},     {"KiB/s", 0x1p10}, {"MiB/s", 0x1p20}, {"GiB/s", 0x1p30},
};

// A number that is not negative, and its unit.
absl::StatusOr<double> ParseWithUnit(std::string_view text, std::span<const Unit> units,
                                     std::string_view what, std::string_view example) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  const auto found =
      std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.name == unit; });
  const bool number_first = !text.empty() && text[0] >= '0' && text[0] <= '9';
  if (error != std::errc() || !number_first || !std::isfinite(number) || found == units.end()) {
    return InvalidArgument("got {}, expected a {} like {}", Named(text), what, example);
  }
  return number * found->factor;
}

}  // namespace

absl::StatusOr<uint64_t> ParseBytes(std::string_view text) {
  ASSIGN_OR_RETURN(const double bytes, ParseWithUnit(text, kByteUnits, "size", "4GiB"));
  if (bytes >= 0x1p63) return InvalidArgument("got {}, expected a size below 8 EiB", Named(text));
  return static_cast<uint64_t>(std::llround(bytes));
}

absl::StatusOr<absl::Duration> ParseDuration(std::string_view text) {
  ASSIGN_OR_RETURN(const double seconds, ParseWithUnit(text, kTimeUnits, "duration", "30s"));
  if (seconds > 1e9)
    return InvalidArgument("got {}, expected a duration below 30 years", Named(text));
  return absl::Seconds(seconds);
}

absl::StatusOr<double> ParseBandwidth(std::string_view text) {
  return ParseWithUnit(text, kBandwidthUnits, "bandwidth", "1Gbit/s");
}

absl::StatusOr<int64_t> ParseInteger(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    return InvalidArgument("got {}, expected a whole number", Named(text));
  }
  return value;
}

std::string FormatBytes(uint64_t bytes) {
  static constexpr std::string_view kNames[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kNames); ++unit) value /= 1024;
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, kNames[unit]);
}

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = std::exchange(row[0], static_cast<int>(i) + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const int replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

}  // namespace baton::engine
