// baton worker: one stage as a process.
#include <CLI/CLI.hpp>
#include <memory>
#include <stop_token>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/interrupt.h"
#include "cli/model_source.h"
#include "cli/ready_line.h"
#include "cli/server_flags.h"
#include "proto/address.h"
#include "worker/run_worker.h"

namespace baton::cli {
namespace {

struct WorkerFlags {
  worker::WorkerRunOptions options;
  std::string memory;
  std::string kv_limit = "16GiB";
  TlsFlags tls;
};

absl::Status Run(const WorkerFlags& flags) {
  worker::WorkerRunOptions options = flags.options;
  if (const auto address = wire::ParseAddress(options.server.listen); !address.ok()) {
    return WithExitCode(Prefixed(address.status(), "--listen"), kUsage);
  }
  if (!flags.memory.empty()) {
    ASSIGN_OR_RETURN(options.server.memory_budget_bytes, ParseSize("--memory", flags.memory));
  }
  ASSIGN_OR_RETURN(options.server.kv_limit_bytes, ParseSize("--kv-limit", flags.kv_limit));
  ASSIGN_OR_RETURN(options.server.security, SecurityOf(flags.tls));
  options.hub_fetch = FetchPart;
  std::stop_source stop;
  InterruptWatch watch;
  watch.OnSignal([&stop] { stop.request_stop(); });
  return worker::RunWorker(options, stop.get_token(), [](const wire::Address& address) {
    PrintReadyLine({.grpc = address.ToString(), .http = {}});
  });
}

}  // namespace

CommandBody DefineWorker(CLI::App& app) {
  auto flags = std::make_shared<WorkerFlags>();
  worker::WorkerRunOptions& options = flags->options;
  app.add_option("--listen", options.server.listen, "HOST:PORT; port 0 is any free one")
      ->required();
  app.add_option("--models", options.server.models_dir,
                 "Folder with the model files or parts of this host")
      ->capture_default_str();
  app.add_option("--name", options.server.name,
                 "What people call this worker; the address where absent");
  app.add_option("--device", options.device, "auto, cpu or cuda:N")->capture_default_str();
  app.add_option("-t,--threads", options.threads, "All that the process may use where absent")
      ->check(CLI::Range(1, 1024));
  app.add_option("--memory", flags->memory,
                 "Budget for weights and cache, as 4GiB; what the host has where absent");
  app.add_flag("--mlock", options.mlock, "Pin the weights in memory");
  app.add_option("--kv-folder", options.server.kv_folder,
                 "Where sessions are saved; below the user's state folder where absent");
  app.add_option("--kv-limit", flags->kv_limit, "What saved sessions may take there")
      ->capture_default_str();
  auto* tls = AddTlsFlags(app, flags->tls);
  app.add_flag("--insecure", options.server.insecure, "Listen beyond loopback without TLS")
      ->excludes(tls);
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
