#include "coordinator/planner.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace baton::coordinator {

using engine::LayerRange;

namespace {

// Each worker more doubles the search; above, the order is as given.
constexpr size_t kMostInAnyOrder = 10;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

int32_t NumLayers(const PlanRequest& request) {
  return static_cast<int32_t>(request.cost.layers.size());
}

bool SpeedsKnown(const PlanRequest& request) {
  return std::all_of(request.workers.begin(), request.workers.end(),
                     [](const PlanWorker& worker) { return worker.read_bytes_per_s > 0; });
}

// Sequences that decode together when as many groups as workers follow each other.
int32_t GroupRows(const PlanRequest& request) {
  const int32_t workers = std::max<int32_t>(1, static_cast<int32_t>(request.workers.size()));
  return std::max(1, (request.sequences + workers - 1) / workers);
}

// Whether the stages compute at the same time, or one after another.
enum class Others : uint8_t { kBusy, kIdle };
Others OthersFor(Objective objective) {
  return objective == Objective::kLatency ? Others::kIdle : Others::kBusy;
}

double SecondsFor(const PlanRequest& request, size_t worker, const engine::StageCost& cost,
                  int32_t rows, Others others) {
  const PlanWorker& who = request.workers[worker];
  const double read_bytes = static_cast<double>(cost.read_bytes_per_token);
  if (!SpeedsKnown(request)) {  // memory stands for them
    return read_bytes / (who.memory_bytes > 0 ? static_cast<double>(who.memory_bytes) : 1e9);
  }
  const bool alone = others == Others::kIdle && who.alone_read_bytes_per_s > 0;
  double seconds = read_bytes / (alone ? who.alone_read_bytes_per_s : who.read_bytes_per_s);
  if (who.flops_per_s > 0)
    seconds += static_cast<double>(cost.flops_per_token) * rows / who.flops_per_s;
  return seconds;
}

// For a decode micro-batch of `rows`.
double DecodeSeconds(const PlanRequest& request, size_t worker, LayerRange layers, int32_t rows,
                     Others others) {
  return SecondsFor(request, worker, engine::CostOfStage(request.cost, layers), rows, others);
}

bool Weighted(const PlanRequest& request) {
  return std::ranges::all_of(request.workers,
                             [](const PlanWorker& worker) { return worker.weight > 0; });
}

// What is balanced. For throughput the output matrix counts by half: every decode step needs it,
// prompts hardly do.
double BalanceSeconds(const PlanRequest& request, size_t worker, LayerRange layers, int32_t rows) {
  engine::StageCost cost = engine::CostOfStage(request.cost, layers);
  if (request.objective == Objective::kThroughput && layers.end == NumLayers(request)) {
    cost.read_bytes_per_token -= request.cost.last.read_bytes_per_token / 2;
    cost.flops_per_token -= request.cost.last.flops_per_token / 2;
  }
  if (Weighted(request))
    return static_cast<double>(cost.read_bytes_per_token) / (request.workers[worker].weight * 1e9);
  return SecondsFor(request, worker, cost, rows, OthersFor(request.objective));
}

double LinkSeconds(const PlanRequest& request, size_t from, size_t to, double bytes) {
  if (request.links.empty() || !SpeedsKnown(request)) return 0;
  const PlanLink& link = request.links[from][to];
  return link.latency_s + (link.bytes_per_s > 0 ? bytes / link.bytes_per_s : 0);
}

double HiddenBytes(const PlanRequest& request, int32_t rows) {
  return sizeof(float) * static_cast<double>(request.hidden_size) * rows;
}

// Explicit ranges say the order, too.
bool AnyOrder(const PlanRequest& request) {
  return request.any_order && request.workers.size() <= kMostInAnyOrder &&
         std::ranges::none_of(request.workers,
                              [](const PlanWorker& w) { return w.layers.has_value(); });
}

bool Allows(const PlanWorker& worker, LayerRange layers) {
  if (worker.layers) return *worker.layers == layers;  // its load says which parts are missing
  if (worker.num_layers && *worker.num_layers != layers.size()) return false;
  if (worker.has_layer.empty()) return true;
  return std::all_of(worker.has_layer.begin() + layers.begin, worker.has_layer.begin() + layers.end,
                     [](bool has) { return has; });
}

// Why no division covers all layers.
absl::Status NoDivision(const PlanRequest& request) {
  for (int32_t layer = 0; layer < NumLayers(request); ++layer) {
    const bool found = std::any_of(
        request.workers.begin(), request.workers.end(), [layer](const PlanWorker& worker) {
          if (worker.layers) return layer >= worker.layers->begin && layer < worker.layers->end;
          return worker.has_layer.empty() || worker.has_layer[layer];
        });
    if (found) continue;
    return InvalidArgument(
        "{}: layer {} is in the models folder of no worker: copy its part there, or set "
        "fetch_parts",
        request.file, layer);
  }
  return InvalidArgument(
      "{}: layers: no contiguous division of layers 0-{} agrees with the given ranges and counts "
      "and the parts that workers have",
      request.file, NumLayers(request) - 1);
}

// Finds the best division by dynamic programming: best[w][l] is that of layers [0, l) whose last
// stage is on worker w.
class Program {
 public:
  Program(const PlanRequest& request, bool check_memory)
      : request_(request),
        num_layers_(NumLayers(request)),
        rows_(request.objective == Objective::kLatency ? 1 : GroupRows(request)) {
    const size_t workers = request.workers.size();
    seconds_.assign(workers, std::vector<double>((num_layers_ + 1) * (num_layers_ + 1), kInfinite));
    for (size_t w = 0; w < workers; ++w) {
      for (int32_t begin = 0; begin < num_layers_; ++begin) {
        for (int32_t end = begin + 1; end <= num_layers_; ++end) {
          const LayerRange range{begin, end};
          if (!Allows(request.workers[w], range)) continue;
          if (check_memory && !StageOn(request, w, range).fits()) continue;
          seconds_[w][Index(range)] = BalanceSeconds(request, w, range, rows_);
        }
      }
    }
  }

