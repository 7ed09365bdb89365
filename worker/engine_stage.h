// The engine's stages behind the worker's seam.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/base/status.h"
#include "proto/security.h"
#include "worker/models_folder.h"
#include "worker/part_store.h"
#include "worker/stage_runner.h"

namespace baton::worker {

struct EngineStageOptions {
  std::string models_dir = ".";
  std::string device = "auto";
  int threads = 0;  // 0: as many as the process may use
  bool mlock = false;
  std::string cache_dir = "";    // for parts that are fetched; empty: PartStore::DefaultCacheDir()
  wire::Security security = {};  // towards the workers that they are fetched from
  HubFetch hub_fetch = {};       // empty: nothing comes from a hub
};

// Loads stages from a models folder for one backend. The stages must not outlive it.
class EngineStageLoader : public StageLoader {
 public:
  // InvalidArgument names an unknown device or instruction set.
  static absl::StatusOr<std::unique_ptr<EngineStageLoader>> Make(EngineStageOptions options);

  std::optional<engine::DeviceMemory> device_memory() const override {
    return backend_->device_memory();
  }
  std::string device() const override { return std::string(backend_->device()); }
  std::string backend() const override { return std::string(backend_->name()); }
  int threads() const override { return options_.threads; }
  uint64_t weight_bytes_received() const override { return store_.bytes_received(); }
  std::vector<engine::PartFile> files() const override { return folder_.Files(); }
  absl::StatusOr<engine::StageMemory> MemoryOf(const engine::StageSpec& spec) const override {
    return engine::Stage::MemoryOf(spec);
  }

  absl::StatusOr<std::unique_ptr<StageRunner>> Load(const engine::StageSpec& spec,
                                                    const std::vector<std::string>& part_sources,
                                                    const LoadProgress& progress) override;

 private:
  EngineStageLoader(EngineStageOptions options, std::unique_ptr<engine::Backend> backend)
      : options_(std::move(options)),
        backend_(std::move(backend)),
        folder_(options_.models_dir),
        store_(options_.models_dir,
               options_.cache_dir.empty() ? PartStore::DefaultCacheDir() : options_.cache_dir,
               options_.security, options_.hub_fetch) {}

  const EngineStageOptions options_;
  const std::unique_ptr<engine::Backend> backend_;
  const ModelsFolder folder_;
  std::unique_ptr<engine::Backend> host_;  // for layers that don't go to the device; made for them
  PartStore store_;
};

}  // namespace baton::worker
