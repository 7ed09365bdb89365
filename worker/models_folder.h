// The GGUF files of a worker's models folder.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/arch/stage_spec.h"
#include "engine/base/status.h"

namespace baton::worker {

inline constexpr std::string_view kModelSuffix = ".gguf";

// Reads the folder. NotFound where there is none.
absl::StatusOr<std::vector<engine::PartFile>> ListModels(const std::string& models_dir);

// The folder's list for whoever asks often: at most a second old, so that questions don't cost a
// read of the folder each.
// Owner: a stage loader. Any thread.
class ModelsFolder {
 public:
  explicit ModelsFolder(std::string models_dir) : models_dir_(std::move(models_dir)) {}

  std::vector<engine::PartFile> Files() const;  // empty where there is no folder

 private:
  const std::string models_dir_;
  mutable std::mutex mutex_;
  mutable std::vector<engine::PartFile> files_;                // guarded by mutex_
  mutable std::chrono::steady_clock::time_point valid_until_;  // guarded by mutex_
};

}  // namespace baton::worker
