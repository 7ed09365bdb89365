// baton logits: what the model says after each token, as a NumPy file.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/logit_source.h"
#include "cli/npy.h"
#include "cli/progress.h"

namespace baton::cli {
namespace {

struct LogitsFlags {
  ModelFlags model;
  ServerFlags server;
  std::string tokens;
  std::string prompt;
  size_t last = 0;
  std::string output;
};

absl::StatusOr<std::vector<engine::TokenId>> PromptTokens(const LogitsFlags& flags,
                                                          LogitSource& source) {
  if (!flags.tokens.empty()) return ParseTokenIds("--tokens", flags.tokens);
  return source.Encode(flags.prompt);
}

absl::Status Run(const LogitsFlags& flags) {
  ASSIGN_OR_RETURN(const auto source, OpenLogitSource(flags.model, flags.server));
  ASSIGN_OR_RETURN(const auto tokens, PromptTokens(flags, *source));
  if (tokens.empty())
    return InvalidArgument("prompt: no tokens, and the model has no BOS to begin with");
  RETURN_IF_ERROR(source->Prepare(static_cast<int32_t>(tokens.size())));
  const size_t rows = flags.last == 0 ? tokens.size() : std::min(flags.last, tokens.size());
  ASSIGN_OR_RETURN(NpyWriter out,
                   NpyWriter::Open(flags.output, static_cast<int64_t>(rows), source->vocab_size()));
  Progress progress("logits");
  size_t written = 0;
  const auto write = [&](std::span<const float> some) -> absl::Status {
    RETURN_IF_ERROR(out.Write(some));
    written += some.size() / static_cast<size_t>(source->vocab_size());
    progress.Update(written, rows);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(source->Logits(tokens, tokens.size() - rows, write));
  return out.Close();
}

}  // namespace

CommandBody DefineLogits(CLI::App& app) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::Option* model = AddModelFlags(app, flags->model);
  AddServerFlags(app, flags->server)->excludes(model);
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
