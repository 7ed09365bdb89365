#include "cli/model_path.h"

#include <filesystem>

#include "cli/exit_code.h"
#include "cli/model_source.h"
#include "engine/base/quote.h"
#include "engine/base/user_folders.h"

namespace baton::cli {
namespace fs = std::filesystem;

std::string ModelCacheDir() { return engine::CacheFolder() + "/models"; }

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
