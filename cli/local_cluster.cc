// A whole cluster without a network: the coordinator and its workers, in this process, through the
// same interfaces.
#include <absl/time/clock.h>

#include <filesystem>

#include "cli/answer_source.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/local_model.h"
#include "coordinator/coordinator.h"
#include "engine/arch/hyperparams.h"
#include "worker/engine_stage.h"
#include "worker/local_connector.h"

namespace baton::cli {
namespace {

class LocalCluster : public AnswerSource {
 public:
  ~LocalCluster() override {
    if (coordinator_ != nullptr) coordinator_->Shutdown();
  }
  coordinator::LlmService* service() override { return coordinator_->service(); }

  absl::Status Start(const coordinator::Topology& topology, const ModelFlags& flags) {
    for (const coordinator::WorkerEntry& entry : topology.workers) {
      auto loader = worker::EngineStageLoader::Make({.models_dir = entry.models,
                                                     .device = flags.device,
                                                     .threads = flags.threads,
                                                     .mlock = false});
      if (!loader.ok()) return WithExitCode(loader.status(), kUsage);
      worker::WorkerOptions options;
      options.name = entry.name;
      connector_.Add(entry.address, std::move(options), *std::move(loader));
    }
    auto created = coordinator::Coordinator::Create(topology, &connector_);
    if (!created.ok()) return AsBadData(created.status());
    coordinator_ = *std::move(created);
    coordinator_->Start();
    return coordinator_->WaitReady(absl::InfiniteFuture());
  }

 private:
  worker::LocalConnector connector_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;  // goes before the connector
};

// What a topology file would say of such a cluster.
absl::StatusOr<coordinator::Topology> MakeTopology(const ModelFlags& flags) {
  coordinator::Topology topology;
  ASSIGN_OR_RETURN(const auto file, OpenModelFile(flags.model));
  const auto hyperparams = engine::ParseHyperParams(*file);
  if (!hyperparams.ok()) return AsBadData(hyperparams.status());
  ASSIGN_OR_RETURN(const auto stages, StagesOf(flags, hyperparams->num_layers));
  ASSIGN_OR_RETURN(topology.kv_type, ParseKvType("--kv-type", flags.kv_type));
  const std::filesystem::path path = file->parts()[0].path;
  topology.model = path.string();
  topology.context = flags.context;
  topology.sequences = 1;
  topology.limits.chunk_rows = flags.chunk;
  for (size_t i = 0; i < stages.size(); ++i) {
    coordinator::WorkerEntry entry;
    entry.name = fmt::format("stage-{}", i);
    entry.address = fmt::format("stage-{}", i);
    entry.layers = stages[i];
    entry.threads = flags.threads;
    entry.device = flags.device;
    entry.models = path.has_parent_path() ? path.parent_path().string() : ".";
    topology.workers.push_back(std::move(entry));
  }
  return topology;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AnswerSource>> StartLocalCluster(const ModelFlags& flags) {
  ASSIGN_OR_RETURN(const coordinator::Topology topology, MakeTopology(flags));
  auto cluster = std::make_unique<LocalCluster>();
  RETURN_IF_ERROR(cluster->Start(topology, flags));
  return cluster;
}

absl::StatusOr<std::unique_ptr<AnswerSource>> OpenAnswerSource(const ModelFlags& flags,
                                                               const ServerFlags& server) {
  if (server.given()) return ConnectToServer(server);
  if (flags.model.empty()) return UsageError("--model or --server: one of them is needed");
  return StartLocalCluster(flags);
}

}  // namespace baton::cli
