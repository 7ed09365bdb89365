// Model parts that this host lacks: fetches them whole from the hub that the model is published on,
// or the byte ranges a stage needs from workers that hold them, and keeps them.
//
// A part from workers is a file of the part's own size with holes where nothing was needed, so that
// tensors lie where the spec says. Beside it a list of what is there, with hashes: a fetch that was
// interrupted goes on, and what a disk has lost is noticed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/arch/stage_spec.h"
#include "engine/base/status.h"
#include "proto/security.h"
#include "worker/stage_runner.h"

namespace baton::worker {

// Puts a file of a published model's set ("hf:ORG/REPO/FILE") into a folder, whole and checked. The
// bytes that came.
using HubFetch = std::function<absl::StatusOr<uint64_t>(
    const std::string& model, const engine::PartFile& part, const std::string& folder,
    const LoadProgress& progress)>;

// Owner: a stage loader. One thread calls Provide.
class PartStore {
 public:
  // `cache_dir` is created when it is first needed. Without `fetch`, hubs are no sources.
  PartStore(std::string models_dir, std::string cache_dir, wire::Security security,
            HubFetch fetch = {})
      : models_dir_(std::move(models_dir)),
        cache_dir_(std::move(cache_dir)),
        security_(std::move(security)),
        fetch_(std::move(fetch)) {}

  // A folder in which all parts that the spec's tensors name can be opened: the models folder,
  // where a hub's parts go, too, or, where others are missing and there are sources, one in the
  // cache.
  absl::StatusOr<std::string> Provide(const engine::StageSpec& spec,
                                      const std::vector<std::string>& sources,
                                      const LoadProgress& progress);

  uint64_t bytes_received() const { return bytes_received_; }

  // Below the user's cache folder.
  static std::string DefaultCacheDir();

 private:
  absl::Status FetchWhole(const std::string& model, const std::vector<engine::PartFile>& parts,
                          const LoadProgress& progress);

  const std::string models_dir_;
  const std::string cache_dir_;
  const wire::Security security_;
  const HubFetch fetch_;
  std::atomic<uint64_t> bytes_received_ = 0;
};

}  // namespace baton::worker
