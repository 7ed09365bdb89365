// A parsed template. Immutable, any thread.
#pragma once

#include <ctime>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "engine/base/status.h"
#include "engine/text/jinja/ast.h"
#include "engine/text/jinja/text.h"

namespace baton::engine::jinja {

class Template {
 public:
  static absl::StatusOr<Template> Parse(std::string_view source);

  // `input`: an object, whose members are the template's variables. Their strings are data, but for
  // those that `is_trusted` names.
  absl::StatusOr<Text> Render(const nlohmann::ordered_json& input,
                              bool (*is_trusted)(std::string_view name), const std::tm& now) const;

 private:
  explicit Template(Block block) : block_(std::move(block)) {}
  Block block_;
};

}  // namespace baton::engine::jinja
