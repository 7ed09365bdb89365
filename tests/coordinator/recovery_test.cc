#include "coordinator/recovery.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "tests/support/fake_worker.h"

namespace baton::coordinator {
namespace {

using engine::TokenId;
using testing::FakeCluster;
using testing::FakeContinuation;
using testing::FakePrompt;

constexpr int32_t kLayers = 12;
constexpr absl::Duration kPatience = absl::Seconds(60);

// Layers in equal ranges.
class EvenPlacer : public Placer {
 public:
  absl::StatusOr<std::vector<Placement>> Place(const WorkerRegistry&,
                                               const std::vector<size_t>& workers) override {
    if (workers.size() < least_workers) return ResourceExhausted("does not fit");
    std::vector<Placement> placement;
    const int32_t count = static_cast<int32_t>(workers.size());
    const auto begin = [&](int32_t i) {
      return std::min(kLayers, kLayers * i / count + (i > 0 ? more_of_first.load() : 0));
    };
    for (int32_t i = 0; i < count; ++i) placement.push_back({workers[i], {begin(i), begin(i + 1)}});
    return placement;
  }
  absl::Status CheckFits(const WorkerRegistry&, const Placement&) override {
    return absl::OkStatus();
  }
  std::string fingerprint() const override { return "fake"; }
  int32_t num_layers() const override { return kLayers; }
  absl::StatusOr<wire::LoadRequest> MakeLoadRequest(engine::LayerRange layers) override {
    wire::LoadRequest request;
    request.spec.layers = layers;
    request.spec.num_kv_blocks = 2048;
    request.topology_hash = topology_hash;
    return request;
  }
  bool WantsMeasure(const WorkerRegistry&, size_t) override { return wants_measure; }
  bool Learn(WorkerRegistry*, const std::vector<Placement>&) override {
    more_of_first = 1;
    return wants_measure.exchange(false);
  }
  std::atomic<bool> wants_measure = false;  // of the next worker that loads
  std::atomic<size_t> least_workers = 1;
  std::atomic<int32_t> more_of_first = 0;   // layers, as measured on another day
  std::string topology_hash = "as it was";  // set before a start
};

class Stream : public SequenceObserver {
 public:
  bool OnResult(int32_t, const engine::RowResult& result) override {
    const std::lock_guard lock(mutex_);
    tokens_.push_back(result.token);
    times_.push_back(absl::Now());
    changed_.notify_all();
    return true;
  }
  void OnEnd(EndReason, const absl::Status& status) override {
    const std::lock_guard lock(mutex_);
    status_ = status;
    ended_ = true;
    changed_.notify_all();
  }
  absl::Status Wait() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, absl::ToChronoSeconds(kPatience), [this] { return ended_; })) {
      return DeadlineExceeded("the stream hangs at {} tokens", tokens_.size());
    }
    return status_;
  }
  void WaitForTokens(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, absl::ToChronoSeconds(kPatience),
                      [&] { return ended_ || tokens_.size() >= count; });
  }
  // Between the tokens from the `first` on.
  std::vector<absl::Duration> GapsFrom(size_t first) {
    const std::lock_guard lock(mutex_);
    std::vector<absl::Duration> gaps;
    for (size_t i = first + 1; i < times_.size(); ++i) gaps.push_back(times_[i] - times_[i - 1]);
    return gaps;
  }
  size_t num_tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_.size();
  }
  std::vector<TokenId> tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenId> tokens_;
  std::vector<absl::Time> times_;
  absl::Status status_;
  bool ended_ = false;
};