  // Ranges by worker; those of skipped ones are empty. Nothing: there is no division.
  std::vector<LayerRange> Solve() {
    const auto run = [this](double slowest, bool sum) {
      return AnyOrder(request_) ? RunAnyOrder(slowest, sum) : Run(slowest, sum);
    };
    if (request_.objective == Objective::kLatency) return run(/*slowest=*/kInfinite, /*sum=*/true);
    // The least bottleneck first; of all divisions that reach it, the one with the least latency.
    const std::vector<LayerRange> fastest = run(kInfinite, /*sum=*/false);
    if (fastest.empty()) return {};
    double slowest = 0;
    for (size_t w = 0; w < fastest.size(); ++w) {
      if (fastest[w].size() > 0) slowest = std::max(slowest, seconds_[w][Index(fastest[w])]);
    }
    return run(slowest, /*sum=*/true);
  }

 private:
  size_t Index(LayerRange range) const {
    return static_cast<size_t>(range.begin) * (num_layers_ + 1) + range.end;
  }

  bool MaySkip(size_t begin, size_t end) const {  // workers [begin, end)
    return std::none_of(request_.workers.begin() + begin, request_.workers.begin() + end,
                        [](const PlanWorker& w) { return w.layers || w.num_layers; });
  }

  std::vector<LayerRange> Run(double slowest, bool sum) const {
    struct Cell {
      double cost = kInfinite;
      int32_t begin = 0;      // of the last stage's range
      int32_t previous = -1;  // worker of the stage before
    };
    const size_t workers = request_.workers.size();
    std::vector<std::vector<Cell>> best(workers, std::vector<Cell>(num_layers_ + 1));
    const double hidden = HiddenBytes(request_, rows_);
    for (size_t w = 0; w < workers; ++w) {
      for (int32_t end = 1; end <= num_layers_; ++end) {
        const auto consider = [&](int32_t begin, int32_t previous, double before, double link) {
          const double seconds = seconds_[w][Index({begin, end})];
          if (seconds > slowest || before == kInfinite) return;
          const double cost = sum ? before + link + seconds : std::max(before, seconds);
          if (cost < best[w][end].cost) best[w][end] = {cost, begin, previous};
        };
        if (MaySkip(0, w)) consider(0, -1, 0, LinkSeconds(request_, 0, w + 1, 0));
        for (size_t p = 0; p < w; ++p) {
          if (!MaySkip(p + 1, w)) continue;
          const double link = LinkSeconds(request_, p + 1, w + 1, hidden);
          for (int32_t begin = 1; begin < end; ++begin) {
            consider(begin, static_cast<int32_t>(p), best[p][begin].cost, link);
          }
        }
      }
    }
    int32_t last = -1;
    double least = kInfinite;
    for (size_t w = 0; w < workers; ++w) {
      if (!MaySkip(w + 1, workers)) continue;
      const double cost =
          best[w][num_layers_].cost + (sum ? LinkSeconds(request_, w + 1, 0, 0) : 0);
      if (cost < least) {
        least = cost;
        last = static_cast<int32_t>(w);
      }
    }
    if (last < 0) return {};
    std::vector<LayerRange> ranges(workers);
    for (int32_t end = num_layers_; last >= 0;) {
      const Cell& cell = best[last][end];
      ranges[last] = {cell.begin, end};
      end = cell.begin;
      last = cell.previous;
    }
    return ranges;
  }

