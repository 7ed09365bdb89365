// baton bench: how fast a model is on this machine, and how near that is to what the machine can
// do.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/bench_result.h"
#include "cli/bench_server.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/local_model.h"
#include "cli/machine_speed.h"
#include "cli/output.h"
#include "cli/speed_plot.h"
#include "cli/version.h"
#include "engine/arch/cost.h"
#include "engine/backend/cpu_peak.h"
#include "engine/base/steady_time.h"
#include "engine/base/thread_pool.h"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;
using engine::TokenId;

struct BenchFlags {
  ModelFlags model;
  std::string threads;
  std::string prompts = "512";
  std::string depths = "0";
  std::string batches = "1,16";
  int decode = 64;
  int repeat = 5;
  bool json = false;
  std::string plot;
};

struct Machine {
  double read_bytes_per_s = 0;
  double int8_ops_per_s = 0;
};

using Result = BenchResult;

// What is measured, each in every combination that makes sense.
struct Plan {
  std::vector<int> prompts;  // lengths; none: no prefill
  std::vector<int> depths;
  std::vector<int> batches;

  int longest_prompt() const { return prompts.empty() ? 0 : std::ranges::max(prompts); }
};

int32_t KvBlocksFor(int32_t positions) {
  return (positions + engine::kKvBlockPositions - 1) / engine::kKvBlockPositions;
}

// Ids that look like a text's: none twice in a row, spread over the vocabulary.
std::vector<TokenId> SomeTokens(int count, int32_t vocab_size) {
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i)
    ids.push_back(static_cast<TokenId>((int64_t{i} * 7919 + 13) % vocab_size));
  return ids;
}

// One position of each of `batch` sequences, with a greedy token from each, as decode has it.
engine::MicroBatch DecodeBatch(uint64_t id, int batch, int32_t position, int32_t blocks_each,
                               int32_t vocab_size) {
  engine::MicroBatch step{.id = id,
                          .epoch = 0,
                          .tokens = SomeTokens(batch, vocab_size),
                          .sequences = {},
                          .outputs = {}};
  for (int i = 0; i < batch; ++i) {
    engine::SequenceRows rows{.sequence_id = static_cast<uint64_t>(i),
                              .first_position = position,
                              .num_rows = 1,
                              .kv_blocks = {}};
    for (int32_t b = 0; b < KvBlocksFor(position + 1); ++b)
      rows.kv_blocks.push_back(i * blocks_each + b);
    step.sequences.push_back(std::move(rows));
    engine::OutputRow output;
    output.row = i;
    output.kind = engine::OutputKind::kSample;
    output.sampling.temperature = 0;
    step.outputs.push_back(std::move(output));
  }
  return step;
}

class Bench {
 public:
  Bench(const BenchFlags& flags, const Plan& plan, int threads)
      : flags_(flags), plan_(plan), threads_(threads) {}

  absl::Status Run(std::vector<Result>& results) {
    ASSIGN_OR_RETURN(Result load, Load());
    results.push_back(std::move(load));
    for (int depth : plan_.depths) {
      for (int prompt : plan_.prompts) {
        ASSIGN_OR_RETURN(Result prefill, Prefill(prompt, depth));
        results.push_back(std::move(prefill));
      }
      for (int batch : plan_.batches) {
        if (flags_.decode <= 0) break;
        ASSIGN_OR_RETURN(Result decode, Decode(batch, depth));
        results.push_back(std::move(decode));
      }
    }
    return absl::OkStatus();
  }

  const engine::GgufModel& file() const { return *model_.file; }
  const engine::HyperParams& hyperparams() const { return model_.pipeline->hyperparams(); }

 private:
  int32_t PositionsEach() const {
    return KvBlocksFor(std::ranges::max(plan_.depths) + flags_.decode + 1) *
           engine::kKvBlockPositions;
  }

  Result NewResult(std::string test, int tokens, int depth, int batch) const {
    return {.test = std::move(test),
            .threads = threads_,
            .tokens = tokens,
            .depth = depth,
            .batch = batch,
            .rates = {}};
  }

