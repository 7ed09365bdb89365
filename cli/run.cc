// baton run: one answer.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>

#include "cli/answer.h"
#include "cli/answer_source.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/generation_flags.h"
#include "cli/output.h"
#include "engine/base/json.h"
#include "engine/base/steady_time.h"

namespace baton::cli {
namespace {

using coordinator::GenerationChunk;

struct RunFlags {
  ModelFlags model;
  ServerFlags server;
  GenerationFlags generation;
  std::optional<std::string> prompt;
  std::optional<std::string> tokens;
  std::string system;
  std::string session;
  bool raw = false;
  bool parse_special = false;
  bool json = false;
};

std::string MessagesJson(const std::string& system, const std::string& user) {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", user}});
  return engine::JsonText(messages);
}

absl::Status SetPrompt(const RunFlags& flags, coordinator::LlmService& service,
                       coordinator::GenerationRequest& request) {
  if (flags.tokens) {
    ASSIGN_OR_RETURN(auto ids, ParseTokenIds("--tokens", *flags.tokens));
    request.prompt = coordinator::TokenPrompt{std::move(ids)};
    return absl::OkStatus();
  }
  std::string text;
  if (flags.prompt) {
    text = *flags.prompt;
  } else {
    ASSIGN_OR_RETURN(text, ReadStdin());
  }
  if (flags.raw || !service.model().has_chat_template) {
    request.prompt = coordinator::TextPrompt{std::move(text), flags.parse_special};
  } else {
    request.prompt = coordinator::ChatPrompt{.messages_json = MessagesJson(flags.system, text),
                                             .tools_json = {},
                                             .template_args_json = {}};
  }
  return absl::OkStatus();
}

double PerSecond(int32_t count, double ms) { return ms > 0 ? count * 1000.0 / ms : 0; }

nlohmann::ordered_json AnswerJson(const GenerationChunk& answer, double load_ms) {
  nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
  for (const coordinator::GeneratedToken& token : answer.tokens) tokens.push_back(token.id);
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (const coordinator::StageOfWorker& stage : answer.stages) {
    stages.push_back({{"worker", stage.worker},
                      {"layers", {{"begin", stage.layers.begin}, {"end", stage.layers.end}}}});
  }
  const coordinator::GenerationTimings& t = answer.timings;
  return {{"prompt_tokens", answer.prompt_tokens},
          {"tokens", tokens},
          {"text", answer.text},
          {"finish_reason", coordinator::FinishReasonName(answer.finish)},
          {"timings",
           {{"load_ms", load_ms},
            {"queue_ms", t.queue_ms},
            {"cached_tokens", t.cached_tokens},
            {"prefill_tokens", t.prefill_tokens},
            {"prefill_ms", t.prefill_ms},
            {"prefill_tokens_per_s", PerSecond(t.prefill_tokens, t.prefill_ms)},
            {"decode_tokens", t.decode_tokens},
            {"decode_ms", t.decode_ms},
            {"decode_tokens_per_s", PerSecond(t.decode_tokens, t.decode_ms)}}},
          {"stages", stages}};
}

void PrintSummary(const GenerationChunk& answer) {
  const coordinator::GenerationTimings& t = answer.timings;
  std::string stages;
  for (const coordinator::StageOfWorker& stage : answer.stages) {
    stages += fmt::format("; {} layers {}", stage.worker, LayersText(stage.layers));
  }
  std::fprintf(
      stderr, "[%s]\n",
      fmt::format("{} tokens, {:.1f} tokens/s; prompt {} tokens, {:.1f} tokens/s{}",
                  answer.tokens.size(), PerSecond(t.decode_tokens, t.decode_ms),
                  answer.prompt_tokens.size(), PerSecond(t.prefill_tokens, t.prefill_ms), stages)
          .c_str());
}

absl::Status Run(const RunFlags& flags) {
  InterruptWatch watch;
  ASSIGN_OR_RETURN(coordinator::GenerationRequest request, MakeRequest(flags.generation));
  const absl::Time begin = SteadyNow();
  ASSIGN_OR_RETURN(const auto source, OpenAnswerSource(flags.model, flags.server));
  const double load_ms = absl::ToDoubleMilliseconds(SteadyNow() - begin);
  coordinator::LlmService& service = *source->service();
  request.session = flags.session;
  RETURN_IF_ERROR(SetPrompt(flags, service, request));
  const auto on_text = [&flags](std::string_view text) {
    return flags.json ? absl::OkStatus() : Print(text);
  };
  ASSIGN_OR_RETURN(const GenerationChunk answer, ReadAnswer(service, request, on_text, watch));
  if (answer.finish == coordinator::FinishReason::kCancelled) {
    if (!flags.json) RETURN_IF_ERROR(Print("\n"));
    return Cancelled("the answer was stopped after {} tokens", answer.tokens.size());
  }
  if (flags.json)
    return PrintJson(AnswerJson(answer, flags.server.given() ? answer.timings.load_ms : load_ms));
  RETURN_IF_ERROR(Print("\n"));
  PrintSummary(answer);
  return absl::OkStatus();
}

}  // namespace

CommandBody DefineRun(CLI::App& app) {
  auto flags = std::make_shared<RunFlags>();
  CLI::Option* model = AddModelFlags(app, flags->model);
  auto* server = AddServerFlags(app, flags->server)->excludes(model);
  auto* prompt =
      app.add_option("-p,--prompt", flags->prompt, "What to answer; stdin where it is absent");
  app.add_option("--tokens", flags->tokens, "Token ids to go on from, as 1,2,3")->excludes(prompt);
  app.add_option("--system", flags->system, "System message");
  app.add_option("--session", flags->session,
                 "Go on with the conversation of that name, and keep it; see `baton session`")
      ->needs(server);
  app.add_flag("--raw", flags->raw, "Feed the text as it is, without the model's chat template");
  app.add_flag("--parse-special", flags->parse_special,
               "With --raw: \"<|im_end|>\" in the text becomes that control token");
  AddGenerationFlags(app, flags->generation);
  app.add_flag("--json", flags->json, "One JSON document");
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
