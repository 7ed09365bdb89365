#include "cli/server_flags.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>

#include "cli/exit_code.h"
#include "cli/output.h"

namespace baton::cli {
namespace {

constexpr char kKeyVariable[] = "BATON_API_KEY";
constexpr std::string_view kSpaces = " \t\r\n";

}  // namespace

CLI::Option* AddTlsFlags(CLI::App& app, TlsFlags& flags) {
  auto* folder = app.add_option("--tls", flags.folder,
                                "Folder with ca.pem, cert.pem and key.pem, as from `baton certs`");
  auto* ca = app.add_option("--ca", flags.ca, "Certificate of the cluster's authority, a PEM file");
  auto* cert = app.add_option("--cert", flags.cert, "Certificate to show, a PEM file");
  auto* key = app.add_option("--key", flags.key, "Key of that certificate, a PEM file");
  for (CLI::Option* file : {ca, cert, key}) file->excludes(folder);
  cert->needs(ca)->needs(key);
  key->needs(cert);
  return folder;
}

absl::StatusOr<wire::Security> SecurityOf(const TlsFlags& flags) {
  if (flags.folder.empty())
    return wire::Security{.ca_file = flags.ca, .cert_file = flags.cert, .key_file = flags.key};
  const std::filesystem::path folder = flags.folder;
  std::error_code error;
  if (!std::filesystem::exists(folder / "ca.pem", error))
    return NotFound("--tls: {}/ca.pem: no such file", flags.folder);
  wire::Security security{.ca_file = folder / "ca.pem", .cert_file = {}, .key_file = {}};
  if (std::filesystem::exists(folder / "cert.pem", error)) {
    security.cert_file = folder / "cert.pem";
    security.key_file = folder / "key.pem";
  }
  return security;
}

CLI::Option* AddServerFlags(CLI::App& app, ServerFlags& flags) {
  auto* server = app.add_option("--server", flags.address, "HOST:PORT of a running coordinator");
  AddTlsFlags(app, flags.tls);
  app.add_option("--api-key-file", flags.api_key_file,
                 "File with the API key to show; BATON_API_KEY of the environment where absent");
  return server;
}

absl::StatusOr<std::string> ApiKeyOf(const ServerFlags& flags) {
  std::string key;
  if (!flags.api_key_file.empty()) {
    ASSIGN_OR_RETURN(key, ReadTextFile(flags.api_key_file));
  } else if (const char* variable = std::getenv(kKeyVariable); variable != nullptr) {
    key = variable;
  }
  const size_t begin = key.find_first_not_of(kSpaces);
  if (begin == std::string::npos) return std::string();
  key = key.substr(begin, key.find_last_not_of(kSpaces) - begin + 1);
  if (key.find_first_of(kSpaces) != std::string::npos)
    return UsageError("API key: expected one word");
  return key;
}

}  // namespace baton::cli
