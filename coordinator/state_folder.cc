#include "coordinator/state_folder.h"

#include <cstdlib>
#include <filesystem>

namespace baton::coordinator {

std::string StateFolder() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0')
    return (std::filesystem::path(state) / "baton").string();
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return "";
  return (std::filesystem::path(home) / ".local/state/baton").string();
}

}  // namespace baton::coordinator
