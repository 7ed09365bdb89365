// Any bytes as a chat template: an error or a prompt whose content ranges are in order.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "engine/text/chat_template.h"

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

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parsed =
      baton::engine::ChatTemplate::Parse({reinterpret_cast<const char*>(data), size});
  if (!parsed.ok()) return 0;
  const auto prompt = parsed->Render(Input(), {.now = std::tm{}});
  if (!prompt.ok()) return 0;
  size_t at = 0;
  for (const auto& range : prompt->content) {
    if (range.begin < at || range.end <= range.begin || range.end > prompt->text.size())
      std::abort();
    at = range.end;
  }
  return 0;
}
