#include "coordinator/scheduler.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

#include "tests/support/fake_worker.h"

namespace baton::coordinator {
namespace {

using engine::kKvBlockPositions;
using engine::MicroBatch;
using engine::RowResult;
using engine::TokenId;
using testing::FakeContinuation;
using testing::FakeNextToken;
using testing::FakePrompt;

struct Recorder : SequenceObserver {
  std::vector<TokenId> tokens;
  int32_t cached = -1;
  int starts = 0;
  bool ended = false;
  EndReason reason = EndReason::kError;
  absl::Status status;
  size_t stop_after = 1 << 30;

  void OnStarted(int32_t cached_tokens) override {
    cached = cached_tokens;
    ++starts;
  }
  bool OnResult(int32_t, const RowResult& result) override {
    EXPECT_FALSE(ended);
    tokens.push_back(result.token);
    return tokens.size() < stop_after;
  }
  void OnEnd(EndReason why, const absl::Status& with) override {
    EXPECT_FALSE(ended);
    ended = true;
    reason = why;
    status = with;
  }
};

// A scheduler and the model behind it: stages of a layer each with KV blocks that remember tokens.
class Driver {
 public:
  explicit Driver(const SchedulerOptions& options, const testing::FakeModel& model = {})
      : model_(model),
        scheduler_(options),
        kv_(options.num_stages,
            std::vector<TokenId>(options.num_kv_blocks * kKvBlockPositions, engine::kNoToken)) {}

  std::shared_ptr<Recorder> Add(std::vector<TokenId> tokens, int32_t max_new, int32_t priority = 0,
                                uint64_t client = 0) {
    auto recorder = std::make_shared<Recorder>();
    SequenceRequest request;
    request.id = ++last_id_;
    request.tokens = std::move(tokens);
    request.max_new_tokens = max_new;
    request.priority = priority;
    request.client = client;
    request.observer = recorder;
    EXPECT_TRUE(scheduler_.Add(std::move(request)).ok());
    return recorder;
  }

  // Fills the pipeline; what was sent is in `sent`.
  void Send() {
    while (auto batch = scheduler_.Next()) sent.push_back(std::move(batch));
  }
  // The oldest micro-batch comes back.
  void Receive() {
    const std::shared_ptr<MicroBatch> batch = sent.front();
    sent.pop_front();
    ASSERT_TRUE(scheduler_.OnResults(batch->id, Compute(*batch)).ok());
  }
  void RunAll() {
    for (Send(); !sent.empty(); Send()) Receive();
    EXPECT_TRUE(scheduler_.idle());
  }
  std::vector<RowResult> Compute(const MicroBatch& batch) {
    std::vector<RowResult> results;
    const int32_t stages = static_cast<int32_t>(kv_.size());
    for (int32_t stage = 0; stage < (batch.end_layer > 0 ? batch.end_layer : stages); ++stage) {
      std::vector<RowResult> same = Compute(batch, stage);
      for (size_t i = 0; stage > 0 && i < same.size(); ++i)
        EXPECT_EQ(same[i].token, results[i].token) << "stage " << stage;
      results = std::move(same);
    }
    return results;
  }
  // What comes out where all stages are as this one.
  std::vector<RowResult> Compute(const MicroBatch& batch, int32_t stage) {
    std::vector<RowResult> results;
    int32_t first = 0;
    size_t output = 0;
    for (const engine::SequenceRows& rows : batch.sequences) {
      for (int32_t i = 0; i < rows.num_rows; ++i)
        Slot(stage, rows, rows.first_position + i) = batch.tokens[first + i];
      for (; output < batch.outputs.size() && batch.outputs[output].row < first + rows.num_rows;
           ++output) {
        std::vector<TokenId> before;
        const int32_t last = rows.first_position + batch.outputs[output].row - first;
        for (int32_t p = 0; p <= last; ++p) before.push_back(Slot(stage, rows, p));
        RowResult& result = results.emplace_back();
        result.row = batch.outputs[output].row;
        result.token = FakeNextToken(before, model_);
      }
      first += rows.num_rows;
    }
    return results;
  }
  // What is on its way is dropped after `done[s]` micro-batches at stage s; stages before `lost`
  // lose their KV.
  void Restart(const std::vector<size_t>& done, int32_t lost) {
    const int32_t stages = static_cast<int32_t>(kv_.size());
    for (int32_t stage = 0; stage < stages; ++stage) {
      for (size_t i = 0; i < std::min(done[stage], sent.size()); ++i) {
        if (sent[i]->end_layer == 0 || stage < sent[i]->end_layer) Compute(*sent[i], stage);
      }
      if (stage < lost) std::ranges::fill(kv_[stage], engine::kNoToken);
    }
    sent.clear();
    scheduler_.Restart(stages, lost == stages ? Scheduler::kAllLayers : lost);
  }