class RecoveryTest : public ::testing::Test {
 protected:
  void Build(int workers, int spares = 0) {
    for (int i = 0; i < workers + spares; ++i) cluster_.AddWorker(fmt::format("fake:{}", i + 1));
    Start(workers, spares);
  }
  static std::vector<WorkerEntry> Entries(const std::vector<int>& numbers) {
    std::vector<WorkerEntry> entries;
    for (const int i : numbers) {
      WorkerEntry& entry = entries.emplace_back();
      entry.name = fmt::format("w{}", i);
      entry.address = fmt::format("fake:{}", i + 1);
    }
    return entries;
  }
  // A coordinator of these workers.
  void Start(int workers, int spares = 0) {
    addresses_.clear();
    std::vector<int> regular, spare;
    for (int i = 0; i < workers + spares; ++i) {
      addresses_.push_back(fmt::format("fake:{}", i + 1));
      (i < workers ? regular : spare).push_back(i);
    }
    before_ = {regular, spare};
    registry_ = std::make_unique<WorkerRegistry>(Entries(regular), Entries(spare), &cluster_);
    PipelineOptions options;
    options.scheduler.num_stages = workers;
    options.scheduler.vocab_size = 1000;
    options.scheduler.context_length = context_;
    options.scheduler.num_kv_blocks = num_kv_blocks_;
    options.step_deadline = step_deadline_;
    pipeline_ = std::make_unique<Pipeline>(options, [this](const Pipeline::Failure& failure) {
      recovery_->OnPipelineFailure(failure);
    });
    options_.wait_for_same = absl::Milliseconds(300);
    options_.wait_for_spare = absl::Milliseconds(600);
    options_.ask_timeout = absl::Milliseconds(200);
    options_.first_delay = absl::Milliseconds(5);
    options_.longest_delay = absl::Milliseconds(50);
    options_.heartbeat = absl::Milliseconds(20);
    options_.look_for_idle = absl::Milliseconds(50);
    recovery_ = std::make_unique<Recovery>(options_, registry_.get(), pipeline_.get(), &placer_);
    recovery_->Start();
  }
  void TearDown() override { Stop(); }
  void Stop() {
    if (recovery_ != nullptr) recovery_->Stop();
    pipeline_.reset();
    recovery_.reset();
    registry_.reset();
  }
  void ExpectReady() { ASSERT_EQ(recovery_->WaitReady(absl::Now() + kPatience), absl::OkStatus()); }

  std::shared_ptr<Stream> Generate(std::vector<TokenId> tokens, int32_t max_new) {
    auto stream = std::make_shared<Stream>();
    SequenceRequest request;
    request.id = ++last_id_;
    request.tokens = std::move(tokens);
    request.max_new_tokens = max_new;
    request.observer = stream;
    pipeline_->Submit(std::move(request));
    return stream;
  }

  // Another topology, of these workers and spares.
  using Numbers = std::pair<std::vector<int>, std::vector<int>>;
  absl::Status Rearrange(const Numbers& wanted) {
    const auto set = [this](const Numbers& numbers) {
      registry_->SetWorkers(Entries(numbers.first), Entries(numbers.second));
      return absl::OkStatus();
    };
    const absl::Status status =
        recovery_->Rearrange({.apply = [=] { return set(wanted); },
                              .undo = [=, this] { set(before_).IgnoreError(); },
                              .replan = wanted.first != before_.first},
                             absl::Now() + kPatience);
    if (status.ok()) before_ = wanted;
    return status;
  }
  std::vector<std::string> Placed() {
    std::vector<std::string> names;
    for (const Placement& stage : recovery_->snapshot().placement)
      names.push_back(registry_->entry(stage.worker).name);
    return names;
  }
  void ExpectGoesOn(const std::shared_ptr<Stream>& stream, int count) {
    ASSERT_EQ(stream->Wait(), absl::OkStatus());
    EXPECT_EQ(stream->tokens(), FakeContinuation(FakePrompt(100, 1), count));
  }

  Numbers before_;
  absl::Duration step_deadline_ = absl::Seconds(60);
  int32_t context_ = 2048;
  int32_t num_kv_blocks_ = 512;
  RecoveryOptions options_;
  EvenPlacer placer_;
  FakeCluster cluster_;
  std::vector<std::string> addresses_;
  std::unique_ptr<WorkerRegistry> registry_;
  std::unique_ptr<Recovery> recovery_;
  std::unique_ptr<Pipeline> pipeline_;
  uint64_t last_id_ = 0;
};

TEST_F(RecoveryTest, ARestartedCoordinatorGoesOnWithWhatWorkersHold) {
  Build(3);
  ExpectReady();
  Stop();
  placer_.more_of_first = 1;
  Start(3);
  ExpectReady();
  for (const std::string& address : addresses_) EXPECT_EQ(cluster_.loads(address), 1) << address;
  const auto stream = Generate(FakePrompt(20), 30);
  EXPECT_EQ(stream->Wait(), absl::OkStatus());
  EXPECT_EQ(stream->tokens(), FakeContinuation(FakePrompt(20), 30));
}

TEST_F(RecoveryTest, ARestartedCoordinatorPlansAnewWhereItsTopologyHasChanged) {
  Build(3);
  ExpectReady();
  Stop();
  placer_.topology_hash = "as it is now";
  placer_.more_of_first = 1;
  Start(3);
  ExpectReady();
  for (const std::string& address : addresses_) EXPECT_EQ(cluster_.loads(address), 2) << address;
}

TEST_F(RecoveryTest, ARestartedCoordinatorLoadsWhatAWorkerHasLost) {
  Build(3);
  ExpectReady();
  Stop();
  cluster_.Kill(addresses_[1]);
  cluster_.Restart(addresses_[1]);
  Start(3);
  ExpectReady();
  EXPECT_EQ(cluster_.loads(addresses_[0]), 1);
  EXPECT_EQ(cluster_.loads(addresses_[1]), 2);
}

