// baton down and baton logs: the other ends of `baton up --detach`.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/detached.h"
#include "cli/output.h"

namespace baton::cli {

CommandBody DefineDown(CLI::App& app) {
  struct Flags {
    std::string file;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  app.add_option("-f,--file", flags->file, "The topology file that `up` was given")->required();
  app.add_flag("--json", flags->json, "One JSON document");
  return [flags]() -> absl::Status {
    RETURN_IF_ERROR(StopDetached(flags->file));
    return flags->json ? PrintJson({{"file", flags->file}, {"stopped", true}}) : absl::OkStatus();
  };
}

CommandBody DefineLogs(CLI::App& app) {
  struct DownFlags {
    std::string file;
    std::string program;
    bool follow = false;
  };
  auto flags = std::make_shared<DownFlags>();
  app.add_option("NAME", flags->program, "A worker's name, or coordinator; all where absent");
  app.add_option("-f,--file", flags->file, "The topology file that `up` was given")->required();
  app.add_flag("--follow", flags->follow, "Go on with what comes");
  return [flags] { return PrintDetachedLog(flags->file, flags->program, flags->follow); };
}

}  // namespace baton::cli
