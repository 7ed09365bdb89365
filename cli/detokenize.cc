// baton detokenize: token ids to text.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/json_lines.h"
#include "cli/output.h"
#include "cli/vocabulary_model.h"
#include "engine/base/json.h"

namespace baton::cli {
namespace {

struct DetokenizeFlags {
  std::string model;
  std::optional<std::string> ids;
  bool without_special = false;
  bool json = false;
  bool jsonl = false;
};

absl::Status CheckIds(const std::vector<engine::TokenId>& ids, int vocab_size) {
  for (engine::TokenId id : ids) {
    if (id < 0 || id >= vocab_size)
      return InvalidArgument("token id: got {}, expected less than {}", id, vocab_size);
  }
  return absl::OkStatus();
}

nlohmann::ordered_json TextDocument(const std::string& bytes) {
  nlohmann::ordered_json document = {{"hex", ToHex(bytes)}};
  if (IsUtf8(bytes)) document["text"] = bytes;
  return document;
}

absl::StatusOr<std::vector<engine::TokenId>> IdsField(const nlohmann::ordered_json& question) {
  const auto field = question.find("ids");
  if (field == question.end() || !field->is_array())
    return InvalidArgument("ids: expected an array of token ids");
  std::vector<engine::TokenId> ids;
  for (const auto& id : *field) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
      return InvalidArgument("ids: got {}, expected token ids", engine::JsonText(id));
    ids.push_back(id.get<engine::TokenId>());
  }
  return ids;
}

absl::StatusOr<nlohmann::ordered_json> DecodeOne(const engine::Tokenizer& tokenizer,
                                                 const nlohmann::ordered_json& question) {
  ASSIGN_OR_RETURN(const std::vector<engine::TokenId> ids, IdsField(question));
  ASSIGN_OR_RETURN(const bool special, BoolField(question, "special", true));
  RETURN_IF_ERROR(CheckIds(ids, tokenizer.vocab_size()));
  return TextDocument(tokenizer.Decode(ids, special));
}

absl::Status Run(const DetokenizeFlags& flags) {
  std::vector<engine::TokenId> ids;
  if (flags.ids) {
    ASSIGN_OR_RETURN(ids, ParseTokenIds("IDS", *flags.ids));
  } else if (!flags.jsonl) {
    ASSIGN_OR_RETURN(std::string text, ReadStdin());
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    ASSIGN_OR_RETURN(ids, ParseTokenIds("standard input", text));
  }
  ASSIGN_OR_RETURN(const engine::GgufModel model, OpenModel(flags.model));
  ASSIGN_OR_RETURN(const std::unique_ptr<engine::Tokenizer> tokenizer, MakeTokenizer(model));
  if (flags.jsonl) {
    return AnswerJsonLines([&](const auto& question) { return DecodeOne(*tokenizer, question); });
  }
  RETURN_IF_ERROR(CheckIds(ids, tokenizer->vocab_size()));
  const std::string bytes = tokenizer->Decode(ids, !flags.without_special);
  if (flags.json) return PrintJson(TextDocument(bytes));
  return Print(bytes + "\n");
}

}  // namespace

CommandBody DefineDetokenize(CLI::App& app) {
  auto flags = std::make_shared<DetokenizeFlags>();
  app.add_option("-m,--model", flags->model, "GGUF file, or a model's name in the cache")
      ->required();
  app.add_option("IDS", flags->ids, "Token ids as 1,2,3; stdin where they are absent");
  app.add_flag("--without-special", flags->without_special, "Leave control tokens out");
  auto* json = app.add_flag("--json", flags->json, "One JSON document: {\"hex\", \"text\"}");
  app.add_flag("--jsonl", flags->jsonl,
               "Read {\"ids\", \"special\"} lines from stdin, write {\"hex\", \"text\"} lines")
      ->excludes(json);
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