  // `count` times what `work` does, at so many units a time.
  template <typename Work>
  absl::Status Measure(double units, const Work& work, Result& result) {
    for (int i = 0; i < flags_.repeat; ++i) {
      const absl::Time begin = SteadyNow();
      RETURN_IF_ERROR(work());
      result.rates.push_back(units / absl::ToDoubleSeconds(SteadyNow() - begin));
    }
    std::ranges::sort(result.rates);
    return absl::OkStatus();
  }

  absl::StatusOr<Result> Load() {
    Result result = NewResult("load", 0, 0, 1);
    ModelFlags flags = flags_.model;
    flags.threads = threads_;
    const int32_t context = std::max(std::ranges::max(plan_.batches) * PositionsEach(),
                                     std::ranges::max(plan_.depths) + plan_.longest_prompt() + 1);
    RETURN_IF_ERROR(Measure(
        1,
        [&]() -> absl::Status {
          ASSIGN_OR_RETURN(auto file, OpenModelFile(flags.model));
          model_ = {};  // the one before goes first
          ASSIGN_OR_RETURN(model_, LoadLocalModel(std::move(file), flags, context));
          return absl::OkStatus();
        },
        result));
    return result;
  }

  absl::StatusOr<Result> Prefill(int prompt, int positions_before) {
    Result result = NewResult("prefill", prompt, positions_before, 1);
    const std::vector<TokenId> depth = SomeTokens(positions_before, model_.vocab_size());
    const std::vector<TokenId> tokens = SomeTokens(prompt, model_.vocab_size());
    RETURN_IF_ERROR(Feed(tokens));  // touches all weights once
    for (int i = 0; i < flags_.repeat; ++i) {
      model_.pipeline->Reset();
      if (!depth.empty()) RETURN_IF_ERROR(model_.pipeline->Feed(depth, depth.size()).status());
      const absl::Time begin = SteadyNow();
      RETURN_IF_ERROR(
          model_.pipeline->Feed(tokens, tokens.size() - 1, flags_.model.chunk).status());
      result.rates.push_back(prompt / absl::ToDoubleSeconds(SteadyNow() - begin));
    }
    std::ranges::sort(result.rates);
    return result;
  }

  absl::Status Feed(const std::vector<TokenId>& tokens) {
    model_.pipeline->Reset();
    return model_.pipeline->Feed(tokens, tokens.size() - 1, flags_.model.chunk).status();
  }

