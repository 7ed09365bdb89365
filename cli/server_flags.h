// Flags of commands that talk to a coordinator or a worker over the network: which one, by which
// certificates, and with which key. A key never stands on the command line, where others see it.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "engine/base/status.h"
#include "proto/security.h"

namespace baton::cli {

struct TlsFlags {
  std::string folder;  // with ca.pem, cert.pem and key.pem, as `baton certs issue` makes it
  std::string ca, cert, key;
};
// --tls DIR, or --ca, --cert and --key FILE. Returns --tls.
CLI::Option* AddTlsFlags(CLI::App& app, TlsFlags& flags);
// Usage errors. A folder without cert.pem, or --ca alone, makes TLS without a certificate of ours.
absl::StatusOr<wire::Security> SecurityOf(const TlsFlags& flags);

struct ServerFlags {
  std::string address;  // "": none was given
  TlsFlags tls;
  std::string api_key_file;

  bool given() const { return !address.empty(); }
};
// --server and all that it needs. Returns --server.
CLI::Option* AddServerFlags(CLI::App& app, ServerFlags& flags);
// From --api-key-file or the environment's BATON_API_KEY; "": none.
absl::StatusOr<std::string> ApiKeyOf(const ServerFlags& flags);

}  // namespace baton::cli
