// How baton's processes use gRPC: limits, keepalive and flow control of both sides, in one place,
// because they must match.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "proto/security.h"

namespace baton::wire {

// gRPC's own default, so that any client can talk to us. Bigger things are cut into pieces.
inline constexpr int kMaxMessageBytes = 4 << 20;
// Of hidden states or of a file in one message: below 1 MiB with what stands around it.
inline constexpr int kMaxChunkBytes = 1'000'000;

// The channel connects when it is first used. Bad credentials (no such file) come back as a status.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& address,
                                                           const Security& security);

// Whether those who connect must show a certificate. One that they show is checked in any case.
enum class PeerCertificate : uint8_t { kRequired, kOptional };
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const Security& security, PeerCertificate peer);
void ApplyServerOptions(grpc::ServerBuilder& builder, int max_received_bytes);  // of a message

}  // namespace baton::wire
