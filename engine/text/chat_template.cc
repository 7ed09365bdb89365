#include "engine/text/chat_template.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "engine/text/jinja/template.h"

namespace baton::engine {
namespace {

constexpr std::array<std::string_view, 7> kSpecialTokens = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

std::tm LocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<jinja::Template> parsed)
    : template_(std::move(parsed)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

bool ChatTemplate::IsSpecialToken(std::string_view name) {
  return std::find(kSpecialTokens.begin(), kSpecialTokens.end(), name) != kSpecialTokens.end();
}

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(std::string_view source) {
  ASSIGN_OR_RETURN(jinja::Template parsed, jinja::Template::Parse(source));
  return ChatTemplate(std::make_unique<jinja::Template>(std::move(parsed)));
}

absl::StatusOr<PromptText> ChatTemplate::Render(const nlohmann::ordered_json& input,
                                                const RenderOptions& options) const {
  const std::tm now = options.now.has_value() ? *options.now : LocalTime();
  ASSIGN_OR_RETURN(const jinja::Text text, template_->Render(input, IsSpecialToken, now));
  PromptText prompt;
  prompt.text = text.bytes();
  for (const jinja::Text::Range& range : text.data()) {
    prompt.content.push_back({range.begin, range.end});
  }
  return prompt;
}

}  // namespace baton::engine
