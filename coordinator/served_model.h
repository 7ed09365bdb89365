// The model as the coordinator sees it: headers, vocabulary, template. No weights.
//
// Owner: the coordinator. Immutable after Open, any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/cluster_status.h"
#include "coordinator/generation.h"
#include "coordinator/topology.h"
#include "engine/arch/cost.h"
#include "engine/arch/hyperparams.h"
#include "engine/base/status.h"
#include "engine/gguf/gguf_file.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"

namespace baton::coordinator {

class ServedModel {
 public:
  static absl::StatusOr<std::unique_ptr<ServedModel>> Open(const Topology& topology);

  const engine::GgufModel& file() const { return file_; }
  const engine::HyperParams& hyperparams() const { return hyperparams_; }
  const engine::ModelCost& cost() const { return cost_; }
  const engine::Tokenizer& tokenizer() const { return *tokenizer_; }
  const ModelSummary& summary() const { return summary_; }

  // The prompt's token ids. InvalidArgument where there is nothing to begin with.
  absl::StatusOr<std::vector<engine::TokenId>> Encode(const GenerationRequest& request) const;
  absl::StatusOr<engine::PromptText> RenderChat(const ChatPrompt& prompt) const;

 private:
  explicit ServedModel(engine::GgufModel file) : file_(std::move(file)) {}
  absl::Status ReadTemplate();
  void Summarize(const Topology& topology);

  engine::GgufModel file_;
  engine::HyperParams hyperparams_;
  engine::ModelCost cost_;
  std::unique_ptr<engine::Tokenizer> tokenizer_;
  std::optional<engine::ChatTemplate> template_;
  absl::Status template_error_;  // why there is none
  ModelSummary summary_;
};

}  // namespace baton::coordinator
