#include "proto/status_convert.h"

namespace baton::wire {
namespace {

// Trailers that carry a message are bounded by HTTP/2 header limits (8 KiB by default).
constexpr size_t kMaxStatusTextBytes = 4096;

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()),
          std::string(Message(status).substr(0, kMaxStatusTextBytes))};
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return FromWireCode(status.error_code(), status.error_message());
}

absl::Status FromWireCode(int32_t code, std::string_view message) {
  const bool known = code > 0 && code <= static_cast<int32_t>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      absl::string_view(message.data(), message.size()));
}

}  // namespace baton::wire
