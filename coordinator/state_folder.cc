#include "coordinator/state_folder.h"

#include <cstdlib>
#include <filesystem>

namespace baton::coordinator {
namespace {

std::string FolderOf(const char* variable, const char* below_home) {
  if (const char* named = std::getenv(variable); named != nullptr && *named != '\0')
    return (std::filesystem::path(named) / "baton").string();
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return "";
  return (std::filesystem::path(home) / below_home / "baton").string();
}

}  // namespace

std::string StateFolder() { return FolderOf("XDG_STATE_HOME", ".local/state"); }
std::string CacheFolder() { return FolderOf("XDG_CACHE_HOME", ".cache"); }

}  // namespace baton::coordinator
