#include "coordinator/planner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

namespace baton::coordinator {
namespace {

using engine::LayerRange;

PlanRequest Model(int32_t layers, uint64_t layer_bytes = 1000) {
  PlanRequest request;
  request.file = "t.yaml";
  engine::LayerCost cost;
  cost.weights_bytes = cost.read_bytes_per_token = layer_bytes;
  cost.kv_bytes_per_position = 2;
  cost.flops_per_token = 2 * layer_bytes;
  request.cost.layers.assign(layers, cost);
  request.hidden_size = 16;
  request.kv_positions = 10;
  return request;
}

PlanWorker Worker(const std::string& name, uint64_t memory, double speed = 0) {
  PlanWorker worker;
  worker.name = name;
  worker.memory_bytes = memory;
  worker.read_bytes_per_s = speed;
  return worker;
}

// Whether a is better than b.
bool Better(const PlanRequest& request, const PlanScore& a, const PlanScore& b) {
  constexpr double kSame = 1e-12;
  if (request.objective == Objective::kThroughput && std::abs(a.slowest_s - b.slowest_s) > kSame) {
    return a.slowest_s < b.slowest_s;
  }
  return a.sum_s < b.sum_s - kSame;
}

// All ways to give layers [begin, …) to workers [worker, …).
void BruteForce(const PlanRequest& request, size_t worker, int32_t begin,
                std::vector<PlanStage>* stages, std::optional<PlanScore>* best) {
  const int32_t num_layers = static_cast<int32_t>(request.cost.layers.size());
  if (worker == request.workers.size()) {
    if (begin < num_layers) return;
    const PlanScore score = ScoreOf(request, *stages);
    if (!*best || Better(request, score, **best)) *best = score;
    return;
  }
  const PlanWorker& who = request.workers[worker];
  if (!who.layers && !who.num_layers) BruteForce(request, worker + 1, begin, stages, best);
  for (int32_t end = begin + 1; end <= num_layers; ++end) {
    if (who.layers && *who.layers != LayerRange{begin, end}) continue;
    if (who.num_layers && *who.num_layers != end - begin) continue;
    const PlanStage stage = StageOn(request, worker, {begin, end});
    if (!stage.fits()) continue;
    stages->push_back(stage);
    BruteForce(request, worker + 1, end, stages, best);
    stages->pop_back();
  }
}

TEST(PlannerTest, EqualsBruteForce) {
  std::mt19937 random(4711);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<>(low, high)(random);
  };
  int fitting = 0;
  for (int round = 0; round < 500; ++round) {
    const int workers = draw(1, 6);
    const int layers = draw(workers, workers <= 4 ? 24 : 12);
    PlanRequest request = Model(layers);
    for (auto& layer : request.cost.layers) {
      layer.weights_bytes = draw(500, 2000);
      layer.read_bytes_per_token = layer.weights_bytes / draw(1, 3);
    }
    request.cost.last.weights_bytes = request.cost.last.read_bytes_per_token = draw(0, 5000);
    request.cost.first.weights_bytes = draw(0, 5000);
    request.objective = draw(0, 1) ? Objective::kLatency : Objective::kThroughput;
    request.sequences = draw(1, 16);
    const bool speeds = draw(0, 3) > 0;
    for (int w = 0; w < workers; ++w) {
      PlanWorker worker =
          Worker(fmt::format("w{}", w), draw(0, 3) ? draw(4000, 4000 + 4000 * layers / workers) : 0,
                 speeds ? draw(1, 20) * 1e6 : 0);
      worker.flops_per_s = speeds ? draw(1, 20) * 1e7 : 0;
      if (draw(0, 9) == 0) worker.num_layers = draw(1, layers);
      request.workers.push_back(worker);
    }
    if (draw(0, 1)) {
      request.links.assign(workers + 1, std::vector<PlanLink>(workers + 1));
      for (auto& row : request.links) {
        for (PlanLink& link : row) link = {draw(0, 100) * 1e-5, draw(0, 3) * 1e5};
      }
    }
    std::optional<PlanScore> best;
    std::vector<PlanStage> stages;
    BruteForce(request, 0, 0, &stages, &best);
    const absl::StatusOr<Plan> plan = MakePlan(request);
    if (!best) {
      EXPECT_TRUE(!plan.ok() || !plan->fits) << round;
      continue;
    }
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_TRUE(plan->fits) << round;
    ++fitting;
    const PlanScore score = ScoreOf(request, plan->stages);
    EXPECT_NEAR(score.sum_s, best->sum_s, 1e-9 * best->sum_s) << round;
    if (request.objective == Objective::kThroughput) {
      EXPECT_NEAR(score.slowest_s, best->slowest_s, 1e-9 * best->slowest_s) << round;
    }
    int32_t next = 0;
    for (const PlanStage& stage : plan->stages) {
      EXPECT_EQ(stage.layers.begin, next);
      next = stage.layers.end;
    }
    EXPECT_EQ(next, layers);
  }
  EXPECT_GT(fitting, 200);
}

TEST(PlannerTest, EqualsBruteForceInAnyOrder) {
  std::mt19937 random(815);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<>(low, high)(random);
  };
  int better_than_given = 0;
  for (int round = 0; round < 100; ++round) {
    const int workers = draw(1, 4);
    PlanRequest request = Model(draw(workers, 9));
    request.any_order = true;
    request.cost.last.weights_bytes = request.cost.last.read_bytes_per_token = draw(0, 5000);
    request.objective = draw(0, 1) ? Objective::kLatency : Objective::kThroughput;
    request.sequences = draw(1, 16);
    for (int w = 0; w < workers; ++w) {
      request.workers.push_back(
          Worker(fmt::format("w{}", w), draw(0, 1) ? draw(4000, 12000) : 0, draw(1, 20) * 1e6));
      if (draw(0, 9) == 0) request.workers.back().num_layers = draw(1, 3);
    }
    request.links.assign(workers + 1, std::vector<PlanLink>(workers + 1));
    for (auto& row : request.links) {
      for (PlanLink& link : row) link = {draw(0, 100) * 1e-5, draw(0, 3) * 1e5};
    }
    // Each order by hand: workers and links renamed.
    std::vector<size_t> order(workers);
    std::iota(order.begin(), order.end(), 0);
    std::optional<PlanScore> best, given;
    do {
      PlanRequest renamed = request;
      for (int a = 0; a < workers; ++a) {
        renamed.workers[a] = request.workers[order[a]];
        renamed.links[0][a + 1] = request.links[0][order[a] + 1];
        renamed.links[a + 1][0] = request.links[order[a] + 1][0];
        for (int b = 0; b < workers; ++b)
          renamed.links[a + 1][b + 1] = request.links[order[a] + 1][order[b] + 1];
      }
      std::vector<PlanStage> stages;
      BruteForce(renamed, 0, 0, &stages, &best);
      if (std::ranges::is_sorted(order)) given = best;
    } while (std::next_permutation(order.begin(), order.end()));
    const absl::StatusOr<Plan> plan = MakePlan(request);
    if (!best) {
      EXPECT_TRUE(!plan.ok() || !plan->fits) << round;
      continue;
    }
    ASSERT_TRUE(plan.ok() && plan->fits) << round;
    const PlanScore score = ScoreOf(request, plan->stages);
    EXPECT_NEAR(score.sum_s, best->sum_s, 1e-9 * best->sum_s) << round;
    if (request.objective == Objective::kThroughput) {
      EXPECT_NEAR(score.slowest_s, best->slowest_s, 1e-9 * best->slowest_s) << round;
    }
    better_than_given += !given || Better(request, *best, *given);
  }
  EXPECT_GT(better_than_given, 20);
}

