// A subcommand of baton: a row of the table in command_table.cc, its flags and its body in a file
// of its own.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <span>
#include <string_view>

#include "engine/base/status.h"

namespace baton::cli {

// What a command does once its flags are parsed. Results go to stdout, everything else to stderr;
// an error comes back as a Status, which main prints and turns into an exit code (exit_code.h).
using CommandBody = std::function<absl::Status()>;

struct Command {
  std::string_view name;
  std::string_view group;                // heading in `baton --help`
  std::string_view summary;              // one line
  std::string_view example;              // one that works
  CommandBody (*define)(CLI::App& app);  // declares the flags; the body keeps what it needs
};

// All commands, in the order of `baton --help`.
std::span<const Command> AllCommands();

}  // namespace baton::cli
