#include "worker/engine_stage.h"

#include <utility>

#include "engine/runtime/stage.h"
#include "worker/part_watch.h"

namespace baton::worker {
namespace {

class EngineStageRunner : public StageRunner {
 public:
  EngineStageRunner(std::unique_ptr<engine::Stage> stage, PartWatch parts) : stage_(std::move(stage)), parts_(std::move(parts)) {}

  bool first() const override { return stage_->first(); }
  bool last() const override { return stage_->last(); }
  int32_t hidden_size() const override { return stage_->hyperparams().hidden_size; }
  engine::MicroBatchLimits limits() const override { return stage_->limits(); }
  uint64_t weights_bytes() const override { return stage_->weights_bytes(); }
  uint64_t kv_bytes() const override { return stage_->kv_bytes(); }
  std::vector<std::string> warnings() const override { return stage_->warnings(); }
  absl::Status Run(const engine::MicroBatch& batch, const engine::HiddenStates* input, engine::StageOutput* output) override {
    return stage_->Run(batch, input, output);
  }
  absl::Status CheckFiles() override { return parts_.Check(); }

 private:
  const std::unique_ptr<engine::Stage> stage_;
  const PartWatch parts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EngineStageLoader>> EngineStageLoader::Make(EngineStageOptions options) {
  ASSIGN_OR_RETURN(auto backend, engine::MakeBackend({.device = options.device, .threads = options.threads}));
  return std::unique_ptr<EngineStageLoader>(new EngineStageLoader(std::move(options), std::move(backend)));
}

absl::StatusOr<std::unique_ptr<StageRunner>> EngineStageLoader::Load(const engine::StageSpec& spec,
                                                                     const std::vector<std::string>& part_sources,
                                                                     const LoadProgress& progress) {
  (void)part_sources;
  ASSIGN_OR_RETURN(PartWatch parts, PartWatch::Start(spec, options_.models_dir));
  engine::LoadOptions options{.models_dir = options_.models_dir, .mlock = options_.mlock, .progress = {}};
  bool wanted = true;
  if (progress) options.progress = [&](uint64_t done, uint64_t total) { wanted = wanted && progress(done, total); };
  ASSIGN_OR_RETURN(auto stage, engine::Stage::Load(spec, options, backend_.get()));
  if (!wanted) return Cancelled("loading was given up");
  return std::make_unique<EngineStageRunner>(std::move(stage), std::move(parts));
}

}  // namespace baton::worker
