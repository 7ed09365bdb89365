#include "cli/bench_server.h"

#include <CLI/CLI.hpp>
#include <fstream>

#include "cli/exit_code.h"
#include "cli/load_generator.h"
#include "cli/load_report.h"
#include "cli/output.h"
#include "cli/remote_service.h"

namespace baton::cli {
namespace {

constexpr absl::Duration kFirstAnswer = absl::Seconds(10);

absl::StatusOr<LoadPlan> PlanOf(const BenchServerFlags& flags) {
  LoadPlan plan{.requests = flags.requests,
                .clients = flags.clients,
                .rate_per_s = flags.rate,
                .shared_prefix = flags.shared_prefix,
                .seed = flags.seed,
                .speculation = !flags.no_speculation};
  ASSIGN_OR_RETURN(plan.prompt, LengthDistribution::Parse("--prompt", flags.prompt));
  ASSIGN_OR_RETURN(plan.output, LengthDistribution::Parse("--output", flags.output));
  return plan;
}

absl::Status CheckRoom(const LoadPlan& plan, const coordinator::ModelSummary& model) {
  const int32_t longest = plan.prompt.max() + plan.output.max();
  if (longest <= model.context_length) return absl::OkStatus();
  return WithExitCode(
      InvalidArgument("--prompt, --output: up to {} tokens together, but the context holds {}",
                      longest, model.context_length),
      kUsage);
}

absl::Status WriteFile(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return WithExitCode(Unavailable("{}: cannot be written", path), kCannotWrite);
}

}  // namespace

void AddBenchServerFlags(CLI::App& app, BenchServerFlags* flags) {
  CLI::App* group = app.add_option_group("with --server");
  group->add_option("--requests", flags->requests, "Requests in all")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  group->add_option("--clients", flags->clients, "That ask at the same time, again and again")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  group
      ->add_option("--rate", flags->rate,
                   "Requests a second that arrive at random, whoever still waits; 0: by --clients")
      ->check(CLI::Range(0.0, 1e5))
      ->capture_default_str();
  group->add_option("--prompt", flags->prompt, "Prompt tokens: 128, 16-512 or exp:128")
      ->capture_default_str();
  group->add_option("--output", flags->output, "Tokens of an answer, in the same way")
      ->capture_default_str();
  group->add_option("--shared-prefix", flags->shared_prefix, "Tokens that all prompts begin with")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  group->add_option("--seed", flags->seed, "Draws lengths, tokens and arrivals")
      ->capture_default_str();
  group->add_flag("--no-speculation", flags->no_speculation, "No guesses by prompt lookup");
}

absl::Status BenchServer(const BenchServerFlags& flags, const std::string& plot, bool json) {
  ASSIGN_OR_RETURN(const LoadPlan plan, PlanOf(flags));
  ASSIGN_OR_RETURN(const auto service, RemoteService::Make(flags.server));
  ASSIGN_OR_RETURN(const coordinator::ModelSummary model, service->FetchModel(kFirstAnswer));
  RETURN_IF_ERROR(CheckRoom(plan, model));
  const LoadReport report = MakeLoadReport(RunLoad(service.get(), plan));
  if (report.completed == 0) return Unavailable("{}: {}", flags.server.address, report.first_error);
  if (!plot.empty()) RETURN_IF_ERROR(WriteFile(plot, LoadReportSvg(report)));
  return json ? PrintJson(LoadReportJson(report)) : Print(LoadReportText(report));
}

}  // namespace baton::cli
