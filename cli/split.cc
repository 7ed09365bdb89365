// baton split and baton merge: one model as files that fit their hosts, and back.
#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "coordinator/model_placer.h"
#include "coordinator/planner.h"
#include "coordinator/topology.h"
#include "engine/arch/hyperparams.h"
#include "engine/arch/tensor_table.h"
#include "engine/base/quote.h"
#include "engine/gguf/gguf_file.h"
#include "engine/gguf/split_name.h"
#include "engine/gguf/split_plan.h"
#include "engine/gguf/split_writer.h"
#include "engine/gguf/tensor_layer.h"

namespace baton::cli {
namespace {

namespace fs = std::filesystem;
using engine::GgufModel;
using engine::LayerRange;
using engine::SplitPlan;
using engine::WrittenPart;
using Json = nlohmann::ordered_json;

struct SplitFlags {
  std::string model;
  std::string folder;
  size_t num_parts = 0;
  std::string part_size;
  std::string layers;
  std::string topology;
  bool json = false;
};

struct MergeFlags {
  std::string first_part;
  std::string output;
  bool json = false;
};

// The tensors that a stage of those layers needs, as indices.
absl::StatusOr<std::vector<size_t>> StageTensors(const GgufModel& model,
                                                 const engine::HyperParams& hyperparams,
                                                 LayerRange layers) {
  const auto find = [&](std::string_view name) { return model.FindTensor(name); };
  ASSIGN_OR_RETURN(const auto found,
                   engine::FindStageTensors(hyperparams, layers, find, model.parts()[0].file_name));
  std::vector<size_t> indices;
  for (const engine::FoundTensor& tensor : found) {
    indices.push_back(static_cast<size_t>(tensor.info - model.tensors().data()));
  }
  return indices;
}

absl::StatusOr<SplitPlan> PlanByLayers(const GgufModel& model,
                                       const std::vector<LayerRange>& ranges) {
  const auto parsed = engine::ParseHyperParams(model);
  if (!parsed.ok()) return AsBadData(parsed.status());
  const engine::HyperParams& hyperparams = *parsed;
  if (ranges.front().begin != 0 || ranges.back().end != hyperparams.num_layers) {
    return UsageError("layers {}-{}, expected 0-{}: all layers of the model", ranges.front().begin,
                      ranges.back().end - 1, hyperparams.num_layers - 1);
  }
  std::vector<std::vector<size_t>> stages;
  for (const LayerRange& range : ranges) {
    ASSIGN_OR_RETURN(std::vector<size_t> tensors, StageTensors(model, hyperparams, range));
    stages.push_back(std::move(tensors));
  }
  return engine::SplitByStages(model.tensors(), stages);
}

// The stages that `baton plan` gives a topology, for this model.
absl::StatusOr<std::vector<LayerRange>> RangesOfTopology(const std::string& file,
                                                         const std::string& model) {
  ASSIGN_OR_RETURN(coordinator::Topology topology, coordinator::LoadTopology(file));
  topology.model = model;
  ASSIGN_OR_RETURN(const auto offline, coordinator::PlanOffline(topology));
  if (!offline.plan.fits) {
    return WithHint(InvalidArgument("{}: the model does not fit its workers", engine::Named(file)),
                    fmt::format("baton plan -f {} says what is missing", engine::Escaped(file)));
  }
  std::vector<LayerRange> ranges;
  for (const coordinator::PlanStage& stage : offline.plan.stages) ranges.push_back(stage.layers);
  return ranges;
}

absl::StatusOr<SplitPlan> PlanOf(const GgufModel& model, const SplitFlags& flags) {
  if (flags.num_parts > 0) return engine::SplitByCount(model.tensors(), flags.num_parts);
  if (!flags.part_size.empty()) {
    ASSIGN_OR_RETURN(const uint64_t bytes, ParseSize("--part-size", flags.part_size));
    return engine::SplitBySize(model.tensors(), bytes);
  }
  ASSIGN_OR_RETURN(const auto ranges, flags.topology.empty()
                                          ? ParseLayerRanges("--layers", flags.layers)
                                          : RangesOfTopology(flags.topology, flags.model));
  return PlanByLayers(model, ranges);
}

// "FOLDER/NAME" for the model FOLDER2/NAME.gguf or its split set.
std::string PrefixOf(const std::string& model, const std::string& folder) {
  const auto split = engine::ParseSplitName(model);
  const fs::path name = split ? fs::path(split->prefix).filename() : fs::path(model).stem();
  return (fs::path(folder) / name).string();
}

// From the first to the last layer of which the part has a tensor.
std::optional<LayerRange> LayersOf(const GgufModel& model, const std::vector<size_t>& tensors) {
  std::optional<LayerRange> layers;
  for (const size_t index : tensors) {
    const auto layer = engine::LayerOfTensor(model.tensors()[index].name);
    if (!layer) continue;
    if (!layers) layers = LayerRange{*layer, *layer + 1};
    layers->begin = std::min(layers->begin, *layer);
    layers->end = std::max(layers->end, *layer + 1);
  }
  return layers;
}

Json PartJson(const WrittenPart& part, const std::optional<LayerRange>& layers) {
  Json json = {{"file", part.path},
               {"bytes", part.bytes},
               {"tensors", part.num_tensors},
               {"layers", nullptr},
               {"xxh3", fmt::format("{:016x}", part.xxh3)},
               {"kept", part.was_there}};
  if (layers) json["layers"] = {{"begin", layers->begin}, {"end", layers->end}};
  return json;
}

std::string PartLine(const WrittenPart& part, const std::optional<LayerRange>& layers) {
  const std::string range =
      layers ? fmt::format("layers {}-{}", layers->begin, layers->end - 1) : "no layers";
  return fmt::format("{}  {}, {} tensors, {} bytes ({:.1f} MB){}\n", engine::Escaped(part.path),
                     range, part.num_tensors, part.bytes, static_cast<double>(part.bytes) / 1e6,
                     part.was_there ? ", was there" : "");
}

absl::Status RunSplit(const SplitFlags& flags) {
  ASSIGN_OR_RETURN(const GgufModel model, GgufModel::Open(flags.model));
  ASSIGN_OR_RETURN(const SplitPlan plan, PlanOf(model, flags));
  std::error_code error;
  fs::create_directories(flags.folder, error);
  if (error) return CannotWrite("{}: {}", engine::Named(flags.folder), error.message());

  Progress bar("splitting");
  const auto parts =
      engine::WriteSplit(model, plan, PrefixOf(flags.model, flags.folder),
                         [&](uint64_t done, uint64_t total) { bar.Update(done, total); });
  if (absl::IsUnknown(parts.status())) return WithExitCode(parts.status(), kCannotWrite);
  RETURN_IF_ERROR(parts.status());

  Json json = Json::array();
  std::string text;
  for (size_t i = 0; i < parts->size(); ++i) {
    const auto layers = LayersOf(model, plan[i]);
    json.push_back(PartJson((*parts)[i], layers));
    text += PartLine((*parts)[i], layers);
  }
  return flags.json ? PrintJson({{"parts", json}}) : Print(text);
}

absl::Status RunMerge(const MergeFlags& flags) {
  ASSIGN_OR_RETURN(const GgufModel model, GgufModel::Open(flags.first_part));
  Progress bar("merging");
  const auto merged = engine::WriteMerged(
      model, flags.output, [&](uint64_t done, uint64_t total) { bar.Update(done, total); });
  if (absl::IsUnknown(merged.status())) return WithExitCode(merged.status(), kCannotWrite);
  RETURN_IF_ERROR(merged.status());

  std::vector<size_t> all(model.tensors().size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  const auto layers = LayersOf(model, all);
  return flags.json ? PrintJson(PartJson(*merged, layers)) : Print(PartLine(*merged, layers));
}

}  // namespace

CommandBody DefineSplit(CLI::App& app) {
  auto flags = std::make_shared<SplitFlags>();
  app.add_option("model", flags->model, "GGUF file, or first part of a split set")->required();
  auto* how = app.add_option_group("how", "Where to cut");
  how->add_option("--parts", flags->num_parts, "So many parts of about equal size")
      ->check(CLI::Range(1, 65535));
  how->add_option("--part-size", flags->part_size, "Parts of at most that size: 2GB, 500MiB");
  how->add_option("--layers", flags->layers, "A part for each stage: 0-14,15-29");
  how->add_option("-f,--file", flags->topology,
                  "A part for each stage that the topology file gets");
  how->require_option(1);
  app.add_option("-o,--output", flags->folder, "Folder for the parts")->required();
  app.add_flag("--json", flags->json, "One JSON document");
  return [flags] { return RunSplit(*flags); };
}

CommandBody DefineMerge(CLI::App& app) {
  auto flags = std::make_shared<MergeFlags>();
  app.add_option("first_part", flags->first_part, "First part of a split set")->required();
  app.add_option("-o,--output", flags->output, "GGUF file to write")->required();
  app.add_flag("--json", flags->json, "One JSON document");
  return [flags] { return RunMerge(*flags); };
}

}  // namespace baton::cli
