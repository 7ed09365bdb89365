// baton logits: what the model says after each token, as a NumPy file.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/local_model.h"
#include "cli/npy.h"
#include "cli/progress.h"
#include "cli/vocabulary_model.h"

namespace baton::cli {
namespace {

constexpr size_t kRowsAtOnce = 512;  // of logits in memory

struct Flags {
  ModelFlags model;
  std::string tokens;
  std::string prompt;
  size_t last = 0;
  std::string output;
};

absl::StatusOr<std::vector<engine::TokenId>> PromptTokens(const Flags& flags,
                                                          const engine::GgufModel& model) {
  if (!flags.tokens.empty()) return ParseTokenIds("--tokens", flags.tokens);
  ASSIGN_OR_RETURN(const auto tokenizer, MakeTokenizer(model));
  return tokenizer->Encode(flags.prompt, {.parse_special = false, .add_special = true});
}

// Feeds the tokens and writes the rows from `first_wanted` on.
absl::Status WriteRows(LocalModel& model, std::span<const engine::TokenId> tokens,
                       size_t first_wanted, int32_t chunk, NpyWriter& out) {
  Progress progress("logits");
  for (size_t begin = 0; begin < tokens.size(); begin += kRowsAtOnce) {
    const auto part = tokens.subspan(begin, std::min(kRowsAtOnce, tokens.size() - begin));
    const size_t first = std::clamp(first_wanted, begin, begin + part.size()) - begin;
    ASSIGN_OR_RETURN(const std::vector<float> rows, model.pipeline->Feed(part, first, chunk));
    RETURN_IF_ERROR(out.Write(rows));
    progress.Update(begin + part.size(), tokens.size());
  }
  return out.Close();
}

absl::Status Run(const Flags& flags) {
  ASSIGN_OR_RETURN(auto file, OpenModelFile(flags.model.model));
  ASSIGN_OR_RETURN(const auto tokens, PromptTokens(flags, *file));
  if (tokens.empty())
    return InvalidArgument("prompt: no tokens, and the model has no BOS to begin with");
  const auto hyperparams = engine::ParseHyperParams(*file);
  if (!hyperparams.ok()) return AsBadData(hyperparams.status());
  const auto num_tokens = static_cast<int32_t>(tokens.size());
  const int32_t context = ContextOf(flags.model, hyperparams->context_length, num_tokens);
  ASSIGN_OR_RETURN(LocalModel model, LoadLocalModel(std::move(file), flags.model, context));
  const size_t rows = flags.last == 0 ? tokens.size() : std::min(flags.last, tokens.size());
  ASSIGN_OR_RETURN(NpyWriter out,
                   NpyWriter::Open(flags.output, static_cast<int64_t>(rows), model.vocab_size()));
  return WriteRows(model, tokens, tokens.size() - rows, flags.model.chunk, out);
}

}  // namespace

CommandBody DefineLogits(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  AddModelFlags(app, flags->model)->required();
  auto* prompt = app.add_option_group("prompt");
  prompt->add_option("--tokens", flags->tokens, "Token ids to feed, as 1,2,3");
  prompt->add_option("-p,--prompt", flags->prompt,
                     "Text to feed, BOS first where the model says so");
  prompt->require_option(1);
  app.add_option("--last", flags->last, "Only the last N rows; all where absent")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("-o,--output", flags->output, "File for float32 [tokens, vocab_size]; - is stdout")
      ->required();
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
