// baton certs: a small certificate authority for a cluster, and keys for clients.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "coordinator/api_keys.h"
#include "proto/certificates.h"

namespace baton::cli {
namespace {

struct CertsFlags {
  std::string folder = "certs";
  std::string role = "generate";
  std::string key_file = "keys.txt";
  int ca_days = 3650;
  bool json = false;
  wire::CertificateRequest request;
};

absl::StatusOr<wire::Role> RoleOf(const CertsFlags& flags) {
  auto role = wire::ParseRole(flags.role);
  if (!role.ok()) return WithExitCode(Prefixed(role.status(), "--role"), kUsage);
  return role;
}

absl::Status Init(const CertsFlags& flags) {
  RETURN_IF_ERROR(wire::CreateAuthority(flags.folder, flags.ca_days));
  if (flags.json) {
    return PrintJson({{"ca", flags.folder + "/ca.pem"}, {"key", flags.folder + "/ca-key.pem"}});
  }
  return Print(
      fmt::format("{0}/ca.pem      for everyone\n{0}/ca-key.pem  stays here: who has it can "
                  "make certificates\n",
                  flags.folder));
}

absl::Status Issue(const CertsFlags& flags) {
  wire::CertificateRequest request = flags.request;
  ASSIGN_OR_RETURN(request.role, RoleOf(flags));
  const bool serves =
      request.role == wire::Role::kWorker || request.role == wire::Role::kCoordinator;
  if (serves && request.hosts.empty())
    return UsageError("--host: a {} is reached by name or address; give those", flags.role);
  ASSIGN_OR_RETURN(const wire::Security files, wire::IssueCertificate(flags.folder, request));
  if (flags.json) {
    return PrintJson({{"ca", files.ca_file}, {"cert", files.cert_file}, {"key", files.key_file}});
  }
  return Print(fmt::format("{}\n{}\n{}\n", files.ca_file, files.cert_file, files.key_file));
}

absl::Status AppendLine(const std::string& path, const std::string& line) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return CannotWrite("{}: {}", path, std::strerror(errno));
  const bool written = write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int reason = errno;
  close(fd);
  return written ? absl::OkStatus() : CannotWrite("{}: {}", path, std::strerror(reason));
}

absl::Status MakeKey(const CertsFlags& flags) {
  ASSIGN_OR_RETURN(const wire::Role role, RoleOf(flags));
  ASSIGN_OR_RETURN(const coordinator::NewApiKey made,
                   coordinator::MakeApiKey(flags.request.name, role));
  RETURN_IF_ERROR(AppendLine(flags.key_file, made.line));
  if (flags.json) return PrintJson({{"key", made.key}, {"file", flags.key_file}});
  return Print(made.key + "\n");  // the only time it is seen
}

}  // namespace

CommandBody DefineCerts(CLI::App& app) {
  auto flags = std::make_shared<CertsFlags>();
  app.require_subcommand(1);
  const auto add_folder = [&](CLI::App* command) {
    command->add_option("-d,--dir", flags->folder, "Folder of the authority")
        ->capture_default_str();
  };
  const auto add_name_and_role = [&](CLI::App* command) {
    command->add_option("NAME", flags->request.name, "Whose it is")->required();
    command->add_option("--role", flags->role, "generate, admin, worker or coordinator")
        ->capture_default_str();
  };

  CLI::App* init = app.add_subcommand("init", "Make a certificate authority");
  add_folder(init);
  init->add_option("--days", flags->ca_days, "How long it is valid")
      ->check(CLI::Range(1, 36500))
      ->capture_default_str();

  CLI::App* issue =
      app.add_subcommand("issue", "Make DIR/NAME, the folder that --tls of a host or client wants");
  add_folder(issue);
  add_name_and_role(issue);
  issue->add_option("--host", flags->request.hosts,
                    "Name or IP address under which it is reached; may be repeated");
  issue->add_option("--days", flags->request.days, "How long it is valid")
      ->check(CLI::Range(1, 36500))
      ->capture_default_str();

  CLI::App* key = app.add_subcommand(
      "key", "Make an API key: prints it, and adds its hash to a file for the topology's api_keys");
  add_name_and_role(key);
  key->add_option("-f,--file", flags->key_file, "File of the hashes")->capture_default_str();

  for (CLI::App* command : {init, issue, key})
    command->add_flag("--json", flags->json, "One JSON document");

  return [flags, init, issue] {
    if (init->parsed()) return Init(*flags);
    return issue->parsed() ? Issue(*flags) : MakeKey(*flags);
  };
}

}  // namespace baton::cli
