// baton session: conversations that a cluster keeps by name.
#include <CLI/CLI.hpp>
#include <iterator>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/output.h"
#include "cli/remote_service.h"
#include "cli/server_flags.h"
#include "engine/base/steady_time.h"

namespace baton::cli {
namespace {

using coordinator::SessionAction;
using coordinator::SessionInfo;

struct Action {
  std::string_view word;
  SessionAction action;
  int names;  // that it takes
};
constexpr Action kActions[] = {
    {"list", SessionAction::kList, 0}, {"fork", SessionAction::kFork, 2},
    {"save", SessionAction::kSave, 1}, {"restore", SessionAction::kRestore, 1},
    {"rm", SessionAction::kRemove, 1},
};

struct SessionFlags {
  ServerFlags server{.address = "127.0.0.1:7070", .tls = {}, .api_key_file = {}};
  std::string action;
  std::vector<std::string> names;
  std::string timeout = "5m";
  bool json = false;
};

absl::StatusOr<Action> ActionOf(const SessionFlags& flags) {
  for (const Action& action : kActions) {
    if (action.word != flags.action) continue;
    if (static_cast<int>(flags.names.size()) == action.names) return action;
    return UsageError("session {}: got {} names, expected {}", action.word, flags.names.size(),
                      action.names);
  }
  return UsageError("session: got {}, expected list, fork, save, restore or rm", flags.action);
}

std::string Line(const SessionInfo& session, SessionAction action) {
  std::string line = fmt::format("{}: {} tokens", session.name, session.tokens);
  if (session.saved_tokens > 0) line += fmt::format(", {} of them saved", session.saved_tokens);
  if (action == SessionAction::kSave || action == SessionAction::kRestore)
    line += fmt::format(", {} need no work", session.blocks_tokens);
  if (!session.note.empty()) line += fmt::format(" ({})", session.note);
  return line + "\n";
}

absl::Status PrintSessions(const SessionFlags& flags, const std::vector<SessionInfo>& sessions,
                           SessionAction action) {
  if (!flags.json) {
    for (const SessionInfo& session : sessions) RETURN_IF_ERROR(Print(Line(session, action)));
    return absl::OkStatus();
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SessionInfo& session : sessions) {
    list.push_back({{"name", session.name},
                    {"tokens", session.tokens},
                    {"saved_tokens", session.saved_tokens},
                    {"blocks_tokens", session.blocks_tokens},
                    {"note", session.note}});
  }
  return PrintJson({{"sessions", list}});
}

absl::Status Run(const SessionFlags& flags) {
  ASSIGN_OR_RETURN(const Action action, ActionOf(flags));
  ASSIGN_OR_RETURN(const absl::Duration timeout, ParseDuration("--timeout", flags.timeout));
  ASSIGN_OR_RETURN(const auto service, RemoteService::Make(flags.server));
  ASSIGN_OR_RETURN(const std::vector<SessionInfo> sessions,
                   service->Session({.action = action.action,
                                     .name = flags.names.empty() ? "" : flags.names[0],
                                     .to = flags.names.size() > 1 ? flags.names[1] : "",
                                     .deadline = SteadyNow() + timeout}));
  return PrintSessions(flags, sessions, action.action);
}

}  // namespace

CommandBody DefineSession(CLI::App& app) {
  auto flags = std::make_shared<SessionFlags>();
  app.add_option("ACTION", flags->action, "list, fork NAME NEW, save NAME, restore NAME, rm NAME")
      ->required();
  app.add_option("NAME", flags->names, "The session")->expected(0, 2);
  AddServerFlags(app, flags->server)->capture_default_str();
  app.add_option("--timeout", flags->timeout, "How long it may take")->capture_default_str();
  app.add_flag("--json", flags->json, "One JSON document");
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
