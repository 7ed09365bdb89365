// A small certificate authority for a cluster: `baton certs` and tests. Keys are P-256, files PEM.
#pragma once

#include <absl/time/time.h>

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "proto/peer_role.h"
#include "proto/security.h"

namespace baton::wire {

// Writes DIR/ca.pem and DIR/ca-key.pem (readable by the owner only). AlreadyExists where there is
// one: it would lock out every certificate that it has signed.
absl::Status CreateAuthority(const std::string& dir, int days);

struct CertificateRequest {
  std::string name;                // file name and common name
  Role role = Role::kWorker;       // what its bearer may do
  std::vector<std::string> hosts;  // names and IP addresses under which it is reached
  int days = 365;
};
// Signs with the authority in `dir` and writes DIR/NAME/ with ca.pem, cert.pem and key.pem, all
// that a host needs, replacing those that are there. Returns their paths.
absl::StatusOr<Security> IssueCertificate(const std::string& dir,
                                          const CertificateRequest& request);

// Whether others with this authority would believe a process with these files at that time: the key
// is the certificate's, the authority has signed it, it is valid then. The first thing that is
// wrong names the file.
absl::Status CheckCertificate(const Security& files, absl::Time when);

}  // namespace baton::wire
