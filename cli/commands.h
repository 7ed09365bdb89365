// The commands, one a file. Each declares its flags on `app` and returns what runs.
#pragma once

#include "cli/command.h"

namespace baton::cli {

CommandBody DefineInfo(CLI::App& app);
CommandBody DefineSplit(CLI::App& app);
CommandBody DefineMerge(CLI::App& app);
CommandBody DefineQuantize(CLI::App& app);
CommandBody DefineTokenize(CLI::App& app);
CommandBody DefineDetokenize(CLI::App& app);
CommandBody DefineLogits(CLI::App& app);
CommandBody DefinePerplexity(CLI::App& app);
CommandBody DefineRender(CLI::App& app);
CommandBody DefineBench(CLI::App& app);
CommandBody DefineRun(CLI::App& app);
CommandBody DefineChat(CLI::App& app);
CommandBody DefineServe(CLI::App& app);
CommandBody DefineUp(CLI::App& app);
CommandBody DefineStatus(CLI::App& app);
CommandBody DefineDrain(CLI::App& app);
CommandBody DefineReload(CLI::App& app);
CommandBody DefineSession(CLI::App& app);
CommandBody DefineCerts(CLI::App& app);
CommandBody DefinePlan(CLI::App& app);
CommandBody DefineDoctor(CLI::App& app);
CommandBody DefineTrace(CLI::App& app);
CommandBody DefineDown(CLI::App& app);
CommandBody DefineLogs(CLI::App& app);
CommandBody DefineWorker(CLI::App& app);
CommandBody DefineDevices(CLI::App& app);
CommandBody DefineVersion(CLI::App& app);
CommandBody DefineCompletion(CLI::App& app);

}  // namespace baton::cli
