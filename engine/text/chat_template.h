// Chat templates: the GGUF's own Jinja (tokenizer.chat_template), run in a sandbox.
//
// Output equals Python's jinja2 as the model hubs configure it (trim_blocks, lstrip_blocks, loop
// controls, generation blocks, tojson without ASCII escapes). Content of messages keeps its
// provenance through all string operations, so that the tokenizer can treat it as data. Immutable
// after Parse, any thread.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/text/tokenizer.h"

namespace baton::engine {

namespace jinja {
class Template;
}

class ChatTemplate {
 public:
  // InvalidArgument with line and column where it does not parse.
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Names of values that a template writes as control tokens (bos_token, …); all other input is
  // data.
  static bool IsSpecialToken(std::string_view name);

  struct RenderOptions {
    std::optional<std::tm> now;  // for strftime_now; nullopt: the clock
  };
  // `input` holds messages, tools, documents, add_generation_prompt, bos_token, eos_token and
  // whatever else the template asks for; key order is kept. A template that raises: InvalidArgument
  // with its message. Limits on steps, recursion and output: ResourceExhausted.
  absl::StatusOr<PromptText> Render(const nlohmann::ordered_json& input,
                                    const RenderOptions& options) const;

 private:
  explicit ChatTemplate(std::unique_ptr<jinja::Template> parsed);
  std::unique_ptr<jinja::Template> template_;
};

}  // namespace baton::engine