TEST_F(RecoveryTest, StreamsAreEqualToThoseAlone) {
  Build(3);
  ExpectReady();
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < 12; ++i) streams.push_back(Generate(FakePrompt(20 + i * 17, i % 3), 100));
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(streams[i]->Wait(), absl::OkStatus());
    EXPECT_EQ(streams[i]->tokens(), FakeContinuation(FakePrompt(20 + i * 17, i % 3), 100));
  }
}

TEST_F(RecoveryTest, AllStagesAreBusyAtOnce) {
  Build(3);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < 6; ++i) streams.push_back(Generate(FakePrompt(20, i), 30));
  for (const auto& stream : streams) ASSERT_EQ(stream->Wait(), absl::OkStatus());
  EXPECT_GE(cluster_.most_in_flight(), 3);
}

// The prompt's chunks are as large as running streams bear: measured while they run.
TEST_F(RecoveryTest, LongPromptLetsStreamsRun) {
  context_ = 33000;
  num_kv_blocks_ = 33000 / engine::kKvBlockPositions + 64;
  Build(2);
  ExpectReady();
  cluster_.SetStepTime(absl::Milliseconds(3), absl::Microseconds(30));
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(Generate(FakePrompt(8, i + 1), 1600));
  for (const auto& stream : streams) stream->WaitForTokens(100);
  const auto median = [&](const std::vector<size_t>& first) {
    std::vector<absl::Duration> gaps;
    for (size_t i = 0; i < streams.size(); ++i) {
      for (const absl::Duration gap : streams[i]->GapsFrom(first[i])) gaps.push_back(gap);
    }
    std::sort(gaps.begin(), gaps.end());
    return gaps[gaps.size() / 2];  // the tail is the host's, where others run too
  };
  const absl::Duration before = median({20, 20, 20, 20});
  std::vector<size_t> at;
  for (const auto& stream : streams) at.push_back(stream->num_tokens());
  const auto prompt = Generate(FakePrompt(32768, 9), 1);
  ASSERT_EQ(prompt->Wait(), absl::OkStatus());
  EXPECT_LT(median(at), 2 * before) << "was " << before;
  for (const auto& stream : streams) {
    EXPECT_LT(stream->num_tokens(), 1600u) << "they should have run all the time";
    EXPECT_GT(stream->num_tokens(), 200u);
  }
}

TEST_F(RecoveryTest, SameWorkerComesBack) {
  Build(3);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  for (const std::string& address : {addresses_[0], addresses_[1], addresses_[2]}) {
    const auto stream = Generate(FakePrompt(100, 1), 100);
    stream->WaitForTokens(20);
    cluster_.Kill(address);
    cluster_.Restart(address);
    ASSERT_EQ(stream->Wait(), absl::OkStatus());
    EXPECT_EQ(stream->tokens(), FakeContinuation(FakePrompt(100, 1), 100));
    EXPECT_EQ(cluster_.loads(address), 2);
  }
  EXPECT_EQ(recovery_->snapshot().losses, 3u);
}

TEST_F(RecoveryTest, SurvivorsAreNotLoadedAgain) {
  Build(3);
  ExpectReady();
  cluster_.Kill(addresses_[1]);
  cluster_.Restart(addresses_[1]);
  ASSERT_EQ(Generate(FakePrompt(10, 1), 5)->Wait(), absl::OkStatus());
  EXPECT_EQ(cluster_.loads(addresses_[0]), 1);
  EXPECT_EQ(cluster_.loads(addresses_[1]), 2);
  EXPECT_EQ(cluster_.loads(addresses_[2]), 1);
}

// Rows that each of three stages does again when one of them is lost.
TEST_F(RecoveryTest, StagesAfterTheLostOneReplayNothing) {
  for (int lost = 0; lost < 3; ++lost) {
    Stop();
    for (int i = 0; i < 3; ++i) {
      cluster_.Kill(fmt::format("fake:{}", i + 1));
      cluster_.AddWorker(fmt::format("fake:{}", i + 1));
    }
    Start(3);
    cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
    ExpectReady();
    const auto stream = Generate(FakePrompt(1000, 1), 200);
    stream->WaitForTokens(20);
    std::vector<int64_t> rows;
    for (const std::string& address : addresses_) rows.push_back(cluster_.rows(address));
    cluster_.Kill(addresses_[lost]);
    cluster_.Restart(addresses_[lost]);
    ASSERT_EQ(stream->Wait(), absl::OkStatus());
    EXPECT_EQ(stream->tokens(), FakeContinuation(FakePrompt(1000, 1), 200));
    for (int i = 0; i < 3; ++i) {
      const int64_t again = cluster_.rows(addresses_[i]) - rows[i];
      EXPECT_EQ(again > 1000, i <= lost) << again << " rows at stage " << i << ", lost " << lost;
    }
  }
}