// Workers of one host are slower beside each other than alone: what counts depends on whether they
// work at the same time.
TEST(PlannerTest, OneStreamFindsTheOthersIdle) {
  PlanRequest request = Model(10);
  for (const char* name : {"a", "b"}) {
    request.workers.push_back(Worker(name, 0, 1e6));
    request.workers.back().alone_read_bytes_per_s = 2e6;
  }
  request.sequences = 8;
  const auto busy = MakePlan(request);
  ASSERT_TRUE(busy.ok());
  EXPECT_NEAR(busy->latency_s_per_token, 10'000 / 2e6, 1e-9);
  EXPECT_NEAR(busy->tokens_per_s, 8 / (2 * 5'000 / 1e6), 1e-6);
  request.sequences = 1;
  const auto idle = MakePlan(request);
  ASSERT_TRUE(idle.ok());
  EXPECT_NEAR(idle->tokens_per_s, 1 / (10'000 / 2e6), 1e-6);
}

TEST(PlannerTest, DividesInProportionToMemory) {
  PlanRequest request = Model(30);
  request.workers = {Worker("small", 1 << 20), Worker("big", 2 << 20)};
  const auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->stages.size(), 2u);
  EXPECT_EQ(plan->stages[0].layers, (LayerRange{0, 10}));
  EXPECT_FALSE(plan->speeds_known);
}

TEST(PlannerTest, DividesByWeights) {
  PlanRequest request = Model(30);
  request.workers = {Worker("a", 1 << 20, 5e6), Worker("b", 1 << 20, 1e6)};
  request.workers[0].weight = 1;
  request.workers[1].weight = 2;
  const auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->stages[0].layers, (LayerRange{0, 10}));
  EXPECT_NE(plan->notes[0].find("weights"), std::string::npos);
}

TEST(PlannerTest, LeavesOutAWorkerThatDoesHarm) {
  PlanRequest request = Model(8);
  request.objective = Objective::kLatency;
  request.workers = {Worker("fast", 0, 1e6), Worker("slow", 0, 1e3)};
  const auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->stages.size(), 1u);
  EXPECT_NE(plan->notes.back().find("slow is left out"), std::string::npos);
}

TEST(PlannerTest, NeverWorseThanUniformOrInProportionToMemory) {
  std::mt19937 random(42);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    const int workers = draw(2, 16);
    const int layers = draw(workers, 96);
    PlanRequest request = Model(layers, draw(1, 9) * 1000);
    request.cost.last.read_bytes_per_token = draw(0, 5000);
    request.objective = draw(0, 1) ? Objective::kLatency : Objective::kThroughput;
    request.sequences = draw(1, 32);
    uint64_t memory = 0;
    for (int w = 0; w < workers; ++w) {
      request.workers.push_back(
          Worker(fmt::format("w{}", w), draw(1, 9) * 1'000'000'000, draw(1, 20) * 1e6));
      memory += request.workers.back().memory_bytes;
    }
    const auto plan = MakePlan(request);
    ASSERT_TRUE(plan.ok() && plan->fits);
    const PlanScore best = ScoreOf(request, plan->stages);
    // Each worker's share by a weight; the rounded sums are its boundaries.
    const auto by_weight = [&](const std::function<double(const PlanWorker&)>& weight) {
      std::vector<PlanStage> stages;
      double sum = 0, all = 0;
      for (const PlanWorker& worker : request.workers) all += weight(worker);
      int32_t begin = 0;
      for (size_t w = 0; w < request.workers.size(); ++w) {
        sum += weight(request.workers[w]);
        const auto end = static_cast<int32_t>(std::lround(layers * sum / all));
        if (end > begin) stages.push_back(StageOn(request, w, {begin, end}));
        begin = end;
      }
      return ScoreOf(request, stages);
    };
    for (const PlanScore& other :
         {by_weight([](const PlanWorker&) { return 1.0; }),
          by_weight([](const PlanWorker& w) { return static_cast<double>(w.memory_bytes); })}) {
      EXPECT_FALSE(Better(request, other, best)) << round;
    }
  }
}

TEST(PlannerTest, GivesOnlyLayersWhosePartsAreThere) {
  PlanRequest request = Model(6);
  request.workers = {Worker("a", 0), Worker("b", 0)};
  request.workers[0].has_layer = {true, true, true, true, false, false};
  request.workers[1].has_layer = {false, false, false, false, true, true};
  const auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->stages.size(), 2u);
  EXPECT_EQ(plan->stages[0].layers, (LayerRange{0, 4}));
  request.workers[0].has_layer[3] = false;
  const auto hole = MakePlan(request);
  ASSERT_FALSE(hole.ok());
  EXPECT_NE(Message(hole.status()).find("layer 3 is in the models folder of no worker"),
            std::string_view::npos)
      << hole.status();
}

TEST(PlannerTest, PredictsFromSpeedsAndLinks) {
  PlanRequest request = Model(8, 1'000'000);  // reads 8 MB a token, 16 MFLOP
  request.sequences = 4;
  request.hidden_size = 1000;
  for (const char* name : {"a", "b"}) {
    PlanWorker worker = Worker(name, 0, 1e9);
    worker.flops_per_s = 8e9;
    worker.prompt_flops_per_s = 16e9;
    request.workers.push_back(worker);
  }
  const auto free = MakePlan(request);
  ASSERT_TRUE(free.ok());
  // A stage: 4 MB at 1 GB/s and 8 MFLOP a row at 8 GFLOP/s.
  EXPECT_NEAR(free->latency_s_per_token, 0.010, 1e-6);
  EXPECT_NEAR(free->tokens_per_s, 4 / 0.012, 1e-3);
  EXPECT_NEAR(free->prompt_tokens_per_s, 2000, 1e-3);
  // 5 ms each way; 4,000 bytes a row at 4 MB/s.
  request.links.assign(3, std::vector<PlanLink>(3, PlanLink{0.005, 4e6}));
  const auto far = MakePlan(request);
  ASSERT_TRUE(far.ok());
  EXPECT_NEAR(far->latency_s_per_token, 0.010 + 0.015 + 0.001, 1e-6);
  EXPECT_NEAR(far->tokens_per_s, 4 / (0.012 + 0.015 + 0.002), 1e-3);
}

TEST(PlannerTest, SaysWhatDoesNotFit) {
  PlanRequest request = Model(10);
  request.workers = {Worker("a", 3000), Worker("b", 3000)};
  const auto plan = MakePlan(request);
  ASSERT_TRUE(plan.ok());
  EXPECT_FALSE(plan->fits);
  EXPECT_EQ(plan->stages.size(), 2u);
  EXPECT_NE(PlanToText(request, *plan).find("too little by"), std::string::npos);
  const auto json = PlanToJson(request, *plan, {{"m.gguf"}, {"m.gguf"}});
  EXPECT_EQ(json["fits"], false);
  EXPECT_EQ(json["stages"][0]["layers"]["begin"], 0);
  EXPECT_EQ(json["stages"][1]["layers"]["end"], 10);
  EXPECT_EQ(json["objective"], "throughput");
}

TEST(PlannerTest, ExplicitRangesMustCoverExactly) {
  struct Case {
    std::vector<std::optional<LayerRange>> layers;
    std::string_view error;  // empty: right
  };
  const Case cases[] = {
      {{{{0, 5}}, {{5, 10}}}, ""},
      {{{{0, 5}}, std::nullopt}, ""},
      {{std::nullopt, {{5, 10}}}, ""},
      {{std::nullopt, {{2, 4}}, std::nullopt}, ""},
      {{{{0, 5}}, {{4, 10}}}, "t.yaml:11: worker w1: layer 4 is given to worker w0 already"},
      {{{{0, 5}}, {{6, 10}}},
       "t.yaml:11: worker w1: layers begin at 6, but layer 5 is given to no worker"},
      {{{{0, 5}}, {{5, 9}}},
       "layers 9-9 are given to no worker; the last one, w1, ends at layer 8"},
      {{{{0, 5}}, {{5, 11}}}, "t.yaml:11: worker w1: layers 5-10, but the model has 0-9"},
      {{{{5, 10}}, {{0, 5}}},
       "t.yaml:10: worker w0: layers begin at 5, but layer 0 is given to no worker"},
  };
  for (const Case& test : cases) {
    PlanRequest request = Model(10);
    for (const auto& layers : test.layers) {
      PlanWorker worker = Worker(fmt::format("w{}", request.workers.size()), 0);
      worker.line = 10 + static_cast<int32_t>(request.workers.size());
      worker.layers = layers;
      request.workers.push_back(worker);
    }
    const auto plan = MakePlan(request);
    EXPECT_EQ(plan.ok(), test.error.empty()) << plan.status();
    if (plan.ok()) continue;
    EXPECT_NE(Message(plan.status()).find(test.error), std::string_view::npos) << plan.status();
  }
}

}  // namespace
}  // namespace baton::coordinator
