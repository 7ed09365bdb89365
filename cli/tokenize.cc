// baton tokenize: text to token ids.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/json_lines.h"
#include "cli/output.h"
#include "cli/vocabulary_model.h"

namespace baton::cli {
namespace {

struct TokenizeFlags {
  std::string model;
  std::optional<std::string> text;
  bool parse_special = false;
  bool add_special = false;
  bool json = false;
  bool jsonl = false;
};

absl::StatusOr<nlohmann::ordered_json> EncodeOne(const engine::Tokenizer& tokenizer,
                                                 const nlohmann::ordered_json& question) {
  engine::Tokenizer::EncodeOptions options;
  ASSIGN_OR_RETURN(options.parse_special, BoolField(question, "parse_special", false));
  ASSIGN_OR_RETURN(options.add_special, BoolField(question, "add_special", false));
  std::string text;
  if (question.contains("hex")) {
    ASSIGN_OR_RETURN(const std::string hex, StringField(question, "hex"));
    ASSIGN_OR_RETURN(text, FromHex(hex));
  } else {
    ASSIGN_OR_RETURN(text, StringField(question, "text"));
  }
  return nlohmann::ordered_json{{"ids", tokenizer.Encode(text, options)}};
}

absl::Status Run(const TokenizeFlags& flags) {
  ASSIGN_OR_RETURN(const engine::GgufModel model, OpenModel(flags.model));
  ASSIGN_OR_RETURN(const std::unique_ptr<engine::Tokenizer> tokenizer, MakeTokenizer(model));
  if (flags.jsonl) {
    return AnswerJsonLines([&](const auto& question) { return EncodeOne(*tokenizer, question); });
  }
  std::string text;
  if (flags.text) {
    text = *flags.text;
  } else {
    ASSIGN_OR_RETURN(text, ReadStdin());
  }
  const auto ids = tokenizer->Encode(
      text, {.parse_special = flags.parse_special, .add_special = flags.add_special});
  if (flags.json) return PrintJson({{"ids", ids}});
  return Print(fmt::format("{}\n", fmt::join(ids, ",")));
}

}  // namespace

CommandBody DefineTokenize(CLI::App& app) {
  auto flags = std::make_shared<TokenizeFlags>();
  app.add_option("-m,--model", flags->model, "GGUF file, or a model's name in the cache")
      ->required();
  app.add_option("TEXT", flags->text, "What to tokenize; stdin where it is absent");
  app.add_flag("--parse-special", flags->parse_special,
               "\"<|im_end|>\" in the text becomes that control token");
  app.add_flag("--add-special", flags->add_special, "Add BOS and EOS where the model says so");
  auto* json = app.add_flag("--json", flags->json, "One JSON document");
  app.add_flag("--jsonl", flags->jsonl,
               "Read {\"text\" or \"hex\", \"parse_special\", \"add_special\"} lines from stdin, "
               "write {\"ids\"} lines")
      ->excludes(json);
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
