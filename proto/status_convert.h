// absl::Status <-> grpc::Status; the codes are the same numbers.
#pragma once

#include <grpcpp/support/status.h>

#include "engine/base/status.h"

namespace baton::wire {

grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);
// From a number that came over the wire: an unknown code becomes Unknown, OK stays an error of the
// sender.
absl::Status FromWireCode(int32_t code, std::string_view message);

}  // namespace baton::wire
