// Keys by which clients say who they are where they show no certificate.
//
// A file of one key a line, "NAME ROLE HASH": the hash is the key's SHA-256 in hex. A key is 256
// random bits, so its plain hash gives nothing away; the key itself is nowhere but with its client.
// The file is read again when it changes. Owner: whoever runs the coordinator. Any thread.
#pragma once

#include <absl/time/time.h>
#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "proto/peer_role.h"

namespace baton::coordinator {

using KeyHash = std::array<uint8_t, 32>;

struct ApiKey {
  std::string name;
  wire::Role role = wire::Role::kGenerate;
  KeyHash hash{};
};

// Blank lines and those that begin with '#' are skipped. `file` stands in errors, which never show
// what is on the line.
absl::StatusOr<std::vector<ApiKey>> ParseApiKeys(std::string_view text, const std::string& file);

// A new key, and the line by which a file knows it.
struct NewApiKey {
  std::string key;
  std::string line;
};
absl::StatusOr<NewApiKey> MakeApiKey(const std::string& name, wire::Role role);

class ApiKeys {
 public:
  static absl::StatusOr<std::unique_ptr<ApiKeys>> Open(const std::string& path);

  // OK where `authorization`, a header's value "Bearer KEY", is a key with one of these roles.
  // Unauthenticated where it is no key of ours, PermissionDenied where it has another role.
  absl::Status Check(std::string_view authorization, std::initializer_list<wire::Role> allowed);

 private:
  explicit ApiKeys(std::string path) : path_(std::move(path)) {}
  absl::Status Read();
  void ReadAgainIfChanged();

  const std::string path_;
  std::mutex mutex_;
  std::vector<ApiKey> keys_;  // guarded by mutex_, as the rest
  struct stat seen_ {};
  absl::Time look_again_;
};

}  // namespace baton::coordinator