TEST_F(RecoveryTest, ALinkThatIsCutCostsNoReplay) {
  Build(3);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  const auto stream = Generate(FakePrompt(1000, 1), 200);
  stream->WaitForTokens(20);
  cluster_.Cut(addresses_[1]);
  ASSERT_EQ(stream->Wait(), absl::OkStatus());
  EXPECT_EQ(stream->tokens(), FakeContinuation(FakePrompt(1000, 1), 200));
  EXPECT_EQ(recovery_->snapshot().losses, 1u);
  for (const std::string& address : addresses_) EXPECT_LT(cluster_.rows(address), 1500) << address;
  // What was computed before is found by prompts after.
  ASSERT_EQ(Generate(FakePrompt(1000, 1), 5)->Wait(), absl::OkStatus());
  EXPECT_LT(cluster_.rows(addresses_[0]), 1500);
}

// Where a worker has said that numbers or files are wrong, what others made of its work is not
// trusted either.
TEST_F(RecoveryTest, WrongWorkIsReplayedEverywhere) {
  Build(2);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  const auto stream = Generate(FakePrompt(1000, 1), 200);
  stream->WaitForTokens(20);
  const int64_t rows = cluster_.rows(addresses_[1]);
  cluster_.FailOnToken(FakeContinuation(FakePrompt(1000, 1), 60)[59], DataLoss("the file changed"),
                       /*times=*/1);
  ASSERT_EQ(stream->Wait(), absl::OkStatus());
  EXPECT_EQ(stream->tokens(), FakeContinuation(FakePrompt(1000, 1), 200));
  EXPECT_GT(cluster_.rows(addresses_[1]) - rows, 1000);
}

TEST_F(RecoveryTest, SpareTakesOver) {
  Build(2, 1);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  const auto stream = Generate(FakePrompt(100, 1), 100);
  stream->WaitForTokens(20);
  cluster_.Kill(addresses_[1]);
  ASSERT_EQ(stream->Wait(), absl::OkStatus());
  EXPECT_EQ(stream->tokens(), FakeContinuation(FakePrompt(100, 1), 100));
  EXPECT_EQ(cluster_.loads(addresses_[2]), 1);
  EXPECT_EQ(cluster_.loads(addresses_[0]), 1);
}

TEST_F(RecoveryTest, ASpareThatGoesIsMissed) {
  Build(2, 1);
  ExpectReady();
  const auto spare = [this] { return registry_->Snapshot()[2]; };
  const auto becomes = [&](WorkerState state) {
    for (int i = 0; i < 1000 && spare().state != state; ++i) absl::SleepFor(absl::Milliseconds(5));
    return spare().state == state;
  };
  ASSERT_TRUE(becomes(WorkerState::kReady));
  const std::string first = spare().info.instance_id;
  cluster_.Kill(addresses_[2]);
  EXPECT_TRUE(becomes(WorkerState::kLost));
  EXPECT_EQ(spare().info.pid, 0);
  cluster_.Restart(addresses_[2]);
  EXPECT_TRUE(becomes(WorkerState::kReady));
  EXPECT_NE(spare().info.instance_id, first);
  // One that is only slow is not.
  cluster_.Stop(addresses_[2]);
  absl::SleepFor(options_.ask_idle + 5 * options_.look_for_idle);
  EXPECT_EQ(spare().state, WorkerState::kReady);
  cluster_.Continue(addresses_[2]);
  EXPECT_EQ(recovery_->snapshot().losses, 0u);
}

