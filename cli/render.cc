// baton render: a conversation through a chat template, as the prompt that the model sees.
#include <CLI/CLI.hpp>
#include <ctime>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/json_lines.h"
#include "cli/output.h"
#include "cli/vocabulary_model.h"
#include "engine/base/json.h"
#include "engine/base/quote.h"
#include "engine/text/chat_template.h"

namespace baton::cli {
namespace {

struct RenderFlags {
  std::string model;
  std::string template_file;
  std::string now;
  bool json = false;
};

absl::StatusOr<std::optional<std::tm>> ParseNow(const std::string& text) {
  if (text.empty()) return std::nullopt;
  std::tm time{};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (end == nullptr || *end != '\0') {
    return UsageError("--now: got {}, expected a time such as 2025-01-15T12:00:00",
                      engine::Named(text));
  }
  time.tm_isdst = -1;
  std::mktime(&time);  // fills in the day of the week
  return time;
}

// A file of Jinja, or of JSON that holds it under "template" (with "bos_token" and "eos_token",
// perhaps).
absl::StatusOr<engine::ChatTemplate> LoadTemplate(const std::string& path,
                                                  nlohmann::ordered_json& defaults) {
  ASSIGN_OR_RETURN(std::string source, ReadTextFile(path));
  if (const auto document = engine::ParseJson(source, path);
      document.ok() && document->is_object() && document->contains("template")) {
    ASSIGN_OR_RETURN(source, StringField(*document, "template"));
    for (const char* key : {"bos_token", "eos_token"}) {
      if (document->contains(key)) defaults[key] = (*document)[key];
    }
  }
  auto parsed = engine::ChatTemplate::Parse(source);
  if (!parsed.ok()) return Prefixed(parsed.status(), engine::Named(path));
  return parsed;
}

// The model's own; bad data where it has none.
absl::StatusOr<engine::ChatTemplate> LoadModelTemplate(const std::string& name,
                                                       nlohmann::ordered_json& defaults) {
  ASSIGN_OR_RETURN(const engine::GgufModel model, OpenModel(name));
  ASSIGN_OR_RETURN(const auto tokenizer, MakeTokenizer(model));
  for (const auto& [key, id] :
       {std::pair("bos_token", tokenizer->bos()), std::pair("eos_token", tokenizer->eos())}) {
    defaults[key] = id == engine::kNoToken ? "" : std::string(tokenizer->TokenText(id));
  }
  const auto source = model.metadata().GetString("tokenizer.chat_template");
  if (!source.ok()) return AsBadData(Prefixed(source.status(), model.parts()[0].path));
  auto parsed = engine::ChatTemplate::Parse(*source);
  if (!parsed.ok()) return Prefixed(parsed.status(), "tokenizer.chat_template");
  return parsed;
}

absl::Status Run(const RenderFlags& flags) {
  ASSIGN_OR_RETURN(const std::optional<std::tm> now, ParseNow(flags.now));
  nlohmann::ordered_json defaults = nlohmann::ordered_json::object();
  auto chat_template = flags.model.empty() ? LoadTemplate(flags.template_file, defaults)
                                           : LoadModelTemplate(flags.model, defaults);
  if (!chat_template.ok()) return chat_template.status();
  ASSIGN_OR_RETURN(const std::string text, ReadStdin());
  ASSIGN_OR_RETURN(nlohmann::ordered_json input, engine::ParseJson(text, "standard input"));
  if (!input.is_object())
    return InvalidArgument("standard input: got {}, expected an object", input.type_name());
  for (const auto& [key, value] : defaults.items()) {
    if (!input.contains(key)) input[key] = value;
  }
  ASSIGN_OR_RETURN(const engine::PromptText prompt, chat_template->Render(input, {.now = now}));
  return flags.json ? PrintJson({{"prompt", prompt.text}}) : Print(prompt.text);
}

}  // namespace

CommandBody DefineRender(CLI::App& app) {
  auto flags = std::make_shared<RenderFlags>();
  auto* source = app.add_option_group("source");
  source->add_option("-m,--model", flags->model, "GGUF file whose template is used");
  source->add_option("--template", flags->template_file,
                     "File with a Jinja template, or JSON with it under \"template\"");
  source->require_option(1);
  app.add_option("--now", flags->now, "What strftime_now shows, as 2025-01-15T12:00:00");
  app.add_flag("--json", flags->json, "One JSON document: {\"prompt\"}");
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
