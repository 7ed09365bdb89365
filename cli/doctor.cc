// baton doctor: looks for what would go wrong, and says what to do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/diagnosis.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/topology_file.h"

namespace baton::cli {
namespace {

using Level = Finding::Level;

struct DoctorFlags {
  std::string topology;
  bool json = false;
};

nlohmann::ordered_json ToJson(const std::vector<Finding>& findings, bool healthy) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"level", LevelName(finding.level)},
                    {"where", finding.where},
                    {"what", finding.what},
                    {"todo", finding.todo.empty() ? nlohmann::ordered_json(nullptr)
                                                  : nlohmann::ordered_json(finding.todo)}});
  }
  return {{"healthy", healthy}, {"findings", std::move(list)}};
}

std::string ToText(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{:<8} {}: {}\n", LevelName(finding.level), finding.where, finding.what);
    if (!finding.todo.empty()) text += fmt::format("{:<8} -> {}\n", "", finding.todo);
  }
  return text;
}

// What does not even parse is a finding too: the report is the same in all cases.
std::vector<Finding> Examine(const std::string& file) {
  const auto topology = ReadTopology(file, ModelUse::kHeaders);
  if (topology.ok()) return Diagnose(*topology);
  return {{.level = Level::kError,
           .where = file,
           .what = std::string(Message(topology.status())),
           .todo = "correct the file; docs/topology.md lists all keys"}};
}

absl::Status Run(const DoctorFlags& flags) {
  std::vector<Finding> findings = Examine(flags.topology);
  std::ranges::stable_sort(findings, std::ranges::greater(), &Finding::level);
  const auto errors = std::ranges::count(findings, Level::kError, &Finding::level);
  RETURN_IF_ERROR(flags.json ? PrintJson(ToJson(findings, errors == 0)) : Print(ToText(findings)));
  if (errors == 0) return absl::OkStatus();
  return WithExitCode(FailedPrecondition("{}: {} things would go wrong", flags.topology, errors),
                      kBadData);
}

}  // namespace

CommandBody DefineDoctor(CLI::App& app) {
  auto flags = std::make_shared<DoctorFlags>();
  app.footer(
      app.get_footer() +
      "\n\nChecks the file, the model and its parts, the plan, addresses and ports, TLS files, "
      "limits of\n"
      "this machine, and each worker that answers: version, name, clock, files, memory, and the "
      "link\n"
      "to it. Changes nothing. Exit code 65 where something would go wrong; warnings alone are 0.");
  app.add_option("-f,--file", flags->topology, "Topology file")->required();
  app.add_flag("--json", flags->json, "One JSON document");
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
