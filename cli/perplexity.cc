// baton perplexity: how surprised the model is by a text.
//
// The text is cut as llama-perplexity cuts it, so that figures can be compared: windows of the
// context's length, each beginning with BOS where the model says so, the second half of each is
// scored.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/local_model.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/vocabulary_model.h"

namespace baton::cli {
namespace {

constexpr int32_t kDefaultWindow = 512;
constexpr size_t kRowsAtOnce = 64;  // of logits in memory

struct Flags {
  ModelFlags model;
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

double NegativeLogLikelihood(std::span<const float> logits, engine::TokenId target) {
  const float max = *std::ranges::max_element(logits);
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit - max));
  return std::log(sum) - static_cast<double>(logits[target] - max);
}

// Scores the tokens after position `first` of a window that is fed as it is.
absl::Status ScoreWindow(LocalModel& model, std::span<const engine::TokenId> window, size_t first,
                         int32_t chunk, Surprise& surprise) {
  const auto vocab_size = static_cast<size_t>(model.vocab_size());
  model.pipeline->Reset();
  RETURN_IF_ERROR(model.pipeline->Feed(window.first(first), first, chunk).status());
  for (size_t begin = first; begin + 1 < window.size(); begin += kRowsAtOnce) {
    const auto part = window.subspan(begin, std::min(kRowsAtOnce, window.size() - 1 - begin));
    ASSIGN_OR_RETURN(const std::vector<float> rows, model.pipeline->Feed(part, 0, chunk));
    for (size_t i = 0; i < part.size(); ++i) {
      const auto logits = std::span(rows).subspan(i * vocab_size, vocab_size);
      surprise.Add(NegativeLogLikelihood(logits, window[begin + i + 1]));
    }
  }
  return absl::OkStatus();
}

absl::Status Run(const Flags& flags) {
  ASSIGN_OR_RETURN(auto file, OpenModelFile(flags.model.model));
  ASSIGN_OR_RETURN(const auto tokenizer, MakeTokenizer(*file));
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(flags.text));
  std::vector<engine::TokenId> tokens =
      tokenizer->Encode(text, {.parse_special = false, .add_special = true});
  const int32_t window = flags.model.context > 0 ? flags.model.context : kDefaultWindow;
  const size_t num_windows = tokens.size() / static_cast<size_t>(window);
  if (num_windows == 0 || window < 4) {
    return InvalidArgument("{}: {} tokens, expected at least the {} of one window", flags.text,
                           tokens.size(), std::max(window, 4));
  }
  ASSIGN_OR_RETURN(LocalModel model, LoadLocalModel(std::move(file), flags.model, window));
  Surprise surprise;
  Progress progress("perplexity");
  for (size_t i = 0; i < num_windows; ++i) {
    const auto part =
        std::span(tokens).subspan(i * static_cast<size_t>(window), static_cast<size_t>(window));
    if (tokenizer->adds_bos()) part[0] = tokenizer->bos();
    RETURN_IF_ERROR(ScoreWindow(model, part, part.size() / 2, flags.model.chunk, surprise));
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
  auto flags = std::make_shared<Flags>();
  AddModelFlags(app, flags->model)->required();
  app.add_option("--text", flags->text, "Text file to score")->required();
  app.add_flag("--json", flags->json, "One JSON document");
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
