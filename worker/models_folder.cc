#include "worker/models_folder.h"

#include <filesystem>
#include <system_error>

namespace baton::worker {
namespace {

constexpr size_t kMaxListedFiles = 10'000;

}  // namespace

absl::StatusOr<std::vector<engine::PartFile>> ListModels(const std::string& models_dir) {
  std::vector<engine::PartFile> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(models_dir, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() != kModelSuffix || files.size() >= kMaxListedFiles) continue;
    std::error_code gone;
    const uintmax_t bytes = entry->file_size(gone);
    if (!gone) files.push_back({entry->path().filename().string(), bytes});
  }
  if (error) return NotFound("models folder {}: {}", models_dir, error.message());
  return files;
}

}  // namespace baton::worker
