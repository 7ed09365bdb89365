// Hundreds of requests through a whole cluster of real stages in one process, under everything at
// once: stages of different instruction sets, micro-batches, chunks, shared prefixes, guesses, few
// KV blocks, a worker that dies. Each has the bits of a run alone, unsplit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <thread>

#include "coordinator/coordinator.h"
#include "kernels/cpu/dispatch.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "worker/engine_stage.h"
#include "worker/local_connector.h"

namespace baton {
namespace {

using coordinator::GenerationChunk;
using coordinator::GenerationQueue;
using coordinator::GenerationRequest;
using engine::TokenId;

constexpr int kRequests = 300;
constexpr int32_t kContext = 256;
constexpr absl::Duration kPatience = absl::Seconds(120);

// A coordinator with workers in this process, one a stage.
class Cluster {
 public:
  Cluster(const std::string& model, const std::vector<std::string>& isas, int32_t sequences)
      : model_folder_(std::filesystem::path(model).parent_path()), isas_(isas) {
    topology_.model = model;
    topology_.context = kContext;
    topology_.sequences = sequences;
    topology_.journal = coordinator::kNoJournal;
    for (size_t i = 0; i < isas.size(); ++i) {
      coordinator::WorkerEntry entry;
      entry.name = entry.address = fmt::format("stage-{}", i);
      topology_.workers.push_back(entry);
      AddWorker(i);
    }
  }
  ~Cluster() {
    if (coordinator_ != nullptr) coordinator_->Shutdown();
  }

  void AddWorker(size_t index) {
    setenv("BATON_ISA", isas_[index].c_str(), 1);
    auto loader = worker::EngineStageLoader::Make(
        {.models_dir = model_folder_, .device = "cpu", .threads = 1});
    unsetenv("BATON_ISA");
    ASSERT_TRUE(loader.ok()) << loader.status();
    connector_.Add(topology_.workers[index].address, {.name = topology_.workers[index].name},
                   *std::move(loader));
  }
  void Restart(size_t index) {
    connector_.Remove(topology_.workers[index].address);
    AddWorker(index);
  }

  coordinator::Topology& topology() { return topology_; }
  coordinator::LlmService* Start() {
    auto made = coordinator::Coordinator::Create(topology_, &connector_);
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) return nullptr;
    coordinator_ = *std::move(made);
    coordinator_->Start();
    EXPECT_EQ(coordinator_->WaitReady(absl::Now() + kPatience), absl::OkStatus());
    return coordinator_->service();
  }

 private:
  const std::string model_folder_;
  const std::vector<std::string> isas_;
  coordinator::Topology topology_;
  worker::LocalConnector connector_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
};

// The answer to one request as it comes.
class Answer {
 public:
  Answer(coordinator::LlmService* service, const GenerationRequest& request) {
    const auto id = service->Generate(
        request, [queue = queue_](GenerationChunk chunk) { queue->Push(std::move(chunk)); });
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) whole_.finish = coordinator::FinishReason::kError;
  }
  const GenerationChunk& Wait() {
    while (!whole_.last()) {
      auto chunk = queue_->Next(absl::Now() + kPatience);
      if (!chunk) {
        ADD_FAILURE() << "a request hangs";
        break;
      }
      coordinator::Append(*std::move(chunk), &whole_);
    }
    return whole_;
  }

 private:
  const std::shared_ptr<GenerationQueue> queue_ = std::make_shared<GenerationQueue>();
  GenerationChunk whole_;
};

