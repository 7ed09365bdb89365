// What a load test found: percentiles, throughput and bubbles, for people, programs and as a
// picture.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/load_generator.h"

namespace baton::cli {

// Of milliseconds; percentiles are values that were seen (nearest rank).
struct Quantiles {
  double mean = 0;
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
  double max = 0;
};
Quantiles QuantilesOf(std::vector<double> values);  // all 0 where there are none

struct StageShare {
  std::string worker = {};
  engine::LayerRange layers = {};
  uint64_t steps = 0;
  double busy_share = 0;  // of the whole test; the rest are bubbles
  double step_ms = 0;     // mean compute of a micro-batch
};

struct LoadReport {
  double seconds = 0;
  int32_t completed = 0;
  int32_t failed = 0;
  std::string first_error;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  std::vector<double> ttft_ms;     // time to the first token, by request
  std::vector<double> tbt_ms;      // time between tokens; tokens that came together are 0 apart
  std::vector<double> latency_ms;  // of whole answers
  uint64_t cached_tokens = 0;
  uint64_t drafted_tokens = 0;
  uint64_t accepted_tokens = 0;
  std::vector<StageShare> stages;

  double tokens_per_s() const { return seconds > 0 ? output_tokens / seconds : 0; }
  double requests_per_s() const { return seconds > 0 ? completed / seconds : 0; }
};

LoadReport MakeLoadReport(const LoadResult& result);
std::string LoadReportText(const LoadReport& report);
nlohmann::ordered_json LoadReportJson(const LoadReport& report);
// An SVG picture: how large a share of requests and tokens came within a time.
std::string LoadReportSvg(const LoadReport& report);

}  // namespace baton::cli
