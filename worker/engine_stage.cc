#include "worker/engine_stage.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "engine/runtime/divided_stage.h"
#include "worker/bus_error.h"
#include "worker/part_watch.h"

namespace baton::worker {
namespace {

class EngineStageRunner : public StageRunner {
 public:
  EngineStageRunner(std::unique_ptr<engine::DividedStage> stage, PartWatch parts,
                    uint64_t bus_errors, std::string storage)
      : stage_(std::move(stage)),
        parts_(std::move(parts)),
        bus_errors_(bus_errors),
        storage_(std::move(storage)) {}

  bool first() const override { return stage_->first(); }
  bool last() const override { return stage_->last(); }
  int32_t hidden_size() const override { return stage_->hyperparams().hidden_size; }
  engine::MicroBatchLimits limits() const override { return stage_->limits(); }
  uint64_t weights_bytes() const override { return stage_->weights_bytes(); }
  uint64_t kv_bytes() const override { return stage_->kv_bytes(); }
  std::vector<std::string> warnings() const override { return stage_->warnings(); }
  std::string storage() const override { return storage_; }
  int32_t num_host_layers() const override { return stage_->num_host_layers(); }
  absl::Status Run(const engine::MicroBatch& batch, const engine::HiddenStates* input,
                   engine::StageOutput* output) override {
    RETURN_IF_ERROR(stage_->Run(batch, input, output));
    return CheckMappings();  // zeros may have stood in for weights
  }
  bool overlaps() const override { return stage_->overlaps(); }
  absl::Status Start(const engine::MicroBatch& batch, const engine::HiddenStates* input) override {
    return stage_->Start(batch, input);
  }
  absl::Status Finish(engine::StageOutput* output) override {
    RETURN_IF_ERROR(stage_->Finish(output));
    return CheckMappings();
  }
  uint64_t kv_block_bytes() const override { return stage_->kv_block_bytes(); }
  absl::Status ReadKvBlock(int32_t block, std::span<std::byte> bytes) const override {
    return stage_->ReadKvBlock(block, bytes);
  }
  absl::Status WriteKvBlock(int32_t block, std::span<const std::byte> bytes) override {
    return stage_->WriteKvBlock(block, bytes);
  }
  absl::Status CheckFiles() override {
    RETURN_IF_ERROR(CheckMappings());
    return parts_.Check();
  }

  absl::Status CheckMappings() const {
    if (BusErrorCount() == bus_errors_) return absl::OkStatus();
    return DataLoss("{}: the file behind the weights was cut while it was mapped", BrokenFile());
  }

 private:
  const std::unique_ptr<engine::DividedStage> stage_;
  const PartWatch parts_;
  const uint64_t bus_errors_;  // before the stage was loaded
  const std::string storage_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EngineStageLoader>> EngineStageLoader::Make(
    EngineStageOptions options) {
  HandleBusErrors();
  ASSIGN_OR_RETURN(auto backend,
                   engine::MakeBackend({.device = options.device, .threads = options.threads}));
  return std::unique_ptr<EngineStageLoader>(
      new EngineStageLoader(std::move(options), std::move(backend)));
}

absl::StatusOr<std::unique_ptr<StageRunner>> EngineStageLoader::Load(
    const engine::StageSpec& spec, const std::vector<std::string>& part_sources,
    const LoadProgress& progress) {
  const uint64_t bus_errors = BusErrorCount();
  ASSIGN_OR_RETURN(const std::string folder, store_.Provide(spec, part_sources, progress));
  // The cache's files get further ranges while they are in use.
  const bool may_grow = folder != options_.models_dir;
  ASSIGN_OR_RETURN(PartWatch parts, PartWatch::Start(spec, folder, may_grow));
  const engine::LoadOptions options{
      .models_dir = folder, .mlock = options_.mlock, .progress = progress};
  const bool divides = backend_->device_memory().has_value() && spec.host_layers != 0;
  if (divides && host_ == nullptr) {
    ASSIGN_OR_RETURN(host_, engine::MakeBackend({.device = "cpu", .threads = options_.threads}));
  }
  // Without a device, all layers are on the host and there is nothing to divide.
  engine::StageSpec undivided = spec;
  undivided.host_layers = 0;
  ASSIGN_OR_RETURN(auto stage, engine::DividedStage::Load(divides ? spec : undivided, options,
                                                          backend_.get(), host_.get()));
  if (divides) {
    spdlog::info("{} of {} layers stay on the host, the others are on {}", stage->num_host_layers(),
                 spec.layers.size(), device());
  }
  std::string storage = backend_->device_memory()   ? fmt::format("on {}", device())
                        : !options_.mlock           ? "mapped"
                        : stage->warnings().empty() ? "mapped and locked"
                                                    : "mapped, not locked";
  auto runner = std::make_unique<EngineStageRunner>(std::move(stage), std::move(parts), bus_errors,
                                                    std::move(storage));
  RETURN_IF_ERROR(runner->CheckMappings());
  return runner;
}

}  // namespace baton::worker
