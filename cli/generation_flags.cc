#include "cli/generation_flags.h"

#include <absl/strings/numbers.h>

#include <CLI/CLI.hpp>

#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/output.h"
#include "engine/base/quote.h"
#include "engine/base/steady_time.h"

namespace baton::cli {
namespace {

absl::StatusOr<std::pair<engine::TokenId, float>> ParseBias(const std::string& text) {
  const size_t equals = text.find('=');
  std::pair<engine::TokenId, float> bias;
  if (equals == std::string::npos || !absl::SimpleAtoi(text.substr(0, equals), &bias.first) ||
      !absl::SimpleAtof(text.substr(equals + 1), &bias.second)) {
    return UsageError("--logit-bias: got {}, expected ID=BIAS such as 42=-1.5",
                      engine::Named(text));
  }
  return bias;
}

absl::StatusOr<std::string> ReadSchema(const std::string& flag) {
  if (!flag.starts_with('@')) return flag;
  auto text = ReadTextFile(flag.substr(1));
  return text.ok() ? text : Prefixed(text.status(), "--json-schema");
}

}  // namespace

void AddGenerationFlags(CLI::App& app, GenerationFlags& flags) {
  engine::SamplingParams& sampling = flags.sampling;
  app.add_option("-n,--max-tokens", flags.max_tokens,
                 "At most so many new tokens; until the context is full where absent")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("--temp", sampling.temperature, "Temperature; 0 takes the likeliest token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "Only the K likeliest tokens; 0 is off")
      ->capture_default_str();
  app.add_option("--top-p", sampling.top_p,
                 "Only the likeliest with this probability together; 1 is off")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--min-p", sampling.min_p,
                 "Only those with this share of the likeliest one's; 0 is off")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--repeat-penalty", sampling.repetition_penalty, "Of the last 64 tokens; 1 is off")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--presence-penalty", sampling.presence_penalty,
                 "Of the output's tokens; 0 is off")
      ->capture_default_str();
  app.add_option("--frequency-penalty", sampling.frequency_penalty,
                 "The same, times their count; 0 is off")
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "Equal seeds give equal answers; drawn where absent");
  app.add_option("--logit-bias", flags.logit_bias,
                 "ID=BIAS, added to a token's logit; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--stop", flags.stop, "Text that ends the answer; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--ignore-eos", flags.ignore_eos, "Go on after the end token, to -n");
  app.add_option(
      "--json-schema", flags.json_schema,
      "The answer is JSON that fits this schema, given as JSON or @FILE; {} is any JSON");
  app.add_option("--timeout", flags.timeout, "The answer must end in this time, as 30s");
}

absl::StatusOr<coordinator::GenerationRequest> MakeRequest(const GenerationFlags& flags) {
  coordinator::GenerationRequest request;
  request.sampling = flags.sampling;
  request.has_seed = flags.seed.has_value();
  request.sampling.seed = flags.seed.value_or(0);
  request.max_tokens = flags.max_tokens;
  request.stop = flags.stop;
  request.ignore_eos = flags.ignore_eos;
  for (const std::string& text : flags.logit_bias) {
    ASSIGN_OR_RETURN(const auto bias, ParseBias(text));
    request.sampling.logit_bias.push_back(bias);
  }
  ASSIGN_OR_RETURN(request.grammar_json_schema, ReadSchema(flags.json_schema));
  if (!flags.timeout.empty()) {
    ASSIGN_OR_RETURN(const absl::Duration timeout, ParseDuration("--timeout", flags.timeout));
    request.deadline = SteadyNow() + timeout;
  }
  return request;
}

}  // namespace baton::cli
