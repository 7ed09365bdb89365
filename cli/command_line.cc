// Chooses the command, prints its error, turns it into an exit code.
#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <memory>
#include <vector>

#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/instruction_set.h"
#include "cli/logging.h"
#include "cli/version.h"
#include "engine/base/quote.h"

namespace baton::cli {
namespace {

constexpr char kAbout[] =
    "baton runs one GGUF model over several processes on several machines.\n\n"
    "Start here:\n"
    "  baton run -m model.gguf -p \"Why is the sky blue?\"      one answer, in this process\n"
    "  baton up -f topology.yaml                              coordinator and workers on this "
    "machine\n"
    "  baton run --server 127.0.0.1:7070 -p \"Hello\"           one answer, from them";

// The chosen command's body; empty until the command line was parsed.
struct Choice {
  CommandBody body;
  LoggingFlags logging;
};

void AddLoggingFlags(CLI::App& app, LoggingFlags& flags) {
  app.add_flag("-v,--verbose", flags.verbosity, "Say more on stderr; -vv says all");
  app.add_option("--log-format", flags.format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
}

void AddCommand(CLI::App& root, const Command& command, Choice& choice) {
  CLI::App* app = root.add_subcommand(std::string(command.name), std::string(command.summary));
  app->group(std::string(command.group));
  app->footer(fmt::format("Example:\n  {}", command.example));
  CommandBody body = command.define(*app);
  AddLoggingFlags(*app, choice.logging);
  app->callback([&choice, body = std::move(body)] { choice.body = body; });
}

void PrintError(const absl::Status& status) {
  // One line, whatever a file or a peer put into the message; lines of a table may follow it.
  std::fputs(fmt::format("{}{}\n", kErrorPrefix, Message(status)).c_str(), stderr);
  if (std::string hint = HintOf(status); !hint.empty())
    std::fprintf(stderr, "hint: %s\n", hint.c_str());
}

// A word that is no command, which CLI11 would take for a missing one.
absl::Status CheckCommandName(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return absl::OkStatus();
  for (const Command& command : AllCommands()) {
    if (command.name == argv[1]) return absl::OkStatus();
  }
  return WithHint(UsageError("{}: no such command", engine::Named(argv[1])),
                  "baton --help shows the commands");
}

}  // namespace

int Main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of write, not the end of a server
  CLI::App root(kAbout, "baton");
  root.set_help_flag("-h,--help", "Print this help");
  root.set_version_flag("--version", VersionLine());
  root.require_subcommand(1);
  root.get_formatter()->column_width(34);
  Choice choice;
  for (const Command& command : AllCommands()) AddCommand(root, command, choice);

  if (const absl::Status status = CheckCommandName(argc, argv); !status.ok()) {
    PrintError(status);
    return kUsage;
  }
  try {
    root.parse(argc, argv);
  } catch (const CLI::Success& wanted) {  // --help, --version
    return root.exit(wanted);
  } catch (const CLI::ParseError& e) {
    const auto chosen = root.get_subcommands();
    PrintError(
        WithHint(UsageError("{}", engine::Escaped(e.what(), 500)),
                 fmt::format("baton {}--help", chosen.empty() ? "" : chosen[0]->get_name() + " ")));
    return kUsage;
  }
  SetUpLogging(choice.logging);
  absl::Status status = CheckInstructionSet();
  if (status.ok()) status = choice.body();
  if (!status.ok()) PrintError(status);
  return ExitCodeOf(status);
}

}  // namespace baton::cli
