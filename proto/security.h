// Who may talk: in the clear on loopback, or by TLS, where each side shows a certificate of the
// cluster's own CA. Clients may do without a certificate where the server takes API keys.
#pragma once

#include <string>

namespace baton::wire {

// Paths of PEM files; all empty: no TLS. Files that change are read again while the process runs.
struct Security {
  std::string ca_file;
  std::string cert_file;  // empty: none is shown
  std::string key_file;

  bool tls() const { return !ca_file.empty(); }
  bool has_certificate() const { return !cert_file.empty(); }
};

}  // namespace baton::wire
