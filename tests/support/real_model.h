// Published models that scripts/fetch_model.sh has put into the cache folder; tests that need one
// skip without it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace baton::testing {

// The file's path, or "" where it is not there.
inline std::string RealModelPath(const std::string& file_name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const bool given = cache != nullptr && *cache != '\0';
  if (!given && home == nullptr) return "";
  const std::filesystem::path root =
      given ? std::filesystem::path(cache) : std::filesystem::path(home) / ".cache";
  const std::filesystem::path path = root / "baton" / "models" / file_name;
  return std::filesystem::exists(path) ? path.string() : "";
}

}  // namespace baton::testing
