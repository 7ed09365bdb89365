#include "cli/version.h"

#include <sys/utsname.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/output.h"
#include "engine/base/status.h"
#include "proto/version.h"

namespace baton::cli {

std::string VersionLine() {
  utsname system{};
  uname(&system);
  return fmt::format("baton {} (c++ {}, linux {})", BATON_VERSION, __VERSION__, system.machine);
}

CommandBody DefineVersion(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "One JSON document");
  return [json]() -> absl::Status {
    if (*json)
      return PrintJson({{"name", "baton"},
                        {"version", BATON_VERSION},
                        {"build", wire::BuildId()},
                        {"compiler", __VERSION__}});
    return Print(VersionLine() + "\n");
  };
}

}  // namespace baton::cli