  // The same where any worker may follow any other: best[set][w][l] is that of layers [0, l) on the
  // workers of a set, w the last of them.
  std::vector<LayerRange> RunAnyOrder(double slowest, bool sum) const {
    struct Cell {
      double cost = kInfinite;
      int32_t begin = 0;
      int32_t previous = -1;
    };
    const int workers = static_cast<int>(request_.workers.size());
    const uint32_t all = (1u << workers) - 1;
    uint32_t needed = 0;  // a count was given, so it gets its layers
    for (int w = 0; w < workers; ++w) {
      if (request_.workers[w].num_layers) needed |= 1u << w;
    }
    std::vector<Cell> cells(size_t{all + 1} * workers * (num_layers_ + 1));
    const auto cell = [&](uint32_t set, int w, int32_t end) -> Cell& {
      return cells[(size_t{set} * workers + w) * (num_layers_ + 1) + end];
    };
    const double hidden = HiddenBytes(request_, rows_);
    for (uint32_t set = 1; set <= all; ++set) {
      for (int w = 0; w < workers; ++w) {
        const uint32_t before = set & ~(1u << w);
        if (before == set) continue;
        for (int32_t end = 1; end <= num_layers_; ++end) {
          Cell& best = cell(set, w, end);
          const auto consider = [&](int32_t begin, int32_t previous, double cost, double link) {
            const double seconds = seconds_[w][Index({begin, end})];
            if (seconds > slowest || cost == kInfinite) return;
            const double total = sum ? cost + link + seconds : std::max(cost, seconds);
            if (total < best.cost) best = {total, begin, previous};
          };
          if (before == 0) consider(0, -1, 0, LinkSeconds(request_, 0, w + 1, 0));
          for (int p = 0; p < workers; ++p) {
            if ((before >> p & 1) == 0) continue;
            const double link = LinkSeconds(request_, p + 1, w + 1, hidden);
            for (int32_t begin = 1; begin < end; ++begin)
              consider(begin, p, cell(before, p, begin).cost, link);
          }
        }
      }
    }
    uint32_t set = 0;
    int last = -1;
    double least = kInfinite;
    for (uint32_t used = 1; used <= all; ++used) {
      if ((used & needed) != needed) continue;
      for (int w = 0; w < workers; ++w) {
        const double cost =
            cell(used, w, num_layers_).cost + (sum ? LinkSeconds(request_, w + 1, 0, 0) : 0);
        if (cost >= least) continue;
        least = cost;
        set = used;
        last = w;
      }
    }
    if (last < 0) return {};
    std::vector<LayerRange> ranges(workers);
    for (int32_t end = num_layers_; last >= 0;) {
      const Cell& best = cell(set, last, end);
      ranges[last] = {best.begin, end};
      set &= ~(1u << last);
      end = best.begin;
      last = best.previous;
    }
    return ranges;
  }