  Scheduler& scheduler() { return scheduler_; }
  std::deque<std::shared_ptr<MicroBatch>> sent;

 private:
  TokenId& Slot(int32_t stage, const engine::SequenceRows& rows, int32_t position) {
    return kv_[stage].at(rows.kv_blocks.at(position / kKvBlockPositions) * kKvBlockPositions +
                         position % kKvBlockPositions);
  }

  const testing::FakeModel model_;
  Scheduler scheduler_;
  std::vector<std::vector<TokenId>> kv_;  // [stages][positions of all blocks]
  uint64_t last_id_ = 0;
};

SchedulerOptions Options(int32_t stages = 2) {
  SchedulerOptions options;
  options.num_stages = stages;
  options.vocab_size = 1000;
  options.context_length = 1024;
  options.num_kv_blocks = 8 * 32;
  return options;
}

TEST(SchedulerTest, OneSequenceIsContinued) {
  Driver driver(Options());
  const auto recorder = driver.Add(FakePrompt(100), 40);
  driver.RunAll();
  EXPECT_EQ(recorder->tokens, FakeContinuation(FakePrompt(100), 40));
  EXPECT_EQ(recorder->reason, EndReason::kLength);
}

TEST(SchedulerTest, ObserverEndsIt) {
  Driver driver(Options());
  const auto recorder = driver.Add(FakePrompt(10), 40);
  recorder->stop_after = 5;
  driver.RunAll();
  EXPECT_EQ(recorder->tokens.size(), 5u);
  EXPECT_EQ(recorder->reason, EndReason::kStopped);
  EXPECT_EQ(driver.scheduler().stats().kv_blocks_used, 0);
}

TEST(SchedulerTest, ContextEndsIt) {
  Driver driver(Options());
  const auto recorder = driver.Add(FakePrompt(1000), 1 << 20);
  driver.RunAll();
  EXPECT_EQ(recorder->tokens.size(), 24u);
  EXPECT_EQ(recorder->reason, EndReason::kLength);
}

TEST(SchedulerTest, DecodeIsDividedIntoAsManyGroupsAsStages) {
  for (const int32_t stages : {1, 2, 3, 4}) {
    Driver driver(Options(stages));
    for (int i = 0; i < 8; ++i) driver.Add(FakePrompt(5, i + 1), 100);
    for (int i = 0; i < 60; ++i) {
      driver.Send();
      if (i < 30) {
        driver.Receive();
        continue;
      }
      ASSERT_EQ(driver.sent.size(), static_cast<size_t>(stages));
      int32_t rows = 0;
      for (const auto& batch : driver.sent) {
        EXPECT_LE(batch->rows(), (8 + stages - 1) / stages);
        rows += batch->rows();
      }
      EXPECT_EQ(rows, 8);
      driver.Receive();
    }
    driver.RunAll();
  }
}

TEST(SchedulerTest, ChunksOfAPromptFollowEachOther) {
  SchedulerOptions options = Options(3);
  options.chunk_rows = 32;
  Driver driver(options);
  driver.Add(FakePrompt(500), 1);
  driver.Send();
  ASSERT_EQ(driver.sent.size(), 4u);
  for (const auto& batch : driver.sent) EXPECT_EQ(batch->rows(), 32);
  driver.RunAll();
}

// A decode step takes 100 us and each prompt row beside it 60 us more: a long prompt's chunk adds
// no more than 70 of them, a short one's is soon over.
TEST(SchedulerTest, APromptBesideStreamsAddsRowsThatTheyBear) {
  for (const auto& [prompt, most_rows] : {std::pair(900, 1), std::pair(300, 8)}) {
    Driver driver(Options(1));
    driver.Add(FakePrompt(4, 1), 1000);
    int32_t most = 0;
    for (int i = 0; i < 60; ++i) {
      if (i == 20) driver.Add(FakePrompt(prompt, 2), 1);
      driver.Send();
      ASSERT_FALSE(driver.sent.empty());
      const MicroBatch& batch = *driver.sent.front();
      const int32_t beside = batch.rows() - 1;
      if (i > 40) most = std::max(most, beside);
      driver.scheduler().OnTimed(batch.id, 0, i == 0 ? 60.0 * batch.rows() : 100 + 60 * beside);
      driver.Receive();
    }
    EXPECT_EQ(most, most_rows) << "a prompt of " << prompt;
  }
}

TEST(SchedulerTest, LongPromptNeitherStallsStreamsNorShortPrompts) {
  SchedulerOptions options = Options(1);
  options.chunk_rows = 16;
  Driver driver(options);
  const auto stream = driver.Add(FakePrompt(4, 1), 1000);
  for (int i = 0; i < 5; ++i) {
    driver.Send();
    driver.Receive();
  }
  driver.Add(FakePrompt(900, 2), 1);
  const auto brief = driver.Add(FakePrompt(20, 3), 1);
  const size_t before = stream->tokens.size();
  for (int i = 0; i < 8; ++i) {
    driver.Send();
    driver.Receive();
  }
  EXPECT_GE(stream->tokens.size(), before + 6);
  EXPECT_TRUE(brief->ended);
}

TEST(SchedulerTest, EqualPromptsAreComputedOnce) {
  Driver driver(Options());
  const auto first = driver.Add(FakePrompt(200), 10);
  driver.RunAll();
  const uint64_t computed = driver.scheduler().stats().prompt_tokens;
  const auto second = driver.Add(FakePrompt(200), 10);
  driver.RunAll();
  EXPECT_EQ(second->tokens, first->tokens);
  EXPECT_EQ(first->cached, 0);
  EXPECT_EQ(second->cached, 192);
  EXPECT_EQ(driver.scheduler().stats().prompt_tokens, computed + 8);
}

TEST(SchedulerTest, PrefixIsSharedWhileItIsOnItsWay) {
  Driver driver(Options(2));
  const auto first = driver.Add(FakePrompt(100), 5);
  driver.Send();
  const auto second = driver.Add(FakePrompt(100), 5);
  driver.RunAll();
  EXPECT_EQ(second->cached, 96);
  EXPECT_EQ(second->tokens, first->tokens);
}

TEST(SchedulerTest, PreemptsTheYoungestAndReplaysIt) {
  SchedulerOptions options = Options(2);
  options.context_length = 256;
  options.num_kv_blocks = 10;
  Driver driver(options);
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (int i = 0; i < 4; ++i) recorders.push_back(driver.Add(FakePrompt(40, i + 1), 100));
  driver.RunAll();
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(recorders[i]->tokens, FakeContinuation(FakePrompt(40, i + 1), 100));
  EXPECT_GT(driver.scheduler().stats().preemptions, 0u);
  EXPECT_EQ(recorders[0]->starts, 1);
}

TEST(SchedulerTest, HigherPriorityGoesFirst) {
  SchedulerOptions options = Options(1);
  options.max_sequences = 1;
  Driver driver(options);
  const auto running = driver.Add(FakePrompt(4, 1), 3);
  driver.Send();
  const auto low = driver.Add(FakePrompt(4, 2), 1, 0);
  const auto high = driver.Add(FakePrompt(4, 3), 1, 5);
  while (!high->ended) {
    EXPECT_FALSE(low->ended);
    driver.Receive();
    driver.Send();
  }
  driver.RunAll();
}

// One client has many requests, two others come later with a few.
TEST(SchedulerTest, ClientsTakeTurns) {
  SchedulerOptions options = Options(1);
  options.max_sequences = 1;
  Driver driver(options);
  std::vector<std::shared_ptr<Recorder>> many, second, third;
  for (int i = 0; i < 20; ++i) many.push_back(driver.Add(FakePrompt(4, i), 1, 0, /*client=*/1));
  const auto finish = [&](const std::shared_ptr<Recorder>& recorder) {
    while (!recorder->ended) {
      driver.Send();
      driver.Receive();
    }
  };
  finish(many[4]);
  for (int i = 0; i < 3; ++i) second.push_back(driver.Add(FakePrompt(4, 30 + i), 1, 0, 2));
  third.push_back(driver.Add(FakePrompt(4, 40), 1, 0, 3));
  finish(third[0]);
  EXPECT_TRUE(second[0]->ended);
  EXPECT_FALSE(second[1]->ended);
  finish(second[2]);
  EXPECT_TRUE(many[6]->ended) << "it has its turns, too";
  EXPECT_FALSE(many[7]->ended);
  driver.RunAll();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(many[i]->tokens, FakeContinuation(FakePrompt(4, i), 1));
}

TEST(SchedulerTest, CancelFreesBlocksAtOnce) {
  Driver driver(Options());
  const auto recorder = driver.Add(FakePrompt(500), 10);
  const auto other = driver.Add(FakePrompt(50, 2), 10);
  driver.Send();
  EXPECT_TRUE(driver.scheduler().Cancel(1, Cancelled("gone")));
  EXPECT_TRUE(recorder->ended);
  EXPECT_TRUE(absl::IsCancelled(recorder->status));
  driver.RunAll();
  EXPECT_EQ(other->tokens, FakeContinuation(FakePrompt(50, 2), 10));
  EXPECT_EQ(driver.scheduler().stats().kv_blocks_used, 0);
  EXPECT_FALSE(driver.scheduler().Cancel(1, Cancelled("gone")));
}

TEST(SchedulerTest, QueueIsBounded) {
  SchedulerOptions options = Options();
  options.max_waiting = 2;
  Driver driver(options);
  driver.Add(FakePrompt(4, 1), 1);
  driver.Add(FakePrompt(4, 2), 1);
  SequenceRequest request;
  request.id = 99;
  request.tokens = FakePrompt(4);
  request.observer = std::make_shared<Recorder>();
  EXPECT_TRUE(absl::IsResourceExhausted(driver.scheduler().Add(request)));
  driver.RunAll();
}

TEST(SchedulerTest, DeadlineEndsIt) {
  Driver driver(Options());
  const auto recorder = std::make_shared<Recorder>();
  SequenceRequest request;
  request.id = 7;
  request.tokens = FakePrompt(4);
  request.max_new_tokens = 5;
  request.deadline = absl::UnixEpoch() + absl::Seconds(5);
  request.observer = recorder;
  ASSERT_TRUE(driver.scheduler().Add(request).ok());
  EXPECT_EQ(driver.scheduler().NextDeadline(), request.deadline);
  driver.scheduler().Expire(request.deadline - absl::Seconds(1));
  EXPECT_FALSE(recorder->ended);
  driver.scheduler().Expire(request.deadline);
  EXPECT_TRUE(absl::IsDeadlineExceeded(recorder->status));
}

TEST(SchedulerTest, ForeignResultsAreRefused) {
  Driver driver(Options());
  driver.Add(FakePrompt(4), 5);
  driver.Send();
  const uint64_t id = driver.sent.front()->id;
  EXPECT_TRUE(absl::IsInternal(driver.scheduler().OnResults(id + 1, {})));
  EXPECT_TRUE(absl::IsInternal(driver.scheduler().OnResults(id, {})));
  RowResult wrong_row;
  wrong_row.row = 1;
  wrong_row.token = 1;
  EXPECT_TRUE(absl::IsInternal(driver.scheduler().OnResults(id, {&wrong_row, 1})));
  RowResult wrong_token;
  wrong_token.row = 3;
  wrong_token.token = 1000;
  EXPECT_TRUE(absl::IsInternal(driver.scheduler().OnResults(id, {&wrong_token, 1})));
  driver.RunAll();
}

TEST(SchedulerTest, MicroBatchThatAlwaysFailsEndsItsSequences) {
  Driver driver(Options());
  const auto recorder = driver.Add(FakePrompt(4), 5);
  for (int i = 0; i < 2; ++i) {
    driver.Send();
    driver.scheduler().OnFailure(driver.sent.front()->id, Internal("it broke"));
    driver.sent.clear();
    driver.scheduler().Restart(2);
  }
  EXPECT_TRUE(recorder->ended);
  EXPECT_TRUE(absl::IsInternal(recorder->status));
}

TEST(SchedulerTest, ScoresEveryPosition) {
  Driver driver(Options());
  const auto recorder = std::make_shared<Recorder>();
  SequenceRequest request;
  request.id = 1;
  request.tokens = FakePrompt(300);
  request.kind = engine::OutputKind::kLogits;
  request.first_output = 290;
  request.observer = recorder;
  ASSERT_TRUE(driver.scheduler().Add(request).ok());
  driver.RunAll();
  ASSERT_EQ(recorder->tokens.size(), 10u);
  const std::vector<TokenId> prompt = FakePrompt(300);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(recorder->tokens[i], FakeNextToken(std::span(prompt).first(291 + i)));
  }
}

TEST(SchedulerTest, RightGuessesSaveTrips) {
  for (const bool speculation : {false, true}) {
    SchedulerOptions options = Options(1);
    options.speculation = speculation;
    Driver driver(options, {.vocab_size = 1});  // always the same token
    const auto recorder = driver.Add(FakePrompt(4), 100);
    driver.RunAll();
    EXPECT_EQ(recorder->tokens.size(), 100u);
    const SchedulerStats stats = driver.scheduler().stats();
    EXPECT_EQ(stats.micro_batches < 30, speculation);
    EXPECT_EQ(stats.accepted_tokens > 50, speculation);
  }
}

TEST(SchedulerTest, PenaltiesSeeTheGuessesBeforeTheirRow) {
  SchedulerOptions options = Options(1);
  Driver driver(options, {.vocab_size = 1});
  auto recorder = std::make_shared<Recorder>();
  SequenceRequest request;
  request.id = 1;
  request.tokens = {0, 0, 0, 0, 0};
  request.max_new_tokens = 20;
  request.sampling.repetition_penalty = 1.1f;
  request.sampling.frequency_penalty = 0.5f;
  request.observer = recorder;
  ASSERT_TRUE(driver.scheduler().Add(request).ok());
  for (driver.Send(); !driver.sent.empty(); driver.Send()) {
    int32_t seen = 5 + static_cast<int32_t>(recorder->tokens.size());
    for (const engine::OutputRow& output : driver.sent.front()->outputs) {
      EXPECT_EQ(static_cast<int32_t>(output.recent.size()), seen);
      if (seen > 5) {
        EXPECT_EQ(output.output_counts[0].second, seen - 5);
      }
      ++seen;
    }
    driver.Receive();
  }
  EXPECT_EQ(recorder->tokens.size(), 20u);
}

// Hundreds of requests under everything at once: chunks, groups, shared prefixes, few blocks,
// cancellations, restarts. Each has the tokens of a run alone.
// A prompt in chunks, two of which have come back when the first of three stages is lost.
TEST(SchedulerTest, AReplayEndsWhereNothingIsLost) {
  SchedulerOptions options = Options(3);
  options.chunk_rows = 64;
  Driver driver(options);
  const auto answer = driver.Add(FakePrompt(300), 20);
  driver.Send();
  driver.Receive();
  driver.Receive();
  driver.Send();
  driver.Restart({2, 1, 0}, 1);
  EXPECT_EQ(driver.scheduler().stats().kv_blocks_used, 4);
  std::map<int32_t, int32_t> rows;  // by where they end
  for (driver.Send(); !driver.sent.empty(); driver.Send()) {
    rows[driver.sent.front()->end_layer] += driver.sent.front()->rows();
    driver.Receive();
  }
  EXPECT_EQ(rows[1], 128);
  EXPECT_GE(rows[0], 300 - 128 + 19);
  EXPECT_EQ(answer->tokens, FakeContinuation(FakePrompt(300), 20));
  EXPECT_EQ(answer->starts, 1);
}

TEST(SchedulerTest, ARestartWithoutALossReplaysNothing) {
  Driver driver(Options(2));
  const auto kept = driver.Add(FakePrompt(100), 10);
  driver.RunAll();
  const auto answer = driver.Add(FakePrompt(300, 2), 30);
  for (int i = 0; i < 12; ++i) {
    driver.Send();
    driver.Receive();
  }
  const size_t before = answer->tokens.size();
  EXPECT_GT(before, 0u);
  driver.Restart({1, 0}, 0);
  const auto again = driver.Add(FakePrompt(100), 10);
  driver.RunAll();
  EXPECT_EQ(answer->tokens, FakeContinuation(FakePrompt(300, 2), 30));
  EXPECT_EQ(again->tokens, kept->tokens);
  EXPECT_EQ(again->cached, 96);
  EXPECT_EQ(driver.scheduler().stats().replayed_tokens, 0u);
}

TEST(SchedulerTest, WhatSequencesShareIsReplayedOnce) {
  Driver driver(Options(2));
  std::vector<std::shared_ptr<Recorder>> answers;
  std::vector<std::vector<TokenId>> prompts;
  for (int i = 0; i < 4; ++i) {
    prompts.push_back(FakePrompt(320));
    prompts.back().push_back(i);
    answers.push_back(driver.Add(prompts.back(), 50));
    while (answers[0]->tokens.empty()) {
      driver.Send();
      driver.Receive();
    }
  }
  while (answers[3]->tokens.size() < 5) {
    driver.Send();
    driver.Receive();
  }
  driver.Restart({0, 0}, 1);
  driver.RunAll();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(answers[i]->tokens, FakeContinuation(prompts[i], 50));
  EXPECT_LT(driver.scheduler().stats().replayed_tokens, 320u + 4 * 40);
}

// Micro-batches that had come to some of the stages, blocks that are shared and that run out,
// guesses, requests that end and come: whatever is lost, each answer stays what it is.
TEST(SchedulerTest, RestartsChangeNoAnswer) {
  for (int seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int low, int high) {
      return std::uniform_int_distribution<>(low, high)(random);
    };
    SchedulerOptions options = Options(draw(1, 4));
    options.num_kv_blocks = draw(32, 60);
    options.max_rows = draw(0, 3) > 0 ? 512 : 20;
    options.max_sequences = draw(2, 6);
    const testing::FakeModel model{.vocab_size = draw(0, 1) ? 1000 : 2};
    Driver driver(options, model);
    std::vector<std::shared_ptr<Recorder>> answers;
    std::vector<std::vector<TokenId>> prompts;
    for (int step = 0; step < 400; ++step) {
      if (answers.size() < 12 && draw(0, 3) == 0) {
        prompts.push_back(FakePrompt(draw(1, 200), draw(1, 2)));
        for (TokenId& token : prompts.back()) token %= 2;
        answers.push_back(driver.Add(prompts.back(), 30));
      }
      driver.Send();
      if (draw(0, 40) == 0) driver.scheduler().Cancel(draw(1, 12), absl::CancelledError("enough"));
      if (draw(0, 12) == 0) {
        std::vector<size_t> done = {driver.sent.size()};
        while (std::ssize(done) < options.num_stages)
          done.push_back(draw(0, static_cast<int>(done.back())));
        driver.Restart(done, draw(0, options.num_stages));
      } else if (!driver.sent.empty()) {
        driver.Receive();
      }
    }
    driver.RunAll();
    for (size_t i = 0; i < answers.size(); ++i) {
      const size_t whole = absl::IsCancelled(answers[i]->status) ? answers[i]->tokens.size() : 30;
      EXPECT_EQ(answers[i]->tokens, FakeContinuation(prompts[i], static_cast<int>(whole), model))
          << "seed " << seed << ", answer " << i;
    }
  }
}

