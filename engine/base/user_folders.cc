#include "engine/base/user_folders.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace baton::engine {
namespace {

namespace fs = std::filesystem;

std::string FolderOf(const char* variable, const char* below_home) {
  if (const char* named = std::getenv(variable); named != nullptr && *named != '\0')
    return (fs::path(named) / "baton").string();
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return "";
  return (fs::path(home) / below_home / "baton").string();
}

}  // namespace

std::string StateFolder() { return FolderOf("XDG_STATE_HOME", ".local/state"); }

std::string CacheFolder() {
  const std::string folder = FolderOf("XDG_CACHE_HOME", ".cache");
  if (!folder.empty()) return folder;
  std::error_code none;
  return (fs::temp_directory_path(none) / fmt::format("baton-{}", getuid())).string();
}

}  // namespace baton::engine