  const PlanRequest& request_;
  const int32_t num_layers_;
  const int32_t rows_;
  std::vector<std::vector<double>> seconds_;  // [workers][begin * (num_layers + 1) + end]
};

void Explain(const PlanRequest& request, Plan* plan) {
  if (request.any_order && !AnyOrder(request)) {
    plan->notes.push_back(
        request.workers.size() > kMostInAnyOrder
            ? fmt::format("the order is as given: it is chosen for up to {} workers",
                          kMostInAnyOrder)
            : "the order is as given, because layers are");
  }
  plan->notes.push_back(
      Weighted(request) ? "ranges by the given weights, by exact search"
      : plan->speeds_known
          ? "ranges by the workers' speeds, by exact search"
          : "speeds are not known: ranges in proportion to memory, by exact search");
  for (size_t w = 0; w < request.workers.size(); ++w) {
    const bool used = std::any_of(plan->stages.begin(), plan->stages.end(),
                                  [w](const PlanStage& stage) { return stage.worker == w; });
    if (!used)
      plan->notes.push_back(
          fmt::format("{} is left out: it would slow the others down", request.workers[w].name));
  }
}

// Seconds on the links of one trip: to the first stage, from stage to stage, and back.
double TripSeconds(const PlanRequest& request, const Plan& plan, int32_t rows) {
  double seconds = 0;
  size_t from = 0;
  for (const PlanStage& stage : plan.stages) {
    seconds +=
        LinkSeconds(request, from, stage.worker + 1, from == 0 ? 0 : HiddenBytes(request, rows));
    from = stage.worker + 1;
  }
  return seconds + LinkSeconds(request, from, 0, 0);
}

// Groups of sequences follow each other: each comes back after a whole trip, or when the slowest
// stage has done all.
double DecodeRate(const PlanRequest& request, const Plan& plan) {
  const int32_t groups =
      std::max(1, std::min(static_cast<int32_t>(plan.stages.size()), request.sequences));
  const int32_t rows = (request.sequences + groups - 1) / groups;
  double slowest = 0;
  double trip = TripSeconds(request, plan, rows);
  for (const PlanStage& stage : plan.stages) {
    const double seconds = DecodeSeconds(request, stage.worker, stage.layers, rows,
                                         groups > 1 ? Others::kBusy : Others::kIdle);
    slowest = std::max(slowest, seconds);
    trip += seconds;
  }
  return request.sequences / std::max(slowest * groups, trip);
}

// Chunks follow each other, so the slowest stage says how fast a long prompt is.
double PromptRate(const PlanRequest& request, const Plan& plan) {
  double slowest = 0;
  for (const PlanStage& stage : plan.stages) {
    const double flops_per_s = request.workers[stage.worker].prompt_flops_per_s;
    if (flops_per_s <= 0) return 0;
    engine::StageCost cost = engine::CostOfStage(request.cost, stage.layers);
    // Only the last row of a prompt goes through the output matrix.
    if (stage.layers.end == NumLayers(request))
      cost.flops_per_token -= request.cost.last.flops_per_token;
    slowest = std::max(slowest, static_cast<double>(cost.flops_per_token) / flops_per_s);
  }
  return slowest > 0 ? 1 / slowest : 0;
}

void Predict(const PlanRequest& request, Plan* plan) {
  if (!plan->speeds_known) return;
  plan->latency_s_per_token = TripSeconds(request, *plan, 1);
  for (const PlanStage& stage : plan->stages)
    plan->latency_s_per_token +=
        DecodeSeconds(request, stage.worker, stage.layers, 1, Others::kIdle);
  plan->tokens_per_s = DecodeRate(request, *plan);
  plan->prompt_tokens_per_s = PromptRate(request, *plan);
}

}  // namespace

