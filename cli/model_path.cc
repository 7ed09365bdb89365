#include "cli/model_path.h"

#include <cstdlib>
#include <filesystem>

#include "cli/exit_code.h"
#include "cli/model_source.h"
#include "engine/base/quote.h"

namespace baton::cli {
namespace fs = std::filesystem;

std::string ModelCacheDir() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return std::string(cache) + "/baton/models";
  }
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "/tmp") + "/.cache/baton/models";
}

absl::StatusOr<std::string> FindModel(const std::string& name) {
  std::error_code ignored;
  if (fs::exists(name, ignored)) return name;
  if (IsModelName(name)) return FetchModel(name, ModelCacheDir());
  if (name.find('/') == std::string::npos) {
    const std::string cached = ModelCacheDir() + "/" + name;
    for (const std::string& path : {cached, cached + ".gguf"}) {
      if (fs::exists(path, ignored)) return path;
    }
    return WithHint(
        NotFound("{}: no such file, here or in {}", engine::Named(name), ModelCacheDir()),
        "hf:ORG/REPO:QUANT and ollama:NAME fetch a model");
  }
  return NotFound("{}: no such file", engine::Named(name));
}

}  // namespace baton::cli