TEST(SchedulerTest, ResultsDoNotDependOnBatching) {
  constexpr int kRequests = 400;
  std::mt19937 random(20240611);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<>(low, high)(random);
  };
  for (const int32_t stages : {1, 2, 5, 3}) {
    // Of two tokens, every other guess is right.
    const testing::FakeModel model{.vocab_size = stages == 3 ? 2 : 1000};
    SchedulerOptions options = Options(stages);
    options.num_kv_blocks = 48;
    options.max_sequences = 12;
    options.max_rows = 100;
    Driver driver(options, model);
    struct Request {
      std::vector<TokenId> tokens;
      int32_t max_new;
      std::shared_ptr<Recorder> recorder;
      bool cancelled = false;
    };
    std::vector<Request> requests;
    uint64_t id = 0;
    while (id < kRequests || !driver.sent.empty() || !driver.scheduler().idle()) {
      if (id < kRequests && draw(0, 2) == 0) {
        Request& request = requests.emplace_back();
        request.tokens = FakePrompt(draw(1, 4) * 50, draw(1, 5));  // many have a prefix in common
        for (int i = draw(0, 20); i > 0; --i) request.tokens.push_back(draw(0, 999));
        request.max_new = draw(1, 120);
        request.recorder = driver.Add(request.tokens, request.max_new, draw(0, 1));
        ++id;
      }
      driver.Send();
      const int event = draw(0, 200);
      if (event == 0) {
        driver.sent.clear();
        driver.scheduler().Restart(stages);
      } else if (event < 8 && id > 0) {
        const int victim = draw(0, static_cast<int>(id) - 1);
        requests[victim].cancelled |= driver.scheduler().Cancel(victim + 1, Cancelled("gone"));
      } else if (!driver.sent.empty()) {
        driver.Receive();
      }
    }
    int finished = 0;
    for (const Request& request : requests) {
      ASSERT_TRUE(request.recorder->ended);
      const std::vector<TokenId> want = FakeContinuation(request.tokens, request.max_new, model);
      const std::vector<TokenId>& got = request.recorder->tokens;
      ASSERT_TRUE(std::equal(got.begin(), got.end(), want.begin(), want.begin() + got.size()));
      EXPECT_TRUE(request.cancelled || got.size() == want.size());
      finished += !request.cancelled;
    }
    EXPECT_GT(finished, kRequests / 2);
    const SchedulerStats stats = driver.scheduler().stats();
    EXPECT_GT(stats.preemptions, 0u);
    EXPECT_EQ(stats.accepted_tokens > 0, model.vocab_size == 2);
    EXPECT_GT(stats.cached_tokens, 0u);
    EXPECT_EQ(stats.kv_blocks_used, 0);
    EXPECT_EQ(stats.running + stats.waiting, 0);
  }
}

}  // namespace
}  // namespace baton::coordinator
