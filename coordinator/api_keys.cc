#include "coordinator/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

#include "engine/base/quote.h"
#include "engine/base/steady_time.h"

namespace baton::coordinator {
namespace {

constexpr std::string_view kScheme = "bearer ";
constexpr std::string_view kKeyPrefix = "baton-";  // so that scanners for leaked secrets find it
constexpr absl::Duration kLookEvery = absl::Seconds(1);
constexpr std::string_view kHexDigits = "0123456789abcdef";

std::string ToHex(std::span<const uint8_t> bytes) {
  std::string hex;
  for (const uint8_t byte : bytes) {
    hex += kHexDigits[byte >> 4];
    hex += kHexDigits[byte & 15];
  }
  return hex;
}

std::optional<KeyHash> FromHex(std::string_view hex) {
  KeyHash hash{};
  if (hex.size() != 2 * hash.size()) return std::nullopt;
  for (size_t i = 0; i < hex.size(); ++i) {
    const size_t digit = kHexDigits.find(hex[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    hash[i / 2] = static_cast<uint8_t>(hash[i / 2] << 4 | digit);
  }
  return hash;
}

KeyHash HashOf(std::string_view key) {
  KeyHash hash{};
  EVP_Digest(key.data(), key.size(), hash.data(), nullptr, EVP_sha256(), nullptr);
  return hash;
}

bool HasScheme(std::string_view authorization) {
  return authorization.size() > kScheme.size() &&
         std::equal(kScheme.begin(), kScheme.end(), authorization.begin(), [](char want, char got) {
           return want == (got >= 'A' && got <= 'Z' ? got - 'A' + 'a' : got);
         });
}

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace

absl::StatusOr<std::vector<ApiKey>> ParseApiKeys(std::string_view text, const std::string& file) {
  std::vector<ApiKey> keys;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream fields(line);
    std::string name, role_name, hash_hex, more;
    if (!(fields >> name) || name.front() == '#') continue;
    fields >> role_name >> hash_hex;
    const auto role = wire::ParseRole(role_name);
    const std::optional<KeyHash> hash = FromHex(hash_hex);
    if (!role.ok() || !hash || fields >> more) {
      return InvalidArgument("{}:{}: expected NAME ROLE SHA256, as `baton certs key` writes it",
                             file, number);
    }
    keys.push_back({.name = name, .role = *role, .hash = *hash});
  }
  return keys;
}

absl::StatusOr<NewApiKey> MakeApiKey(const std::string& name, wire::Role role) {
  if (name.empty() || name.front() == '#' || name.find_first_of(" \t\r\n") != std::string::npos) {
    return InvalidArgument("key name: got \"{}\", expected a word", engine::Named(name));
  }
  uint8_t secret[32];
  if (RAND_bytes(secret, sizeof(secret)) != 1) return Internal("random bytes: none to be had");
  const std::string key = std::string(kKeyPrefix) + ToHex(secret);
  return NewApiKey{
      .key = key,
      .line = fmt::format("{} {} {}\n", name, wire::RoleName(role), ToHex(HashOf(key)))};
}

absl::StatusOr<std::unique_ptr<ApiKeys>> ApiKeys::Open(const std::string& path) {
  std::unique_ptr<ApiKeys> keys(new ApiKeys(path));
  RETURN_IF_ERROR(keys->Read());
  return keys;
}

absl::Status ApiKeys::Read() {
  struct stat info {};
  std::ifstream stream(path_, std::ios::binary);
  if (!stream || stat(path_.c_str(), &info) != 0)
    return NotFound("API keys: {}: {}", path_, std::strerror(errno));
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  seen_ = info;
  ASSIGN_OR_RETURN(keys_, ParseApiKeys(text, path_));
  return absl::OkStatus();
}

// A file that has become wrong must not lock everyone out, nor let anyone in.
void ApiKeys::ReadAgainIfChanged() {
  const absl::Time now = SteadyNow();
  if (now < look_again_) return;
  look_again_ = now + kLookEvery;
  struct stat info {};
  if (stat(path_.c_str(), &info) != 0 || SameFile(info, seen_)) return;
  if (const absl::Status status = Read(); !status.ok())
    spdlog::warn("{}; the keys stay as they were", Message(status));
}

absl::Status ApiKeys::Check(std::string_view authorization,
                            std::initializer_list<wire::Role> allowed) {
  if (!HasScheme(authorization)) {
    return Unauthenticated("this call needs an API key, in a header \"Authorization: Bearer KEY\"");
  }
  const KeyHash hash = HashOf(authorization.substr(kScheme.size()));
  const std::lock_guard lock(mutex_);
  ReadAgainIfChanged();
  // All keys are looked at, in constant time each: how long it takes says nothing.
  const ApiKey* found = nullptr;
  for (const ApiKey& key : keys_) {
    if (CRYPTO_memcmp(key.hash.data(), hash.data(), hash.size()) == 0) found = &key;
  }
  if (found == nullptr) return Unauthenticated("the API key is not one of this server's");
  if (std::find(allowed.begin(), allowed.end(), found->role) != allowed.end())
    return absl::OkStatus();
  return PermissionDenied("the API key has the role {}, which does not allow this call",
                          wire::RoleName(found->role));
}

}  // namespace baton::coordinator
