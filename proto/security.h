// Who may talk: in the clear on loopback, or by mutual TLS where each side shows a certificate of
// the cluster's own CA.
#pragma once

#include <string>

namespace baton::wire {

// Paths of PEM files; all empty: no TLS. Files that change are read again while the process runs.
struct Security {
  std::string ca_file;
  std::string cert_file;
  std::string key_file;

  bool tls() const { return !cert_file.empty(); }
};

}  // namespace baton::wire
