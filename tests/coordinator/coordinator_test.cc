#include "coordinator/coordinator.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/fake_worker.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_data.h"

namespace baton::coordinator {
namespace {

using engine::TokenId;
using testing::FakeCluster;
using testing::FakeContinuation;
using testing::FakeModel;

constexpr FakeModel kModel{.vocab_size = 512, .num_layers = 3};

class CoordinatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_TEST_DATA();
    topology_.model = testing::TestDataDir() + "/conformance/models/llama.gguf";
    topology_.context = 256;
    topology_.sequences = 4;
    for (int i = 0; i < 2; ++i) {
      WorkerEntry worker;
      worker.name = fmt::format("w{}", i);
      worker.address = fmt::format("fake:{}", i + 1);
      topology_.workers.push_back(worker);
      cluster_.AddWorker(worker.address);
    }
  }
  void Start() {
    auto made = Coordinator::Create(topology_, &cluster_);
    ASSERT_TRUE(made.ok()) << made.status();
    coordinator_ = *std::move(made);
    coordinator_->Start();
    ASSERT_EQ(coordinator_->WaitReady(absl::Now() + absl::Seconds(60)), absl::OkStatus());
  }
  // The whole answer; its finish is kError where the request was refused at once.
  GenerationChunk Generate(const GenerationRequest& request) {
    auto queue = std::make_shared<GenerationQueue>();
    GenerationChunk answer;
    const auto id = coordinator_->service()->Generate(
        request, [queue](GenerationChunk chunk) { queue->Push(std::move(chunk)); });
    if (!id.ok()) {
      answer.finish = FinishReason::kError;
      answer.status = id.status();
      return answer;
    }
    while (!answer.last()) {
      auto chunk = queue->Next(absl::Now() + absl::Seconds(60));
      if (!chunk) break;
      Append(*std::move(chunk), &answer);
    }
    return answer;
  }
  static std::vector<TokenId> Ids(const GenerationChunk& answer) {
    std::vector<TokenId> ids;
    for (const GeneratedToken& token : answer.tokens) ids.push_back(token.id);
    return ids;
  }

  Topology topology_;
  FakeCluster cluster_{kModel};
  std::unique_ptr<Coordinator> coordinator_;
};

GenerationRequest Tokens(std::vector<TokenId> ids, int32_t max_tokens) {
  GenerationRequest request;
  request.prompt = TokenPrompt{std::move(ids)};
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

TEST_F(CoordinatorTest, AnswersTokens) {
  Start();
  const GenerationChunk answer = Generate(Tokens({5, 6, 7}, 20));
  EXPECT_EQ(answer.status, absl::OkStatus());
  EXPECT_EQ(Ids(answer), FakeContinuation({5, 6, 7}, 20, kModel));
  EXPECT_EQ(answer.finish, FinishReason::kLength);
  EXPECT_EQ(answer.prompt_tokens, (std::vector<TokenId>{5, 6, 7}));
  EXPECT_EQ(answer.timings.prefill_tokens, 3);
  EXPECT_EQ(answer.timings.decode_tokens, 19);
  ASSERT_EQ(answer.stages.size(), 2u);
  EXPECT_EQ(answer.stages[0].layers.begin, 0);
  EXPECT_EQ(answer.stages[1].worker, "w1");
}

TEST_F(CoordinatorTest, TextPromptsBeginAsTheModelSays) {
  Start();
  GenerationRequest request;
  request.prompt = TextPrompt{"Hello", false};
  request.max_tokens = 3;
  const GenerationChunk answer = Generate(request);
  ASSERT_EQ(answer.status, absl::OkStatus());
  ASSERT_FALSE(answer.prompt_tokens.empty());
  EXPECT_EQ(answer.prompt_tokens[0], coordinator_->service()->model().bos);
}

TEST_F(CoordinatorTest, NoTokensWanted) {
  Start();
  const GenerationChunk none = Generate(Tokens({5}, 0));
  EXPECT_EQ(none.finish, FinishReason::kLength);
  EXPECT_TRUE(none.tokens.empty());
  EXPECT_EQ(Ids(Generate(Tokens({5}, 1))).size(), 1u);
  EXPECT_EQ(Ids(Generate(Tokens({5}, 1 << 30))).size(), 255u);
}

TEST_F(CoordinatorTest, RefusedRequestsNameTheParameter) {
  Start();
  struct Case {
    std::function<void(GenerationRequest*)> change;
    std::string_view error;
  };
  const Case cases[] = {
      {[](auto* r) { r->max_tokens = -1; }, "max_tokens: -1"},
      {[](auto* r) { r->sampling.temperature = -1; }, "temperature: -1"},
      {[](auto* r) { r->sampling.temperature = std::nanf(""); }, "temperature: nan"},
      {[](auto* r) { r->sampling.top_p = 1.1f; }, "top_p: 1.1"},
      {[](auto* r) { r->sampling.min_p = -0.1f; }, "min_p: -0.1"},
      {[](auto* r) { r->sampling.top_logprobs = 21; }, "top_logprobs: 21"},
      {[](auto* r) {
         r->sampling.logit_bias = {{512, 1}};
       },
       "logit_bias: token 512"},
      {[](auto* r) { r->stop = {""}; }, "stop[0]"},
      {[](auto* r) {
         r->stop = {"a", "b", "c", "d", "e"};
       },
       "stop: 5"},
      {[](auto* r) { r->priority = 5000; }, "priority: 5000"},
      {[](auto* r) { r->prompt = TokenPrompt{}; }, "prompt: it is empty"},
      {[](auto* r) {
         r->prompt = TokenPrompt{{1, 512}};
       },
       "tokens[1]: 512, expected 0 to 511"},
      {[](auto* r) { r->prompt = TokenPrompt{{-1}}; }, "tokens[0]: -1"},
      {[](auto* r) { r->prompt = TokenPrompt{std::vector<TokenId>(256, 1)}; },
       "prompt: 256 tokens leave no room"},
      {[](auto* r) {
         r->prompt = ChatPrompt{"[]", "", ""};
       },
       "messages"},
      {[](auto* r) {
         r->prompt = ChatPrompt{"nonsense", "", ""};
       },
       "messages"},
  };
  for (const Case& test : cases) {
    GenerationRequest request = Tokens({1, 2}, 3);
    test.change(&request);
    const GenerationChunk answer = Generate(request);
    EXPECT_TRUE(absl::IsInvalidArgument(answer.status)) << answer.status;
    EXPECT_NE(Message(answer.status).find(test.error), std::string_view::npos)
        << answer.status << " wanted " << test.error;
  }
  EXPECT_EQ(Generate(Tokens({1, 2}, 3)).status, absl::OkStatus());
}

TEST_F(CoordinatorTest, DeadlineEndsARequest) {
  cluster_.SetStepTime(absl::Milliseconds(20), absl::ZeroDuration());
  Start();
  GenerationRequest request = Tokens({1}, 200);
  request.deadline = absl::Now() + absl::Milliseconds(300);
  const GenerationChunk answer = Generate(request);
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status)) << answer.status;
  EXPECT_FALSE(answer.tokens.empty());
}