  // Positions before those that are decoded hold keys and values of their own: memory that nobody
  // has written is one page of zeros, which any cache holds.
  absl::Status FillCache(int batch, int depth) {
    if (depth == 0) return absl::OkStatus();
    RETURN_IF_ERROR(Feed(SomeTokens(engine::kKvBlockPositions, model_.vocab_size())));
    const int32_t blocks_each = PositionsEach() / engine::kKvBlockPositions;
    for (int i = 0; i < batch; ++i) {
      for (int32_t b = 0; b < KvBlocksFor(depth); ++b)
        RETURN_IF_ERROR(model_.pipeline->CopyKvBlock(0, i * blocks_each + b));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Result> Decode(int batch, int depth) {
    Result result =
        NewResult(batch == 1 ? "decode" : "batched_decode", flags_.decode, depth, batch);
    const auto run = [&](int32_t first, int32_t count) -> absl::Status {
      for (int32_t i = 0; i < count; ++i) {
        const auto step =
            DecodeBatch(++last_id_, batch, first + i, PositionsEach() / engine::kKvBlockPositions,
                        model_.vocab_size());
        RETURN_IF_ERROR(model_.pipeline->Run(step).status());
      }
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(FillCache(batch, depth));
    RETURN_IF_ERROR(run(depth, std::min(flags_.decode, 4)));
    RETURN_IF_ERROR(Measure(
        double(flags_.decode) * batch, [&] { return run(depth, flags_.decode); }, result));
    return result;
  }

  const BenchFlags& flags_;
  const Plan& plan_;
  const int threads_;
  uint64_t last_id_ = 0;
  LocalModel model_;
};

// Keys and values that a token at this position reads.
uint64_t KvBytesRead(const engine::HyperParams& hyperparams, engine::KvType type,
                     int32_t position) {
  uint64_t bytes = 0;
  for (int32_t i = 0; i < hyperparams.num_layers; ++i) {
    const int32_t window = hyperparams.layers[i].window;
    const int32_t seen = window > 0 ? std::min(window, position + 1) : position + 1;
    bytes += seen * engine::KvBytesPerPosition(hyperparams, i, type);
  }
  return bytes;
}

// What is the model's in what the tests' shares are of.
struct ModelNumbers {
  engine::HyperParams hyperparams;
  engine::KvType kv_type;
  engine::StageCost cost;
};

void SetShares(const ModelNumbers& model, const Machine& machine, Result& result) {
  if (result.test == "load") return;
  const engine::StageCost& cost = model.cost;
  if (result.test != "prefill") {
    const double steps_per_s = result.median() / result.batch;
    const uint64_t kv_bytes =
        KvBytesRead(model.hyperparams, model.kv_type, result.depth + result.tokens / 2);
    result.bandwidth_share =
        steps_per_s * static_cast<double>(cost.read_bytes_per_token + result.batch * kv_bytes) /
        machine.read_bytes_per_s;
  }
  result.compute_share =
      result.median() * static_cast<double>(cost.flops_per_token) / machine.int8_ops_per_s;
}

Json ResultJson(const Result& result) {
  const Json rates = {
      {"median", result.median()}, {"min", result.rates.front()}, {"max", result.rates.back()}};
  Json json = {{"test", result.test},
               {"threads", result.threads},
               {"tokens", result.tokens},
               {"depth", result.depth},
               {"batch", result.batch}};
  if (result.test == "load") {
    json["seconds"] = 1 / result.median();
    json["tokens_per_s"] = nullptr;
    json["bandwidth_share"] = nullptr;
    json["compute_share"] = nullptr;
  } else {
    json["tokens_per_s"] = rates;
    json["bandwidth_share"] = result.bandwidth_share;
    json["compute_share"] = result.compute_share;
  }
  return json;
}

std::string ResultLine(const Result& result) {
  if (result.test == "load")
    return fmt::format("load            {:>2} threads  {:>10.1f} ms\n", result.threads,
                       1000 / result.median());
  return fmt::format(
      "{:<14}  {:>2} threads  batch {:>3}  depth {:>5}  {:>9.1f} tokens/s ({:.1f} … {:.1f})  "
      "{:>3.0f}% of bandwidth  {:>3.0f}% of compute\n",
      result.test, result.threads, result.batch, result.depth, result.median(),
      result.rates.front(), result.rates.back(), result.bandwidth_share * 100,
      result.compute_share * 100);
}

uint64_t PeakResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

// Numbers from 0 on.
absl::StatusOr<std::vector<int>> ParsePositions(std::string_view flag, std::string_view text) {
  if (text == "0") return std::vector<int>{0};
  if (!text.starts_with("0,")) return ParseCounts(flag, text);
  ASSIGN_OR_RETURN(std::vector<int> positions, ParseCounts(flag, text.substr(2)));
  positions.insert(positions.begin(), 0);
  return positions;
}

absl::StatusOr<Plan> MakePlan(const BenchFlags& flags) {
  Plan plan;
  ASSIGN_OR_RETURN(plan.prompts, ParsePositions("--prefill", flags.prompts));
  std::erase(plan.prompts, 0);
  ASSIGN_OR_RETURN(plan.depths, ParsePositions("--depth", flags.depths));
  ASSIGN_OR_RETURN(plan.batches, ParseCounts("--batch", flags.batches));
  for (const std::vector<int>* counts : {&plan.prompts, &plan.depths, &plan.batches}) {
    constexpr int kMost = 1 << 20;
    for (int count : *counts) {
      if (count > kMost) return UsageError("bench: got {}, expected at most {}", count, kMost);
    }
  }
  return plan;
}

absl::Status Run(const BenchFlags& flags) {
  std::vector<int> threads = {engine::AvailableCpus()};
  if (!flags.threads.empty()) {
    ASSIGN_OR_RETURN(threads, ParseCounts("--threads", flags.threads));
  }
  ASSIGN_OR_RETURN(const Plan plan, MakePlan(flags));
  ASSIGN_OR_RETURN(const engine::KvType kv_type, ParseKvType("--kv-type", flags.model.kv_type));
  std::vector<Result> results;
  Json model;
  ModelNumbers numbers{.hyperparams = {}, .kv_type = kv_type, .cost = {}};
  for (int count : threads) {
    Bench bench(flags, plan, count);
    RETURN_IF_ERROR(bench.Run(results));
    if (!model.is_null()) continue;
    ASSIGN_OR_RETURN(const engine::ModelCost whole,
                     engine::CostOfModel(bench.file(), bench.hyperparams(), kv_type));
    numbers.hyperparams = bench.hyperparams();
    numbers.cost = engine::CostOfStage(whole, {0, bench.hyperparams().num_layers});
    model = {{"file", bench.file().parts()[0].path},
             {"bytes", bench.file().total_bytes()},
             {"architecture", std::string(bench.hyperparams().spec->name)},
             {"num_layers", bench.hyperparams().num_layers},
             {"read_bytes_per_token", numbers.cost.read_bytes_per_token},
             {"flops_per_token", numbers.cost.flops_per_token}};
  }
  const uint64_t rss_bytes = PeakResidentBytes();  // before the machine's own measures take memory
  Machine machine;
  const int most = std::ranges::max(threads);
  machine.read_bytes_per_s = MeasureReadBytesPerSecond(most);
  ASSIGN_OR_RETURN(machine.int8_ops_per_s, engine::MeasureInt8OpsPerSecond(most));
  for (Result& result : results) SetShares(numbers, machine, result);

  ASSIGN_OR_RETURN(const auto backend,
                   engine::MakeBackend({.device = flags.model.device, .threads = most}));
  if (!flags.plot.empty()) RETURN_IF_ERROR(WriteSpeedPlot(flags.plot, results));
  if (flags.json) {
    Json list = Json::array();
    for (const Result& result : results) list.push_back(ResultJson(result));
    const Json about_machine = {{"version", VersionLine()},
                                {"backend", std::string(backend->name())},
                                {"cpus", engine::AvailableCpus()},
                                {"read_GBps", machine.read_bytes_per_s / 1e9},
                                {"int8_GOPs", machine.int8_ops_per_s / 1e9}};
    return PrintJson({{"machine", about_machine},
                      {"model", model},
                      {"results", list},
                      {"rss_bytes", rss_bytes}});
  }
  std::string text = fmt::format("{}; reads {:.1f} GB/s, computes {:.0f} GOP/s\n", backend->name(),
                                 machine.read_bytes_per_s / 1e9, machine.int8_ops_per_s / 1e9);
  for (const Result& result : results) text += ResultLine(result);
  return Print(text);
}

}  // namespace

CommandBody DefineBench(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  auto server = std::make_shared<BenchServerFlags>();
  auto* model =
      app.add_option("-m,--model", flags->model.model, "GGUF file, or a model's name in the cache");
  AddServerFlags(app, server->server)
      ->description("HOST:PORT of a running coordinator: puts a load on it instead")
      ->excludes(model);
  app.add_option("-t,--threads", flags->threads,
                 "Thread counts to try, as 1,2; all that the process may use where absent");
  app.add_option("--prefill", flags->prompts, "Tokens of a prompt, as 128,512; 0: not measured")
      ->capture_default_str();
  app.add_option("--decode", flags->decode, "Tokens to generate; 0: not measured")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--depth", flags->depths, "Positions before those measured, as 0,4096")
      ->capture_default_str();
  app.add_option("--batch", flags->batches, "Sequences at once in decode, as 1,16")
      ->capture_default_str();
  app.add_option("--repeat", flags->repeat, "Times to measure each; the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--chunk", flags->model.chunk, "Rows of a prompt that are computed together")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--device", flags->model.device, "auto, cpu or cuda:N")->capture_default_str();
  app.add_option("--kv-type", flags->model.kv_type, "f16, f32 or q8_0")->capture_default_str();
  app.add_option("--plot", flags->plot,
                 "Draw tokens/s against depth and batch, or with --server how long what took, into "
                 "this SVG file");
  app.add_flag("--json", flags->json, "One JSON document");
  AddBenchServerFlags(app, server.get());
  return [flags, server] {
    if (server->server.given()) return BenchServer(*server, flags->plot, flags->json);
    if (flags->model.model.empty()) return UsageError("--model or --server: one of them is needed");
    return Run(*flags);
  };
}

}  // namespace baton::cli