TEST_F(RecoveryTest, SurvivorsShareTheLayers) {
  Build(3);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  const auto stream = Generate(FakePrompt(100, 1), 100);
  stream->WaitForTokens(20);
  cluster_.Kill(addresses_[0]);
  ASSERT_EQ(stream->Wait(), absl::OkStatus());
  EXPECT_EQ(stream->tokens(), FakeContinuation(FakePrompt(100, 1), 100));
  EXPECT_EQ(recovery_->snapshot().placement.size(), 2u);
  // When the lost one is back and nobody waits, all take part again.
  cluster_.Restart(addresses_[0]);
  for (int i = 0; i < 1000 && recovery_->snapshot().placement.size() < 3; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  const auto again = Generate(FakePrompt(100, 2), 50);
  ASSERT_EQ(again->Wait(), absl::OkStatus());
  EXPECT_EQ(again->tokens(), FakeContinuation(FakePrompt(100, 2), 50));
  EXPECT_EQ(recovery_->snapshot().placement.size(), 3u);
}

TEST_F(RecoveryTest, RequestsEndWithTheReasonWhenNobodyComes) {
  options_.limits.recovery = absl::Seconds(1);
  placer_.least_workers = 2;
  Build(2);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  const auto stream = Generate(FakePrompt(100, 1), 1000);
  stream->WaitForTokens(20);
  cluster_.Kill(addresses_[1]);
  const absl::Status status = stream->Wait();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(Message(status).find("worker w1 at fake:2"), std::string_view::npos) << status;
  EXPECT_EQ(recovery_->snapshot().state, ClusterState::kFailed);
  EXPECT_TRUE(absl::IsUnavailable(Generate(FakePrompt(10, 1), 5)->Wait()));
  // When it is back, so is the cluster.
  cluster_.Restart(addresses_[1]);
  for (int i = 0; i < 500 && recovery_->snapshot().state != ClusterState::kReady; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(Generate(FakePrompt(10, 1), 5)->Wait(), absl::OkStatus());
}

TEST_F(RecoveryTest, ShortStopIsNoLoss) {
  options_.limits.lease = absl::Seconds(4);
  Build(2);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  const auto stream = Generate(FakePrompt(100, 1), 100);
  stream->WaitForTokens(20);
  cluster_.Stop(addresses_[1]);
  absl::SleepFor(absl::Milliseconds(1300));
  EXPECT_EQ(registry_->Snapshot()[1].state, WorkerState::kSuspect);
  cluster_.Continue(addresses_[1]);
  ASSERT_EQ(stream->Wait(), absl::OkStatus());
  EXPECT_EQ(stream->tokens(), FakeContinuation(FakePrompt(100, 1), 100));
  EXPECT_EQ(recovery_->snapshot().losses, 0u);
  EXPECT_EQ(registry_->Snapshot()[1].state, WorkerState::kReady);
}

TEST_F(RecoveryTest, SilentWorkerIsLostAfterItsLease) {
  options_.limits.lease = absl::Milliseconds(300);
  Build(2, 1);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  const auto stream = Generate(FakePrompt(100, 1), 100);
  stream->WaitForTokens(20);
  cluster_.Stop(addresses_[0]);
  ASSERT_EQ(stream->Wait(), absl::OkStatus());
  EXPECT_EQ(stream->tokens(), FakeContinuation(FakePrompt(100, 1), 100));
  cluster_.Continue(addresses_[0]);
}

TEST_F(RecoveryTest, SlowLoadIsNoLoss) {
  options_.limits.start = options_.limits.lease = options_.limits.recovery =
      absl::Milliseconds(200);
  step_deadline_ = absl::Milliseconds(200);
  cluster_.SetLoadTime("fake:2", absl::Milliseconds(600));
  Build(3);
  absl::SleepFor(absl::Milliseconds(300));
  const std::vector<WorkerSnapshot> meanwhile = registry_->Snapshot();
  EXPECT_EQ(recovery_->snapshot().state, ClusterState::kLoading);
  EXPECT_EQ(meanwhile[0].load_progress, 1);  // waits
  EXPECT_EQ(meanwhile[1].state, WorkerState::kLoading);
  EXPECT_GT(meanwhile[1].load_progress, 0);
  EXPECT_LT(meanwhile[1].load_progress, 1);
  ExpectReady();
  for (const std::string& address : addresses_) EXPECT_EQ(cluster_.loads(address), 1) << address;
  EXPECT_EQ(Generate(FakePrompt(20), 30)->Wait(), absl::OkStatus());
  EXPECT_EQ(recovery_->snapshot().losses, 0u);
}

TEST_F(RecoveryTest, StreamsWaitForASpareThatLoadsSlowly) {
  options_.limits.recovery = absl::Milliseconds(500);
  cluster_.SetLoadTime("fake:3", absl::Seconds(1));
  Build(2, 1);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  const auto stream = Generate(FakePrompt(100, 1), 100);
  stream->WaitForTokens(20);
  cluster_.Kill(addresses_[1]);
  ASSERT_EQ(stream->Wait(), absl::OkStatus());
  EXPECT_EQ(stream->tokens(), FakeContinuation(FakePrompt(100, 1), 100));
}

TEST_F(RecoveryTest, OneThatGoesWhileAnotherLoadsIsWaitedFor) {
  options_.limits.start = absl::Milliseconds(500);
  cluster_.SetLoadTime("fake:1", absl::Milliseconds(800));
  Build(2);
  absl::SleepFor(absl::Milliseconds(300));
  cluster_.Kill(addresses_[1]);
  absl::SleepFor(absl::Milliseconds(700));
  cluster_.Restart(addresses_[1]);
  ExpectReady();
  EXPECT_EQ(cluster_.loads(addresses_[0]), 1);
}

TEST_F(RecoveryTest, OneThatDiesOfLoadingIsNotWaitedForForEver) {
  options_.limits.start = absl::Milliseconds(300);
  cluster_.SetLoadTime("fake:1", absl::Seconds(30));
  std::atomic<bool> over = false;
  std::jthread killer([&] {
    while (!over) {
      absl::SleepFor(absl::Milliseconds(200));
      cluster_.Kill("fake:1");
      cluster_.Restart("fake:1");
    }
  });
  Build(2);
  EXPECT_TRUE(absl::IsUnavailable(recovery_->WaitReady(absl::Now() + kPatience)));
  over = true;
}

TEST_F(RecoveryTest, StoppingDoesNotWaitForALoad) {
  cluster_.SetLoadTime("fake:2", absl::Minutes(10));
  Build(2);
  absl::SleepFor(absl::Milliseconds(100));
  const absl::Time begin = absl::Now();
  Stop();
  EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
}

TEST_F(RecoveryTest, RefusedLoadIsSaidAtTheStart) {
  cluster_.FailLoads("fake:2", NotFound("model.gguf: no such part"));
  Build(2);
  const absl::Status status = recovery_->WaitReady(absl::Now() + kPatience);
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_NE(Message(status).find("w1"), std::string_view::npos);
}

TEST_F(RecoveryTest, UnreachableWorkerIsNamedAtTheStart) {
  options_.limits.start = absl::Milliseconds(300);
  cluster_.AddWorker("fake:1");
  Build(2);
  cluster_.Kill(addresses_[1]);
  const absl::Status status = recovery_->WaitReady(absl::Now() + kPatience);
  EXPECT_TRUE(status.ok() || Message(status).find("worker w1 at fake:2") != std::string_view::npos)
      << status;
}

// It comes up each time, but no step gets through.
TEST_F(RecoveryTest, OneThatComesAndGoesDoesNotHoldRequestsForEver) {
  options_.limits.recovery = absl::Seconds(1);
  Build(2);
  cluster_.SetStepTime(absl::Milliseconds(300), absl::ZeroDuration());
  ExpectReady();
  const auto stream = Generate(FakePrompt(10, 1), 1000);
  std::jthread flapping([&](const std::stop_token& stop) {
    for (; !stop.stop_requested(); absl::SleepFor(absl::Milliseconds(5))) {
      if (recovery_->snapshot().state != ClusterState::kReady) continue;
      cluster_.Kill(addresses_[1]);
      cluster_.Restart(addresses_[1]);
    }
  });
  const absl::Status status = stream->Wait();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  flapping.request_stop();
  flapping.join();
  cluster_.SetStepTime(absl::ZeroDuration(), absl::ZeroDuration());
  absl::Status after = Generate(FakePrompt(10, 1), 5)->Wait();
  for (int i = 0; i < 500 && !after.ok(); ++i) {
    absl::SleepFor(absl::Milliseconds(10));
    after = Generate(FakePrompt(10, 1), 5)->Wait();
  }
  EXPECT_EQ(after, absl::OkStatus());
}

TEST_F(RecoveryTest, PoisonousRequestEndsAlone) {
  Build(2);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  // Greedy answers that do not touch the token, one before and many beside the poison.
  cluster_.FailOnToken(999, Internal("NaN in layer 3"));
  std::vector<TokenId> poison = FakePrompt(10, 2);
  poison.push_back(999);
  std::vector<std::shared_ptr<Stream>> streams;
  std::vector<int> seeds;
  for (int seed = 1; streams.size() < 4; ++seed) {
    const auto want = FakeContinuation(FakePrompt(20, seed), 30);
    const auto prompt = FakePrompt(20, seed);
    if (std::count(want.begin(), want.end(), 999) + std::count(prompt.begin(), prompt.end(), 999) >
        0)
      continue;
    seeds.push_back(seed);
    streams.push_back(Generate(prompt, 30));
  }
  const auto bad = Generate(poison, 5);
  EXPECT_TRUE(absl::IsInternal(bad->Wait()));
  for (size_t i = 0; i < streams.size(); ++i) {
    EXPECT_EQ(streams[i]->Wait(), absl::OkStatus());
    EXPECT_EQ(streams[i]->tokens(), FakeContinuation(FakePrompt(20, seeds[i]), 30));
  }
}

TEST_F(RecoveryTest, DrainMovesLayersAndLosesNothing) {
  Build(2, 1);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  const auto stream = Generate(FakePrompt(100, 1), 200);
  stream->WaitForTokens(20);
  ASSERT_EQ(recovery_->Drain("w1", absl::Now() + kPatience), absl::OkStatus());
  cluster_.Kill(addresses_[1]);
  ASSERT_EQ(stream->Wait(), absl::OkStatus());
  EXPECT_EQ(stream->tokens(), FakeContinuation(FakePrompt(100, 1), 200));
  EXPECT_TRUE(absl::IsNotFound(recovery_->Drain("nobody", absl::Now())));
}

TEST_F(RecoveryTest, ADrainThatCannotBeDisturbsNobody) {
  placer_.least_workers = 2;
  Build(2);
  ExpectReady();
  const uint64_t epoch = recovery_->snapshot().epoch;
  const absl::Status status = recovery_->Drain("w1", absl::Now() + kPatience);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(recovery_->snapshot().epoch, epoch);
  EXPECT_EQ(registry_->Snapshot()[1].state, WorkerState::kReady);
}

TEST_F(RecoveryTest, ASpareThatJoinsTakesOver) {
  Build(2);
  cluster_.AddWorker("fake:3");
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  const auto stream = Generate(FakePrompt(100, 1), 200);
  stream->WaitForTokens(20);
  const uint64_t epoch = recovery_->snapshot().epoch;
  ASSERT_EQ(Rearrange({{0, 1}, {2}}), absl::OkStatus());
  EXPECT_EQ(recovery_->snapshot().epoch, epoch) << "nobody should have paused";
  EXPECT_EQ(registry_->Snapshot()[2].state, WorkerState::kReady);
  cluster_.Kill(addresses_[1]);
  ExpectGoesOn(stream, 200);
  EXPECT_EQ(Placed(), (std::vector<std::string>{"w0", "w2"}));
}

// In the middle, so that layers of both others move; it loads before anybody pauses.
TEST_F(RecoveryTest, AWorkerThatJoinsGetsLayers) {
  Build(2);
  cluster_.AddWorker("fake:3");
  cluster_.SetLoadTime("fake:3", absl::Milliseconds(300));
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  const auto stream = Generate(FakePrompt(100, 1), 600);
  stream->WaitForTokens(20);
  ASSERT_EQ(Rearrange({{0, 2, 1}, {}}), absl::OkStatus());
  EXPECT_EQ(Placed(), (std::vector<std::string>{"w0", "w2", "w1"}));
  EXPECT_EQ(cluster_.loads("fake:3"), 1);
  EXPECT_LT(recovery_->snapshot().last_pause, absl::Milliseconds(250));
  ExpectGoesOn(stream, 600);
  EXPECT_EQ(recovery_->snapshot().losses, 0u);
}

TEST_F(RecoveryTest, AWorkerThatJoinsIsMeasuredFirst) {
  Build(2);
  cluster_.AddWorker("fake:3");
  ExpectReady();
  placer_.wants_measure = true;
  ASSERT_EQ(Rearrange({{0, 1, 2}, {}}), absl::OkStatus());
  EXPECT_FALSE(placer_.wants_measure);
  const std::vector<Placement> placement = recovery_->snapshot().placement;
  ASSERT_EQ(placement.size(), 3u);
  EXPECT_EQ(placement[0].layers.size(), kLayers / 3 + 1);
  EXPECT_EQ(recovery_->snapshot().epoch, 2u);  // layers moved once
}

TEST_F(RecoveryTest, AWorkerThatLeavesGivesUpItsLayersFirst) {
  Build(3);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  const auto stream = Generate(FakePrompt(100, 1), 200);
  stream->WaitForTokens(20);
  ASSERT_EQ(Rearrange({{0, 2}, {}}), absl::OkStatus());
  EXPECT_EQ(Placed(), (std::vector<std::string>{"w0", "w2"}));
  EXPECT_EQ(registry_->Snapshot().size(), 2u);
  EXPECT_EQ(registry_->Find("w1"), std::nullopt);
  cluster_.Kill(addresses_[1]);
  ExpectGoesOn(stream, 200);
  EXPECT_EQ(recovery_->snapshot().losses, 0u);
  ASSERT_EQ(Rearrange({{0}, {2}}), absl::OkStatus());
  EXPECT_EQ(Placed(), std::vector<std::string>{"w0"});
}

TEST_F(RecoveryTest, ANewcomerThatIsNotThereYetIsTakenInLater) {
  options_.wait_for_pause = absl::Milliseconds(100);
  Build(2);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  ASSERT_EQ(Rearrange({{0, 1, 2}, {}}), absl::OkStatus());
  EXPECT_EQ(Placed(), (std::vector<std::string>{"w0", "w1"}));
  EXPECT_EQ(registry_->Snapshot()[2].state, WorkerState::kJoining);
  const auto stream = Generate(FakePrompt(100, 1), 600);
  stream->WaitForTokens(20);
  cluster_.AddWorker("fake:3");
  for (int i = 0; i < 1000 && Placed().size() < 3; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(Placed().size(), 3u);
  ExpectGoesOn(stream, 600);
}

TEST_F(RecoveryTest, AChangeThatCannotBeDisturbsNobody) {
  placer_.least_workers = 2;
  Build(2);
  cluster_.AddWorker("fake:3");
  cluster_.FailLoads("fake:3", NotFound("model.gguf: no such part"));
  ExpectReady();
  const uint64_t epoch = recovery_->snapshot().epoch;
  EXPECT_TRUE(absl::IsResourceExhausted(Rearrange({{0}, {}})));
  EXPECT_TRUE(absl::IsNotFound(Rearrange({{0, 1, 2}, {}})));
  EXPECT_EQ(recovery_->snapshot().epoch, epoch);
  EXPECT_EQ(registry_->Snapshot().size(), 2u);
  EXPECT_EQ(Generate(FakePrompt(10, 1), 5)->Wait(), absl::OkStatus());
}

// Workers come, go and die at random while streams run.
TEST_F(RecoveryTest, RandomChangesAndKillsChangeNothing) {
  std::mt19937 random(78);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<>(low, high)(random);
  };
  Build(3, 1);
  cluster_.SetStepTime(absl::Microseconds(200), absl::Microseconds(2));
  ExpectReady();
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < 6; ++i) streams.push_back(Generate(FakePrompt(30 + 10 * i, i), 600));
  const Numbers shapes[] = {{{0, 1}, {2}}, {{2, 0, 1}, {3}}, {{3, 1}, {}}, {{0, 1, 2, 3}, {}}};
  for (int change = 0; change < 12; ++change) {
    if (draw(0, 1) == 0) {
      const std::string victim = addresses_[draw(0, 3)];
      cluster_.Kill(victim);
      absl::SleepFor(absl::Milliseconds(draw(0, 20)));
      cluster_.Restart(victim);
    }
    EXPECT_EQ(Rearrange(shapes[draw(0, 3)]), absl::OkStatus());
    absl::SleepFor(absl::Milliseconds(draw(0, 40)));
  }
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(streams[i]->Wait(), absl::OkStatus());
    EXPECT_EQ(streams[i]->tokens(), FakeContinuation(FakePrompt(30 + 10 * i, i), 600));
  }
}

