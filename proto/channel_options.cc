#include "proto/channel_options.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <unistd.h>

#include "proto/address.h"

namespace baton::wire {
namespace {

// A silent peer is given up after about 10 s, which is more than a process may be stopped for and
// go on (a laptop's lid, a debugger); a killed one is seen at once by its closed socket.
constexpr int kKeepaliveTimeMs = 2'000;
constexpr int kKeepaliveTimeoutMs = 8'000;
// Servers end connections whose pings come faster than this.
constexpr int kMinPingIntervalMs = kKeepaliveTimeMs / 2;

// A restarted peer is found within a second.
constexpr int kFirstReconnectMs = 100;
constexpr int kMaxReconnectMs = 1'000;
constexpr int kConnectTimeoutMs = 5'000;

// Bytes a stream may have in flight before the receiver has measured the link (gRPC widens the
// window by itself then): a whole chunk and the next, not HTTP/2's 64 KiB.
constexpr int kStreamLookaheadBytes = 2 << 20;

constexpr int kMaxStreamsPerConnection = 1'024;
constexpr size_t kServerMemoryBytes = size_t{1}
                                      << 30;  // of gRPC's buffers; beyond it, new reads wait
// A peer that connects and says nothing is not waited for.
constexpr int kHandshakeTimeoutMs = 20'000;
// A connection without any call makes room; a channel that wants one again connects again.
constexpr int kMaxIdleMs = 300'000;
constexpr int kMaxMetadataBytes = 16 << 10;
constexpr unsigned kCertificateReloadSeconds = 2;

absl::Status CheckReadable(const std::string& path, const char* what) {
  if (access(path.c_str(), R_OK) == 0) return absl::OkStatus();
  return NotFound("TLS {}: {}: cannot be read", what, path);
}

absl::StatusOr<std::shared_ptr<grpc::experimental::CertificateProviderInterface>> MakeProvider(
    const Security& security) {
  RETURN_IF_ERROR(CheckReadable(security.ca_file, "CA certificate"));
  if (security.has_certificate()) {
    RETURN_IF_ERROR(CheckReadable(security.cert_file, "certificate"));
    RETURN_IF_ERROR(CheckReadable(security.key_file, "key"));
  }
  return std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      security.key_file, security.cert_file, security.ca_file, kCertificateReloadSeconds);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const Security& security) {
  if (!security.tls()) return grpc::InsecureChannelCredentials();
  ASSIGN_OR_RETURN(auto provider, MakeProvider(security));
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(std::move(provider));
  options.watch_root_certs();
  if (security.has_certificate()) options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(true);
  return grpc::experimental::TlsCredentials(options);
}

grpc::ChannelArguments ChannelArguments() {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(kMaxMessageBytes);
  args.SetMaxSendMessageSize(kMaxMessageBytes);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA,
              0);  // no limit: an idle cluster keeps its streams
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  args.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamLookaheadBytes);
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // a micro-batch must not be sent twice behind our back
  return args;
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const std::string& address,
                                                           const Security& security) {
  ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  ASSIGN_OR_RETURN(auto credentials, MakeChannelCredentials(security));
  return grpc::CreateCustomChannel(parsed.ToString(), credentials, ChannelArguments());
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const Security& security, PeerCertificate peer) {
  if (!security.tls()) return grpc::InsecureServerCredentials();
  if (!security.has_certificate()) return InvalidArgument("TLS: a server needs a certificate");
  ASSIGN_OR_RETURN(auto provider, MakeProvider(security));
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(peer == PeerCertificate::kRequired
                                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                    : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

void ApplyServerOptions(grpc::ServerBuilder& builder, int max_received_bytes) {
  builder.SetMaxReceiveMessageSize(max_received_bytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamLookaheadBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kMaxIdleMs);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.SetResourceQuota(grpc::ResourceQuota("server").Resize(kServerMemoryBytes));
}

}  // namespace baton::wire
