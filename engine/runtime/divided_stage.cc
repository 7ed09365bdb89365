#include "engine/runtime/divided_stage.h"

#include <algorithm>
#include <utility>

namespace baton::engine {
absl::StatusOr<std::unique_ptr<DividedStage>> DividedStage::Load(const StageSpec& spec,
                                                                 const LoadOptions& options,
                                                                 Backend* device, Backend* host) {
  std::unique_ptr<DividedStage> stage(new DividedStage);
  if (spec.host_layers == 0 || spec.layers.size() <= 0) {  // no layers: refused there
    ASSIGN_OR_RETURN(auto whole, Stage::Load(spec, options, device));
    stage->parts_.push_back(std::move(whole));
    return stage;
  }
  const int32_t end = spec.layers.end;
  const bool as_few_as_fit = spec.host_layers == StageSpec::kAsFewAsFit;
  uint64_t done_before = 0;
  const auto load = [&](LayerRange layers,
                        Backend* backend) -> absl::StatusOr<std::unique_ptr<Stage>> {
    ASSIGN_OR_RETURN(const StageSpec narrow, NarrowSpec(spec, layers));
    LoadOptions part = options;
    if (options.progress) {
      part.progress = [&](uint64_t done, uint64_t /*total*/) {
        return options.progress(std::min(done_before + done, WeightsBytes(spec)),
                                WeightsBytes(spec));
      };
    }
    ASSIGN_OR_RETURN(auto loaded, Stage::Load(narrow, part, backend));
    done_before += WeightsBytes(narrow);
    return loaded;
  };

  int32_t begin = spec.layers.begin + std::clamp(spec.host_layers, 0, spec.layers.size());
  for (; begin < end; ++begin) {
    absl::StatusOr<std::unique_ptr<Stage>> part = load({begin, end}, device);
    if (part.ok()) {
      stage->parts_.push_back(*std::move(part));
      break;
    }
    // Nothing was copied to a device that has said so: the room is counted first.
    if (!as_few_as_fit || !absl::IsResourceExhausted(part.status())) return part.status();
  }
  stage->num_host_layers_ = begin - spec.layers.begin;
  if (begin > spec.layers.begin) {
    ASSIGN_OR_RETURN(auto part, load({spec.layers.begin, begin}, host));
    stage->parts_.insert(stage->parts_.begin(), std::move(part));
  }
  return stage;
}

uint64_t DividedStage::weights_bytes() const {
  uint64_t bytes = 0;
  for (const auto& part : parts_) bytes += part->weights_bytes();
  return bytes;
}

uint64_t DividedStage::kv_bytes() const {
  uint64_t bytes = 0;
  for (const auto& part : parts_) bytes += part->kv_bytes();
  return bytes;
}

std::vector<std::string> DividedStage::warnings() const {
  std::vector<std::string> warnings;
  for (const auto& part : parts_)
    warnings.insert(warnings.end(), part->warnings().begin(), part->warnings().end());
  return warnings;
}

absl::Status DividedStage::Run(const MicroBatch& batch, const HiddenStates* input,
                               StageOutput* output) {
  if (parts_.size() == 1) return parts_[0]->Run(batch, input, output);
  RETURN_IF_ERROR(parts_[0]->Run(batch, input, &between_));
  return parts_[1]->Run(batch, &between_.hidden, output);
}

uint64_t DividedStage::kv_block_bytes() const {
  uint64_t bytes = 0;
  for (const auto& part : parts_) bytes += part->kv_block_bytes();
  return bytes;
}

absl::Status DividedStage::ReadKvBlock(int32_t block, std::span<std::byte> bytes) const {
  for (const auto& part : parts_) {
    const auto size = static_cast<size_t>(part->kv_block_bytes());
    RETURN_IF_ERROR(part->ReadKvBlock(block, bytes.first(size)));
    bytes = bytes.subspan(size);
  }
  return absl::OkStatus();
}

absl::Status DividedStage::WriteKvBlock(int32_t block, std::span<const std::byte> bytes) {
  for (const auto& part : parts_) {
    const auto size = static_cast<size_t>(part->kv_block_bytes());
    RETURN_IF_ERROR(part->WriteKvBlock(block, bytes.first(size)));
    bytes = bytes.subspan(size);
  }
  return absl::OkStatus();
}

}  // namespace baton::engine