TEST_F(RecoveryTest, CancelledStreamEndsAndOthersGoOn) {
  Build(2);
  cluster_.SetStepTime(absl::Milliseconds(1), absl::ZeroDuration());
  ExpectReady();
  const auto gone = Generate(FakePrompt(100, 1), 1000);
  const auto stays = Generate(FakePrompt(100, 2), 50);
  gone->WaitForTokens(5);
  pipeline_->Cancel(1);
  EXPECT_TRUE(absl::IsCancelled(gone->Wait()));
  EXPECT_EQ(stays->Wait(), absl::OkStatus());
  EXPECT_EQ(stays->tokens(), FakeContinuation(FakePrompt(100, 2), 50));
}

// Kills at random, sometimes two at once, while eight streams run: all of them have the tokens of
// an undisturbed run.
TEST_F(RecoveryTest, RandomKillsChangeNothing) {
  std::mt19937 random(77);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<>(low, high)(random);
  };
  Build(4);
  cluster_.SetStepTime(absl::Microseconds(200), absl::Microseconds(2));
  ExpectReady();
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < 8; ++i) streams.push_back(Generate(FakePrompt(30 + 10 * i, i), 500));
  for (int kill = 0; kill < 30; ++kill) {
    absl::SleepFor(absl::Milliseconds(draw(5, 60)));
    const std::string first = addresses_[draw(0, 3)], second = addresses_[draw(0, 3)];
    const bool both = draw(0, 3) == 0;
    if (draw(0, 3) == 0) cluster_.Cut(second);
    cluster_.Kill(first);
    if (both) cluster_.Kill(second);
    absl::SleepFor(absl::Milliseconds(draw(0, 30)));
    cluster_.Restart(first);
    if (both) cluster_.Restart(second);
  }
  for (int i = 0; i < 8; ++i) {
    ASSERT_EQ(streams[i]->Wait(), absl::OkStatus());
    EXPECT_EQ(streams[i]->tokens(), FakeContinuation(FakePrompt(30 + 10 * i, i), 500));
  }
  const SchedulerStats stats = pipeline_->stats().scheduler;
  EXPECT_GT(stats.restarts, 5u);
}

}  // namespace
}  // namespace baton::coordinator
