#include "cli/load_generator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/load_report.h"

namespace baton::cli {
namespace {

using coordinator::GenerationChunk;
using coordinator::GenerationRequest;

// Answers every request with as many tokens as are asked for, at once, on a thread of its own.
class EagerService : public coordinator::LlmService {
 public:
  absl::StatusOr<uint64_t> Generate(const GenerationRequest& request,
                                    coordinator::GenerationSink sink) override {
    const auto& ids = std::get<coordinator::TokenPrompt>(request.prompt).ids;
    if (std::ssize(ids) > longest_prompt) return InvalidArgument("prompt: too long");
    most_open = std::max(most_open.load(), ++open);
    prompts.push_back(ids);
    threads_.emplace_back([this, sink = std::move(sink), count = *request.max_tokens] {
      for (int i = 0; i < count; ++i) {
        GenerationChunk chunk;
        chunk.tokens.resize(1);
        if (i + 1 == count) {
          chunk.finish = coordinator::FinishReason::kLength;
          compute_us += 100;
          --open;
        }
        sink(std::move(chunk));
      }
    });
    return prompts.size();
  }
  absl::StatusOr<uint64_t> Score(const coordinator::ScoreRequest&,
                                 coordinator::ScoreSink) override {
    return Unimplemented("score");
  }
  void Cancel(uint64_t) override {}
  absl::StatusOr<std::vector<engine::TokenId>> Tokenize(std::string_view, bool, bool) override {
    return std::vector<engine::TokenId>();
  }
  absl::StatusOr<std::string> Detokenize(std::span<const engine::TokenId>, bool) override {
    return std::string();
  }
  absl::StatusOr<RenderedChat> RenderChat(const coordinator::ChatPrompt&) override {
    return RenderedChat();
  }
  coordinator::ModelSummary model() const override {
    coordinator::ModelSummary model;
    model.vocab_size = 100;
    return model;
  }
  coordinator::ClusterStatus cluster() const override {
    coordinator::ClusterStatus status;
    status.workers.emplace_back().name = "w0";
    status.state.placement.push_back({0, {0, 4}});
    status.pipeline.stages.push_back({.steps = compute_us / 100, .compute_us = compute_us});
    return status;
  }
  absl::Status DrainWorker(std::string_view, absl::Time) override { return absl::OkStatus(); }

  int64_t longest_prompt = 1 << 20;
  std::vector<std::vector<engine::TokenId>> prompts;
  std::atomic<int> open = 0, most_open = 0;
  std::atomic<uint64_t> compute_us = 0;

