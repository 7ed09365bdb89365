// Where a process may listen, checked before anything is loaded.
#pragma once

#include "engine/base/status.h"
#include "proto/address.h"
#include "proto/security.h"

namespace baton::wire {

// PermissionDenied for an address beyond loopback without TLS, unless the operator said `insecure`.
absl::Status CheckListenPolicy(const Address& address, const Security& security, bool insecure);

// AlreadyExists where another process holds the port (gRPC itself only logs why it couldn't bind);
// InvalidArgument or Unknown where the host is not one of this machine or the system refuses. Port
// 0 is always free.
absl::Status CheckPortFree(const Address& address);

}  // namespace baton::wire
