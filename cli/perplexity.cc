// baton perplexity: how surprised the model is by a text.
//
// The text is cut as llama-perplexity cuts it, so that figures can be compared: windows of the
// context's length, each beginning with BOS where the model says so, the second half of each is
// scored.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/logit_source.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace baton::cli {
namespace {

constexpr int32_t kDefaultWindow = 512;

struct PerplexityFlags {
  ModelFlags model;
  ServerFlags server;
  std::string text;
  bool json = false;
};

// Negative log-likelihoods, summed.
struct Surprise {
  double sum = 0;
  double sum_of_squares = 0;
  int64_t tokens = 0;

  void Add(double nll) {
    sum += nll;
    sum_of_squares += nll * nll;
    ++tokens;
  }
  double perplexity() const { return std::exp(sum / static_cast<double>(tokens)); }
  // Of the perplexity, by the spread of the likelihoods.
  double standard_error() const {
    if (tokens < 2) return 0;
    const double mean = sum / static_cast<double>(tokens);
    const double variance = sum_of_squares / static_cast<double>(tokens) - mean * mean;
    return variance > 0 ? std::sqrt(variance / static_cast<double>(tokens - 1)) * perplexity() : 0;
  }
};

absl::Status Run(const PerplexityFlags& flags) {
  const int32_t window = flags.model.context > 0 ? flags.model.context : kDefaultWindow;
  ModelFlags model = flags.model;
  model.context = window;
  ASSIGN_OR_RETURN(const auto source, OpenLogitSource(model, flags.server));
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(flags.text));
  ASSIGN_OR_RETURN(std::vector<engine::TokenId> tokens, source->Encode(text));
  ASSIGN_OR_RETURN(const std::optional<engine::TokenId> bos, source->Bos());
  const size_t num_windows = tokens.size() / static_cast<size_t>(window);
  if (num_windows == 0 || window < 4) {
    return InvalidArgument("{}: {} tokens, expected at least the {} of one window", flags.text,
                           tokens.size(), std::max(window, 4));
  }
  RETURN_IF_ERROR(source->Prepare(window));
  Surprise surprise;
  Progress progress("perplexity");
  for (size_t i = 0; i < num_windows; ++i) {
    const auto part =
        std::span(tokens).subspan(i * static_cast<size_t>(window), static_cast<size_t>(window));
    if (bos) part[0] = *bos;
    ASSIGN_OR_RETURN(const std::vector<float> found,
                     source->LogProbabilities(part, part.size() / 2));
    for (float logprob : found) surprise.Add(-static_cast<double>(logprob));
    progress.Update(i + 1, num_windows);
  }
  if (flags.json) {
    return PrintJson({{"perplexity", surprise.perplexity()},
                      {"stderr", surprise.standard_error()},
                      {"tokens", surprise.tokens},
                      {"chunks", num_windows}});
  }
  return Print(fmt::format("perplexity {:.4f} +/- {:.4f} over {} tokens of {} chunks\n",
                           surprise.perplexity(), surprise.standard_error(), surprise.tokens,
                           num_windows));
}

}  // namespace

CommandBody DefinePerplexity(CLI::App& app) {
  auto flags = std::make_shared<PerplexityFlags>();
  CLI::Option* model = AddModelFlags(app, flags->model);
  AddServerFlags(app, flags->server)->excludes(model);
  app.add_option("--text", flags->text, "Text file to score")->required();
  app.add_flag("--json", flags->json, "One JSON document");
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
