#include "proto/peer_role.h"

#include <algorithm>
#include <array>

#include "engine/base/quote.h"

namespace baton::wire {
namespace {

constexpr std::array<std::string_view, 4> kRoleNames = {"generate", "admin", "worker",
                                                        "coordinator"};
constexpr std::string_view kUriPrefix = "baton:role:";

// Names of properties that gRPC gives to a peer.
constexpr char kTransportProperty[] = "transport_security_type";
constexpr char kUriProperty[] = "peer_uri";

// gRPC's TLS credentials of two generations say "ssl" and "tls".
bool OverTls(const grpc::AuthContext& peer) {
  const auto values = peer.FindPropertyValues(kTransportProperty);
  return std::ranges::any_of(values,
                             [](const grpc::string_ref& value) { return value != "insecure"; });
}

}  // namespace

std::string_view RoleName(Role role) { return kRoleNames[static_cast<size_t>(role)]; }

absl::StatusOr<Role> ParseRole(std::string_view name) {
  for (size_t i = 0; i < kRoleNames.size(); ++i) {
    if (name == kRoleNames[i]) return static_cast<Role>(i);
  }
  return InvalidArgument("role: got \"{}\", expected generate, admin, worker or coordinator",
                         engine::Named(name));
}

std::string RoleUri(Role role) { return fmt::format("{}{}", kUriPrefix, RoleName(role)); }

bool HasCertificate(const grpc::AuthContext& peer) { return peer.IsPeerAuthenticated(); }

absl::Status CheckPeerRole(const grpc::AuthContext& peer, std::initializer_list<Role> allowed) {
  if (!OverTls(peer)) return absl::OkStatus();
  for (const grpc::string_ref& uri : peer.FindPropertyValues(kUriProperty)) {
    for (const Role role : allowed) {
      if (std::string_view(uri.data(), uri.size()) == RoleUri(role)) return absl::OkStatus();
    }
  }
  std::string roles;
  for (const Role role : allowed) {
    roles += fmt::format("{}{}", roles.empty() ? "" : " or ", RoleName(role));
  }
  return PermissionDenied("this call needs a certificate with the role {}", roles);
}

}  // namespace baton::wire