TEST_F(CoordinatorTest, AnotherCoordinatorGoesOnWhereOneStopped) {
  const testing::TempDir temp;
  topology_.journal = temp.File("journal");
  cluster_.SetStepTime(absl::Milliseconds(5), absl::ZeroDuration());
  Start();
  auto queue = std::make_shared<GenerationQueue>();
  const auto push = [queue](GenerationChunk chunk) { queue->Push(std::move(chunk)); };
  ASSERT_TRUE(coordinator_->service()->Generate(Tokens({5, 6, 7}, 100), push).ok());
  GenerationChunk first;
  while (first.tokens.size() < 20) Append(*queue->Next(), &first);
  coordinator_.reset();
  while (!first.last()) Append(*queue->Next(), &first);
  EXPECT_TRUE(absl::IsUnavailable(first.status)) << first.status;

  Start();
  EXPECT_EQ(cluster_.loads("fake:1"), 1);                             // found loaded
  const int32_t has = static_cast<int32_t>(first.tokens.size()) - 5;  // the client missed some
  queue = std::make_shared<GenerationQueue>();
  const auto resumed = coordinator_->service()->Resume(
      first.request_id, has, absl::InfiniteFuture(),
      [queue](GenerationChunk chunk) { queue->Push(std::move(chunk)); });
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  GenerationChunk rest;
  while (!rest.last()) Append(*queue->Next(), &rest);
  EXPECT_EQ(rest.status, absl::OkStatus());
  std::vector<TokenId> all = Ids(first);
  all.resize(has);
  const std::vector<TokenId> more = Ids(rest);
  all.insert(all.end(), more.begin(), more.end());
  EXPECT_EQ(all, FakeContinuation({5, 6, 7}, 100, kModel));
  EXPECT_TRUE(absl::IsNotFound(
      coordinator_->service()->Resume("nobody", 0, absl::InfiniteFuture(), push).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(coordinator_->service()
                                  ->Resume(first.request_id, -1, absl::InfiniteFuture(), push)
                                  .status()));
}

TEST_F(CoordinatorTest, SaysHowItIs) {
  Start();
  ASSERT_EQ(Generate(Tokens({1, 2}, 3)).status, absl::OkStatus());
  const ClusterStatus status = coordinator_->service()->cluster();
  EXPECT_EQ(status.state.state, ClusterState::kReady);
  EXPECT_EQ(status.model.architecture, "llama");
  ASSERT_EQ(status.workers.size(), 2u);
  EXPECT_EQ(status.workers[0].state, WorkerState::kReady);
  EXPECT_GT(status.workers[1].layers.size(), 0);
}

TEST_F(CoordinatorTest, KvCacheLargerThanMemoryIsRefusedBeforeLoading) {
  topology_.context = 1 << 24;
  topology_.sequences = 64;
  auto made = Coordinator::Create(topology_, &cluster_);
  ASSERT_TRUE(made.ok()) << made.status();
  (*made)->Start();
  const absl::Status status = (*made)->WaitReady(absl::Now() + absl::Seconds(60));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_NE(Message(status).find("context"), std::string_view::npos);
  EXPECT_EQ(cluster_.loads("fake:1"), 0);
  topology_.context = 2147483647;
  EXPECT_TRUE(absl::IsInvalidArgument(Coordinator::Create(topology_, &cluster_).status()));
}

TEST_F(CoordinatorTest, ModelThatIsNotThere) {
  topology_.model = "/nowhere/m.gguf";
  const auto made = Coordinator::Create(topology_, &cluster_);
  ASSERT_FALSE(made.ok());
  EXPECT_TRUE(absl::IsNotFound(made.status()));
  EXPECT_NE(Message(made.status()).find("/nowhere/m.gguf: no such file, and no worker has m.gguf"),
            std::string_view::npos)
      << made.status();
}

}  // namespace
}  // namespace baton::coordinator
