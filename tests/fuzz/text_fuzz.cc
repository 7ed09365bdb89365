// Any bytes as files and bodies of text: a topology, a request of OpenAI's API, a journal, a file
// of API keys, a JSON schema.
#include <algorithm>
#include <string>

#include "coordinator/api_keys.h"
#include "coordinator/open_request.h"
#include "coordinator/openai_api.h"
#include "coordinator/request_check.h"
#include "coordinator/topology.h"
#include "engine/sampling/grammar.h"
#include "tests/fuzz/target.h"

namespace baton::fuzz {
namespace {

using namespace coordinator;

constexpr int32_t kVocabSize = 300;

bool InRange(float value, float low, float high) { return value >= low && value <= high; }

void CheckRequest(const GenerationRequest& request) {
  if (!CheckGenerationRequest(request, kVocabSize).ok()) return;
  const engine::SamplingParams& sampling = request.sampling;
  Require(InRange(sampling.temperature, 0, 1e30f));
  Require(InRange(sampling.top_p, 0, 1) && InRange(sampling.min_p, 0, 1));
  Require(sampling.top_logprobs <= kMaxTopLogprobs && sampling.logit_bias.size() <= kMaxLogitBias);
  for (const auto& [token, bias] : sampling.logit_bias) Require(token >= 0 && token < kVocabSize);
  for (const std::string& stop : request.stop) Require(!stop.empty());
}

}  // namespace

void FuzzTopology(std::string_view input) {
  const auto topology = ParseTopology(input, "/folder/fuzz.yaml");
  if (!topology.ok()) {
    Require(Message(topology.status()).starts_with("/folder/fuzz.yaml"));
    return;
  }
  Require(!topology->model.empty() && !topology->workers.empty());
  Require(topology->sequences > 0 && topology->context >= 0 && topology->limits.queue > 0);
  for (const WorkerEntry& worker : topology->workers) {
    Require(!worker.name.empty() && !worker.address.empty());
    if (worker.layers)
      Require(worker.layers->begin >= 0 && worker.layers->end > worker.layers->begin);
  }
}

void FuzzOpenAi(std::string_view input) {
  for (const OpenAiEndpoint endpoint : {OpenAiEndpoint::kChat, OpenAiEndpoint::kCompletion}) {
    const auto call = ParseOpenAiCall(endpoint, input);
    if (!call.ok()) {
      Require(ToOpenAiError(call.status()).http_status == 400);
      if (Message(call.status()).starts_with("body: ")) return;  // to no endpoint
      continue;
    }
    Require(!call->requests.empty());
    for (const GenerationRequest& request : call->requests) CheckRequest(request);
  }
}

void FuzzJournal(std::string_view input) {
  for (const auto& [id, request] : ReadJournal(input, "model")) {
    // What is read can be written, and is then read as the same.
    const std::string again = JournalHeadLine("model") + JournalOpenLine(id, request);
    const auto open = ReadJournal(again, "model");
    if (open.empty()) continue;  // ids and stop strings that are not UTF-8 do not come back
    Require(open.begin()->second.prompt == request.prompt);
    Require(open.begin()->second.answer == request.answer);
    Require(open.begin()->second.sampling.seed == request.sampling.seed);
  }
}

void FuzzApiKeys(std::string_view input) {
  const auto keys = ParseApiKeys(input, "keys");
  if (!keys.ok()) Require(Message(keys.status()).size() < 200);  // it repeats nothing of the file
}

// The schema, a line end, and an answer to it.
void FuzzGrammar(std::string_view input) {
  const size_t line_end = std::min(input.find('\n'), input.size());
  const auto grammar = engine::Grammar::FromJsonSchema(input.substr(0, line_end));
  if (!grammar.ok()) return;
  engine::GrammarState state(*grammar);
  for (const char byte : input.substr(std::min(line_end + 1, input.size()))) {
    const bool alive = state.AdvanceByte(static_cast<uint8_t>(byte));
    Require(alive != state.dead());
    if (!alive) return;
    Require(state.stacks().size() < 10'000);
  }
}

}  // namespace baton::fuzz
