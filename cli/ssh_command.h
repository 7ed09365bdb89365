// Workers on other hosts by the system's ssh, with keys and configuration as people have them.
//
// In the topology: launch: ssh://[user@]host[:port][/path/of/baton]. Without a path `baton` is
// looked for in the PATH there.
#pragma once

#include <absl/time/time.h>

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace baton::cli {

// "user@host" of a launch entry.
std::string SshTarget(std::string_view launch);
// The program there.
std::string SshProgram(std::string_view launch);

// Runs `command` on the host; its output comes as ours. When the connection ends the command gets
// SIGHUP, so nothing is left behind.
std::vector<std::string> SshCommand(std::string_view launch,
                                    const std::vector<std::string>& command);
// Whether the host lets us in without a question. The status says what ssh said.
absl::Status TrySsh(std::string_view launch, absl::Duration timeout);
// Puts this program there as `path`, by way of a temporary name.
absl::Status CopyOurselves(std::string_view launch, std::string_view path);

// A word that any shell reads as it stands.
std::string ShellQuoted(std::string_view word);

}  // namespace baton::cli
