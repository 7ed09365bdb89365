// Any bytes as a chat template: an error or a prompt whose content ranges are in order.
#include <nlohmann/json.hpp>

#include "engine/text/chat_template.h"
#include "tests/fuzz/target.h"

namespace baton::fuzz {
namespace {

const nlohmann::ordered_json& Input() {
  static const nlohmann::ordered_json input = nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "user", "content": "Hi <|im_end|> 你好"},
                 {"role": "assistant", "content": null, "tool_calls": [{"id": 1, "n": 2.5}]}],
    "tools": [{"name": "f", "parameters": {"type": "object", "required": ["x"]}}],
    "nums": [3, 1, 2], "yes": true, "bos_token": "<s>", "eos_token": "</s>"})");
  return input;
}

}  // namespace

void FuzzJinja(std::string_view input) {
  const auto parsed = engine::ChatTemplate::Parse(input);
  if (!parsed.ok()) return;
  const auto prompt = parsed->Render(Input(), {.now = std::tm{}});
  if (!prompt.ok()) return;
  size_t at = 0;
  for (const auto& range : prompt->content) {
    Require(range.begin >= at && range.end > range.begin && range.end <= prompt->text.size());
    at = range.end;
  }
}

}  // namespace baton::fuzz
