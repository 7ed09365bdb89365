#include "engine/base/json.h"

#include <nlohmann/json.hpp>

#include "engine/base/quote.h"

namespace baton::engine {
namespace {

constexpr size_t kMaxShownBytes = 300;

}  // namespace

absl::StatusOr<nlohmann::ordered_json> ParseJson(std::string_view text, std::string_view what) {
  using Json = nlohmann::ordered_json;
  bool too_deep = false;
  using Event = Json::parse_event_t;
  const Json::parser_callback_t watch = [&](int depth, Event event, Json&) {
    const bool begins = event == Event::array_start || event == Event::object_start;
    too_deep = too_deep || (begins && depth >= kMaxJsonDepth);
    return !too_deep;
  };
  try {
    Json parsed = Json::parse(text, watch);
    if (too_deep) return InvalidArgument("{}: JSON nested deeper than {}", what, kMaxJsonDepth);
    return parsed;
  } catch (const nlohmann::json::exception& e) {
    return InvalidArgument("{}: {}", what, Escaped(e.what(), kMaxShownBytes));
  }
}

std::string JsonText(const nlohmann::ordered_json& document) {
  return document.dump(-1, ' ', /*ensure_ascii=*/false,
                       nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace baton::engine
