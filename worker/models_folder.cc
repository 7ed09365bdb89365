#include "worker/models_folder.h"

#include <filesystem>
#include <system_error>

namespace baton::worker {
namespace {

constexpr size_t kMaxListedFiles = 10'000;
constexpr size_t kMaxEntries = 100'000;  // looked at, of any name
constexpr auto kListAge = std::chrono::seconds(1);

}  // namespace

absl::StatusOr<std::vector<engine::PartFile>> ListModels(const std::string& models_dir) {
  std::vector<engine::PartFile> files;
  std::error_code error;
  size_t seen = 0;
  for (std::filesystem::directory_iterator entry(models_dir, error), end;
       !error && entry != end && files.size() < kMaxListedFiles && ++seen <= kMaxEntries;
       entry.increment(error)) {
    if (entry->path().extension() != kModelSuffix) continue;
    std::error_code gone;
    const uintmax_t bytes = entry->file_size(gone);
    if (!gone) files.push_back({entry->path().filename().string(), bytes});
  }
  if (error) return NotFound("models folder {}: {}", models_dir, error.message());
  return files;
}

std::vector<engine::PartFile> ModelsFolder::Files() const {
  const std::lock_guard lock(mutex_);
  if (std::chrono::steady_clock::now() >= valid_until_) {
    files_ = ListModels(models_dir_).value_or(std::vector<engine::PartFile>());
    valid_until_ = std::chrono::steady_clock::now() + kListAge;
  }
  return files_;
}

}  // namespace baton::worker
