// Ends a stream of text at the first stop string, which itself is never shown.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace baton::engine {

inline constexpr size_t kMaxStopStrings = 4;

// InvalidArgument for an empty stop string or more than kMaxStopStrings.
absl::Status ValidateStopStrings(std::span<const std::string> stops);

// Text that may become a stop string is withheld until it is clear. One stream, one thread.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The text that may be shown now. Of several matches the one that begins first wins; after it,
  // nothing is shown.
  std::string Append(std::string_view text);
  bool stopped() const { return stopped_; }
  const std::string& matched() const { return matched_; }  // the stop string that was found
  // The end of generation without a stop: what was withheld.
  std::string Flush();

 private:
  std::vector<std::string> stops_;
  std::string withheld_;  // shorter than the longest stop string
  bool stopped_ = false;
  std::string matched_;
};

}  // namespace baton::engine
