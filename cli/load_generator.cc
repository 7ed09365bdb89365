#include "cli/load_generator.h"

#include <absl/time/clock.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "cli/exit_code.h"
#include "engine/base/steady_time.h"

namespace baton::cli {
namespace {

using coordinator::GenerationChunk;
using coordinator::GenerationRequest;
using engine::TokenId;

constexpr int32_t kMaxLength = 1 << 20;
constexpr absl::Duration kCountersLag = absl::Milliseconds(250);  // a coordinator's are older
constexpr double kLongestOfMean = 8;  // an exponential distribution is cut there

bool ReadCount(std::string_view text, int32_t* count) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *count);
  return error == std::errc() && end == text.data() + text.size() && *count >= 1 &&
         *count <= kMaxLength;
}

// Draws the requests of a plan; the same seed draws the same ones.
class RequestSource {
 public:
  RequestSource(const LoadPlan& plan, int32_t vocab_size)
      : plan_(plan), vocab_size_(vocab_size), random_(plan.seed) {
    for (int32_t i = 0; i < plan.shared_prefix; ++i) prefix_.push_back(DrawToken());
  }

  GenerationRequest Next() {
    GenerationRequest request;
    const int32_t length = plan_.prompt.Draw(random_);
    std::vector<TokenId> ids(prefix_.begin(),
                             prefix_.begin() + std::min<size_t>(prefix_.size(), length));
    while (static_cast<int32_t>(ids.size()) < length) ids.push_back(DrawToken());
    request.prompt = coordinator::TokenPrompt{std::move(ids)};
    request.max_tokens = plan_.output.Draw(random_);
    request.ignore_eos = true;  // the plan says how long answers are
    request.sampling.temperature = 0;
    request.speculation = plan_.speculation;
    request.deadline = SteadyNow() + plan_.timeout;
    return request;
  }

  absl::Duration NextPause() {
    return absl::Seconds(std::exponential_distribution<double>(plan_.rate_per_s)(random_));
  }

 private:
  TokenId DrawToken() {
    return std::uniform_int_distribution<TokenId>(0, std::max(vocab_size_, 1) - 1)(random_);
  }

  const LoadPlan& plan_;
  const int32_t vocab_size_;
  std::mt19937_64 random_;
  std::vector<TokenId> prefix_;
};

// Traces of requests on their way, and how many those are. Sinks call from any thread.
class Traces {
 public:
  explicit Traces(size_t count) : traces_(count) {}

  void Send(coordinator::LlmService* service, GenerationRequest request, size_t index,
            absl::Time arrived) {
    {
      const std::lock_guard lock(mutex_);
      traces_[index].arrived = arrived;
      traces_[index].prompt_tokens =
          static_cast<int32_t>(std::get<coordinator::TokenPrompt>(request.prompt).ids.size());
      ++open_;
    }
    const auto id = service->Generate(
        request, [this, index](GenerationChunk chunk) { OnChunk(index, std::move(chunk)); });
    if (!id.ok()) End(index, id.status());
  }

  void WaitUntilOpenBelow(int32_t limit) {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return open_ < limit; });
  }

  std::vector<RequestTrace> Take() {
    WaitUntilOpenBelow(1);
    return std::move(traces_);
  }

 private:
  void OnChunk(size_t index, GenerationChunk chunk) {
    {
      const std::lock_guard lock(mutex_);
      const absl::Time now = SteadyNow();
      traces_[index].tokens.insert(traces_[index].tokens.end(), chunk.tokens.size(), now);
    }
    if (chunk.last()) End(index, chunk.status);
  }

  void End(size_t index, const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    traces_[index].ended = SteadyNow();
    traces_[index].status = status;
    --open_;
    ended_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<RequestTrace> traces_;  // guarded by mutex_
  int32_t open_ = 0;                  // guarded by mutex_
};

}  // namespace

absl::StatusOr<LengthDistribution> LengthDistribution::Parse(std::string_view flag,
                                                             std::string_view text) {
  constexpr std::string_view kExponential = "exp:";
  LengthDistribution lengths;
  const auto refuse = [&] {
    return WithExitCode(
        InvalidArgument("{}: got {}, expected a length as 128, a range as 16-512 or exp:128 (1 to "
                        "{} tokens)",
                        flag, text, kMaxLength),
        kUsage);
  };
  if (text.starts_with(kExponential)) {
    int32_t mean = 0;
    if (!ReadCount(text.substr(kExponential.size()), &mean)) return refuse();
    lengths.exponential_ = true;
    lengths.mean_ = mean;
    lengths.max_ = static_cast<int32_t>(std::min<double>(mean * kLongestOfMean, kMaxLength));
    return lengths;
  }
  const size_t dash = text.find('-');
  if (!ReadCount(text.substr(0, dash), &lengths.min_)) return refuse();
  lengths.max_ = lengths.min_;
  if (dash != std::string_view::npos && !ReadCount(text.substr(dash + 1), &lengths.max_))
    return refuse();
  if (lengths.max_ < lengths.min_) return refuse();
  return lengths;
}

int32_t LengthDistribution::Draw(std::mt19937_64& random) const {
  if (!exponential_) return std::uniform_int_distribution<int32_t>(min_, max_)(random);
  const double length = std::exponential_distribution<double>(1 / mean_)(random);
  return std::clamp(static_cast<int32_t>(length + 0.5), 1, max_);
}

LoadResult RunLoad(coordinator::LlmService* service, const LoadPlan& plan) {
  LoadResult result;
  result.before = service->cluster();
  RequestSource source(plan, service->model().vocab_size);
  Traces traces(plan.requests);
  result.begin = SteadyNow();
  absl::Time arrival = result.begin;
  for (int32_t i = 0; i < plan.requests; ++i) {
    if (plan.rate_per_s > 0) {
      arrival += source.NextPause();
      absl::SleepFor(arrival - SteadyNow());
    } else {
      traces.WaitUntilOpenBelow(plan.clients);
      arrival = SteadyNow();
    }
    traces.Send(service, source.Next(), i, arrival);
  }
  result.requests = traces.Take();
  result.end = SteadyNow();
  absl::SleepFor(kCountersLag);
  result.after = service->cluster();
  return result;
}

}  // namespace baton::cli