 private:
  std::vector<std::jthread> threads_;
};

LengthDistribution Lengths(std::string_view text) {
  return *LengthDistribution::Parse("--prompt", text);
}

TEST(LengthDistribution, DrawsWithinItsBounds) {
  struct Case {
    const char* text;
    int32_t least, most;
    double least_mean, most_mean;
  };
  const Case cases[] = {{"7", 7, 7, 7, 7}, {"3-9", 3, 9, 5.5, 6.5}, {"exp:40", 1, 320, 36, 44}};
  for (const Case& test : cases) {
    const LengthDistribution lengths = Lengths(test.text);
    EXPECT_EQ(lengths.max(), test.most) << test.text;
    std::mt19937_64 random(3);
    double sum = 0;
    for (int i = 0; i < 4000; ++i) {
      const int32_t length = lengths.Draw(random);
      EXPECT_GE(length, test.least);
      EXPECT_LE(length, test.most);
      sum += length;
    }
    EXPECT_GE(sum / 4000, test.least_mean) << test.text;
    EXPECT_LE(sum / 4000, test.most_mean) << test.text;
  }
}

TEST(LengthDistribution, RefusesWhatIsNone) {
  for (const char* text : {"", "0", "-3", "9-3", "1-", "exp:", "exp:x", "many", "12345678"}) {
    const auto lengths = LengthDistribution::Parse("--output", text);
    ASSERT_FALSE(lengths.ok()) << text;
    EXPECT_NE(Message(lengths.status()).find("--output"), std::string_view::npos);
  }
}

TEST(LoadGenerator, ClosedLoopKeepsToItsClients) {
  EagerService service;
  const LoadPlan plan{.requests = 40,
                      .clients = 3,
                      .prompt = Lengths("5-9"),
                      .output = Lengths("4"),
                      .shared_prefix = 5};
  const LoadReport report = MakeLoadReport(RunLoad(&service, plan));
  EXPECT_EQ(report.completed, 40);
  EXPECT_EQ(report.failed, 0);
  EXPECT_EQ(report.output_tokens, 160);
  EXPECT_EQ(report.ttft_ms.size(), 40u);
  EXPECT_EQ(report.tbt_ms.size(), 120u);
  EXPECT_LE(service.most_open, 3);
  for (const auto& prompt : service.prompts) {
    EXPECT_TRUE(std::equal(prompt.begin(), prompt.begin() + 5, service.prompts[0].begin()));
  }
  ASSERT_EQ(report.stages.size(), 1u);
  EXPECT_EQ(report.stages[0].steps, 40u);
  EXPECT_DOUBLE_EQ(report.stages[0].step_ms, 0.1);
}

TEST(LoadGenerator, OpenLoopArrivesAtTheRate) {
  EagerService service;
  const LoadPlan plan{
      .requests = 50, .rate_per_s = 500, .prompt = Lengths("3"), .output = Lengths("1")};
  const LoadReport report = MakeLoadReport(RunLoad(&service, plan));
  EXPECT_EQ(report.completed, 50);
  EXPECT_GT(report.seconds, 0.03);
  EXPECT_TRUE(report.tbt_ms.empty());
}

TEST(LoadGenerator, TheSameSeedAsksTheSame) {
  EagerService first, second;
  const LoadPlan plan{.requests = 5, .prompt = Lengths("exp:30"), .output = Lengths("1-5")};
  RunLoad(&first, plan);
  RunLoad(&second, plan);
  EXPECT_EQ(first.prompts, second.prompts);
}

TEST(LoadGenerator, FailuresAreCountedAndNamed) {
  EagerService service;
  service.longest_prompt = 5;
  const LoadPlan plan{.requests = 30, .prompt = Lengths("1-9"), .output = Lengths("2")};
  const LoadReport report = MakeLoadReport(RunLoad(&service, plan));
  EXPECT_GT(report.failed, 0);
  EXPECT_GT(report.completed, 0);
  EXPECT_EQ(report.completed + report.failed, 30);
  EXPECT_EQ(report.first_error, "prompt: too long");
  EXPECT_NE(LoadReportText(report).find("first failure: prompt: too long"), std::string::npos);
}

TEST(LoadReport, PercentilesAreValuesThatWereSeen) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const Quantiles q = QuantilesOf(values);
  EXPECT_EQ(q.mean, 50.5);
  EXPECT_EQ(q.p50, 50);
  EXPECT_EQ(q.p95, 95);
  EXPECT_EQ(q.p99, 99);
  EXPECT_EQ(q.max, 100);
  EXPECT_EQ(QuantilesOf({7}).p99, 7);
  EXPECT_EQ(QuantilesOf({}).p50, 0);
}

TEST(LoadReport, SaysTheSameInEveryForm) {
  EagerService service;
  const LoadPlan plan{.requests = 4, .prompt = Lengths("3"), .output = Lengths("6")};
  const LoadReport report = MakeLoadReport(RunLoad(&service, plan));
  const auto json = LoadReportJson(report);
  EXPECT_EQ(json["completed"], 4);
  EXPECT_EQ(json["output_tokens"], 24);
  EXPECT_EQ(json["stages"][0]["worker"], "w0");
  EXPECT_EQ(json["stages"][0]["layers"]["end"], 4);
  const std::string svg = LoadReportSvg(report);
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("4 requests"), std::string::npos);
}

}  // namespace
}  // namespace baton::cli
