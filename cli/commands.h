// The commands, one a file. Each declares its flags on `app` and returns what runs.
#pragma once

#include "cli/command.h"

namespace baton::cli {

CommandBody DefineInfo(CLI::App& app);
CommandBody DefineVersion(CLI::App& app);
CommandBody DefineCompletion(CLI::App& app);

}  // namespace baton::cli
