// baton trace: where the time of one request went, across processes.
#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/remote_service.h"
#include "cli/server_flags.h"

namespace baton::cli {
namespace {

struct TraceFlags {
  ServerFlags server{.address = "127.0.0.1:7070", .tls = {}, .api_key_file = {}};
  std::string request;
  std::string output = "-";
};

absl::Status Run(const TraceFlags& flags) {
  ASSIGN_OR_RETURN(const auto service, RemoteService::Make(flags.server));
  ASSIGN_OR_RETURN(const std::string trace, service->Trace(flags.request));
  if (flags.output == "-") return Print(trace + "\n");
  std::ofstream file(flags.output, std::ios::binary);
  file << trace << '\n';
  if (!file.flush()) return CannotWrite("{}: cannot be written", flags.output);
  return absl::OkStatus();
}

}  // namespace

CommandBody DefineTrace(CLI::App& app) {
  auto flags = std::make_shared<TraceFlags>();
  app.footer(
      app.get_footer() +
      "\n\nOpen the file at https://ui.perfetto.dev or chrome://tracing: a row for the\n"
      "coordinator and one for each stage, with each micro-batch's time on the wire, in the\n"
      "queue, computing and handing on. The coordinator remembers the last thousand requests.");
  app.add_option(
      "REQUEST", flags->request,
      "Id of an answer (its request_id, or the X-Request-Id of an HTTP call); the latest "
      "where absent");
  AddServerFlags(app, flags->server)->capture_default_str();
  app.add_option("-o,--output", flags->output, "File to write; - is stdout")->capture_default_str();
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
