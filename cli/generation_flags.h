// Flags of `run` and `chat`: how tokens are drawn and when an answer ends.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/generation.h"
#include "engine/base/status.h"

namespace baton::cli {

struct GenerationFlags {
  engine::SamplingParams sampling;
  std::optional<uint64_t> seed;
  std::optional<int32_t> max_tokens;
  std::vector<std::string> stop;
  std::vector<std::string> logit_bias;  // "ID=BIAS"
  bool ignore_eos = false;
  std::string timeout;
  std::string json_schema;
};

void AddGenerationFlags(CLI::App& app, GenerationFlags& flags);
// A request with everything but its prompt; usage errors.
absl::StatusOr<coordinator::GenerationRequest> MakeRequest(const GenerationFlags& flags);

}  // namespace baton::cli
