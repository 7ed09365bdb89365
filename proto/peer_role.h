// What the bearer of a certificate may do: a URI "baton:role:NAME" among its alternative names.
#pragma once

#include <grpcpp/security/auth_context.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace baton::wire {

enum class Role : uint8_t {
  kGenerate,  // clients
  kAdmin,     // clients that may drain workers and the like
  kWorker,
  kCoordinator,
};
std::string_view RoleName(Role role);
absl::StatusOr<Role> ParseRole(std::string_view name);
std::string RoleUri(Role role);

bool HasCertificate(const grpc::AuthContext& peer);
// OK where the peer's certificate carries one of these roles. A connection without TLS passes: it
// comes from this machine, or the operator has opened the port to everyone by name.
absl::Status CheckPeerRole(const grpc::AuthContext& peer, std::initializer_list<Role> allowed);

}  // namespace baton::wire
