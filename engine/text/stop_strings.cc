#include "engine/text/stop_strings.h"

#include <algorithm>

namespace baton::engine {

absl::Status ValidateStopStrings(std::span<const std::string> stops) {
  if (stops.size() > kMaxStopStrings) {
    return InvalidArgument("stop: {} strings, at most {} are allowed", stops.size(),
                           kMaxStopStrings);
  }
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) return InvalidArgument("stop[{}]: an empty string", i);
  }
  return absl::OkStatus();
}

std::string StopStrings::Append(std::string_view text) {
  if (stopped_) return {};
  withheld_ += text;

  size_t match = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t begin = withheld_.find(stop);
    if (begin >= match) continue;
    match = begin;
    matched_ = stop;
  }
  if (match != std::string::npos) {
    stopped_ = true;
    std::string shown = withheld_.substr(0, match);
    withheld_.clear();
    return shown;
  }

  // The longest end of the text that begins a stop string stays behind.
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, withheld_.size()); n > keep; --n) {
      if (withheld_.compare(withheld_.size() - n, n, stop, 0, n) == 0) {
        keep = n;
        break;
      }
    }
  }
  std::string shown = withheld_.substr(0, withheld_.size() - keep);
  withheld_.erase(0, withheld_.size() - keep);
  return shown;
}

std::string StopStrings::Flush() { return std::exchange(withheld_, {}); }

}  // namespace baton::engine