PlanStage StageOn(const PlanRequest& request, size_t worker, LayerRange layers) {
  const engine::StageCost cost = engine::CostOfStage(request.cost, layers);
  PlanStage stage;
  stage.worker = worker;
  stage.layers = layers;
  stage.weights_bytes = cost.weights_bytes;
  stage.kv_bytes = cost.kv_bytes_per_position * static_cast<uint64_t>(request.kv_positions);
  stage.scratch_bytes = request.scratch_bytes;
  stage.budget_bytes = request.workers[worker].memory_bytes;
  stage.seconds =
      DecodeSeconds(request, worker, layers, GroupRows(request), OthersFor(request.objective));
  return stage;
}

PlanScore ScoreOf(const PlanRequest& request, const std::vector<PlanStage>& stages) {
  const int32_t rows = request.objective == Objective::kLatency ? 1 : GroupRows(request);
  PlanScore score;
  size_t from = 0;
  for (const PlanStage& stage : stages) {
    const double seconds = BalanceSeconds(request, stage.worker, stage.layers, rows);
    score.slowest_s = std::max(score.slowest_s, seconds);
    score.sum_s += seconds + LinkSeconds(request, from, stage.worker + 1,
                                         from == 0 ? 0 : HiddenBytes(request, rows));
    from = stage.worker + 1;
  }
  score.sum_s += LinkSeconds(request, from, 0, 0);
  return score;
}

absl::Status CheckGivenLayers(const PlanRequest& request) {
  const int32_t num_layers = NumLayers(request);
  int32_t covered = 0;  // layers up to here are given out
  bool open = false;    // workers with automatic ranges stand between
  const PlanWorker* before = nullptr;
  const auto where = [&](const PlanWorker& worker) {
    return fmt::format("{}:{}: worker {}", request.file, worker.line, worker.name);
  };
  for (const PlanWorker& worker : request.workers) {
    if (!worker.layers) {
      open = true;
      continue;
    }
    const LayerRange range = *worker.layers;
    if (range.begin < 0 || range.end > num_layers) {
      return InvalidArgument("{}: layers {}-{}, but the model has 0-{}", where(worker), range.begin,
                             range.end - 1, num_layers - 1);
    }
    if (range.begin < covered) {
      return InvalidArgument(
          "{}: layer {} is given to worker {} already; expected layers from {} on", where(worker),
          range.begin, before != nullptr ? before->name : "", covered);
    }
    if (range.begin > covered && !open) {
      return InvalidArgument("{}: layers begin at {}, but layer {} is given to no worker",
                             where(worker), range.begin, covered);
    }
    covered = range.end;
    open = false;
    before = &worker;
  }
  if (covered < num_layers && !open) {
    return InvalidArgument(
        "{}: layers {}-{} are given to no worker; the last one, {}, ends at layer {}", request.file,
        covered, num_layers - 1, before != nullptr ? before->name : "", covered - 1);
  }
  return absl::OkStatus();
}

absl::StatusOr<Plan> MakePlan(const PlanRequest& request) {
  if (request.workers.empty()) return InvalidArgument("{}: workers: there is none", request.file);
  RETURN_IF_ERROR(CheckGivenLayers(request));
  Plan plan;
  plan.speeds_known = SpeedsKnown(request);
  std::vector<LayerRange> ranges = Program(request, /*check_memory=*/true).Solve();
  plan.fits = !ranges.empty();
  if (!plan.fits) ranges = Program(request, /*check_memory=*/false).Solve();
  if (ranges.empty()) return NoDivision(request);
  for (size_t w = 0; w < ranges.size(); ++w) {
    if (ranges[w].size() > 0) plan.stages.push_back(StageOn(request, w, ranges[w]));
  }
  std::ranges::sort(plan.stages, {}, [](const PlanStage& stage) { return stage.layers.begin; });
  Explain(request, &plan);
  Predict(request, &plan);
  return plan;
}

}  // namespace baton::coordinator