// Prompts that share beginnings, of some words that come again; greedy and drawn, with penalties.
std::vector<GenerationRequest> DrawRequests() {
  std::mt19937 random(20261130);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<>(low, high)(random);
  };
  const auto token = [&] { return static_cast<TokenId>(draw(3, testing::kTinyVocabSize - 1)); };
  std::vector<std::vector<TokenId>> beginnings(4);
  for (auto& beginning : beginnings) {
    for (int i = draw(40, 110); i > 0; --i) beginning.push_back(token());
  }
  std::vector<GenerationRequest> requests(kRequests);
  for (GenerationRequest& request : requests) {
    std::vector<TokenId> ids;
    if (draw(0, 2) > 0) ids = beginnings[draw(0, 3)];
    const std::vector<TokenId> words = {token(), token(), token()};
    for (int i = draw(1, 40); i > 0; --i) ids.push_back(draw(0, 1) ? words[i % 3] : token());
    request.prompt = coordinator::TokenPrompt{std::move(ids)};
    request.max_tokens = draw(1, 48);
    request.ignore_eos = true;
    request.sampling.temperature = draw(0, 1) ? 0.0f : 8.0f;
    request.sampling.top_logprobs = 0;
    if (draw(0, 3) == 0) request.sampling.repetition_penalty = 1.2f;
    if (draw(0, 3) == 0) request.sampling.frequency_penalty = 0.4f;
    request.sampling.seed = random();
    request.has_seed = true;
    request.priority = draw(0, 1);
  }
  return requests;
}

void ExpectSameBits(const GenerationChunk& got, const GenerationChunk& want, int index) {
  ASSERT_EQ(got.status, absl::OkStatus()) << index;
  ASSERT_EQ(got.tokens.size(), want.tokens.size()) << index;
  for (size_t i = 0; i < want.tokens.size(); ++i) {
    ASSERT_EQ(got.tokens[i].id, want.tokens[i].id) << index << ", token " << i;
    ASSERT_EQ(std::bit_cast<uint32_t>(got.tokens[i].logprob),
              std::bit_cast<uint32_t>(want.tokens[i].logprob))
        << index << ", token " << i;
  }
}

TEST(AnyManner, GivesTheBitsOfARunAlone) {
  const testing::TempDir dir;
  const std::string model = dir.File("tiny.gguf");
  ASSERT_TRUE(testing::WriteTinyModel(
                  {.type = kernels::QuantType::kQ4_0, .context_length = kContext}, model)
                  .ok());
  std::vector<std::string> isas;
  for (const kernels::Isa& isa : kernels::KnownIsas()) {
    if (isa.supported) isas.emplace_back(isa.name);
  }
  const std::vector<GenerationRequest> requests = DrawRequests();

  std::vector<GenerationChunk> expected;
  {
    Cluster alone(model, {isas.back()}, 1);
    alone.topology().prefix_cache = false;
    alone.topology().speculation = false;
    coordinator::LlmService* service = alone.Start();
    ASSERT_NE(service, nullptr);
    for (const GenerationRequest& request : requests)
      expected.push_back(Answer(service, request).Wait());
  }

  Cluster cluster(model, {isas[0], isas[1 % isas.size()], isas.back()}, 8);
  cluster.topology().limits.kv_blocks = 24;  // three full contexts for eight sequences
  cluster.topology().limits.batch_rows = 64;
  coordinator::LlmService* service = cluster.Start();
  ASSERT_NE(service, nullptr);
  std::vector<Answer> answers;
  for (int i = 0; i < kRequests; ++i) {
    if (i == kRequests / 2) cluster.Restart(1);
    answers.emplace_back(service, requests[i]);
    if (i % 8 == 7) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (int i = 0; i < kRequests; ++i) ExpectSameBits(answers[i].Wait(), expected[i], i);

  const coordinator::ClusterStatus status = service->cluster();
  EXPECT_EQ(status.pipeline.stages.size(), 3u);
  const coordinator::SchedulerStats& stats = status.pipeline.scheduler;
  EXPECT_GT(stats.cached_tokens, 0u);
  EXPECT_GT(stats.preemptions, 0u);
  EXPECT_GT(stats.accepted_tokens, 0u);
  EXPECT_GT(status.state.losses, 0u);
}

}  // namespace
}  // namespace baton
