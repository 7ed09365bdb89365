#include "cli/load_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;

// The value at or below which a share of the sorted values lies.
double NearestRank(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

void AddTrace(const RequestTrace& trace, LoadReport* report) {
  if (!trace.status.ok()) {
    if (report->failed++ == 0) report->first_error = Message(trace.status);
    return;
  }
  ++report->completed;
  report->prompt_tokens += trace.prompt_tokens;
  report->output_tokens += static_cast<int64_t>(trace.tokens.size());
  report->latency_ms.push_back(absl::ToDoubleMilliseconds(trace.ended - trace.arrived));
  if (trace.tokens.empty()) return;
  report->ttft_ms.push_back(absl::ToDoubleMilliseconds(trace.tokens[0] - trace.arrived));
  for (size_t i = 1; i < trace.tokens.size(); ++i) {
    report->tbt_ms.push_back(absl::ToDoubleMilliseconds(trace.tokens[i] - trace.tokens[i - 1]));
  }
}

// Counters begin anew where the pipeline was rebuilt with other stages.
std::vector<StageShare> StageShares(const LoadResult& result) {
  const auto& before = result.before.pipeline.stages;
  const auto& after = result.after.pipeline.stages;
  std::vector<StageShare> shares;
  for (size_t i = 0; i < after.size() && i < result.after.state.placement.size(); ++i) {
    const coordinator::Placement& placement = result.after.state.placement[i];
    StageShare share{.layers = placement.layers};
    if (placement.worker < result.after.workers.size()) {
      share.worker = result.after.workers[placement.worker].name;
    }
    const bool same = before.size() == after.size() && after[i].steps >= before[i].steps;
    share.steps = after[i].steps - (same ? before[i].steps : 0);
    const double compute_us =
        static_cast<double>(after[i].compute_us - (same ? before[i].compute_us : 0));
    if (share.steps > 0) share.step_ms = compute_us / 1e3 / static_cast<double>(share.steps);
    if (result.seconds() > 0) share.busy_share = std::min(1.0, compute_us / 1e6 / result.seconds());
    shares.push_back(std::move(share));
  }
  return shares;
}

std::string QuantilesRow(std::string_view name, const Quantiles& q) {
  return fmt::format("{:<22} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f}\n", name, q.mean,
                     q.p50, q.p95, q.p99, q.max);
}

Json QuantilesJson(const Quantiles& q) {
  return {{"mean", q.mean}, {"p50", q.p50}, {"p95", q.p95}, {"p99", q.p99}, {"max", q.max}};
}

// One curve of the picture: a logarithmic axis of milliseconds, a linear one of shares.
struct Axis {
  static constexpr double kLeft = 60, kTop = 30, kWidth = 560, kHeight = 260;
  double low_ms = 1, high_ms = 10;

  double X(double ms) const {
    const double share = std::log(std::max(ms, low_ms) / low_ms) / std::log(high_ms / low_ms);
    return kLeft + kWidth * std::clamp(share, 0.0, 1.0);
  }
  static double Y(double share) { return kTop + kHeight * (1 - share); }
};

std::string Curve(const Axis& axis, std::vector<double> values, std::string_view colour) {
  if (values.empty()) return "";
  std::ranges::sort(values);
  constexpr int kPoints = 200;
  std::string points;
  for (int i = 0; i <= kPoints; ++i) {
    const double share = static_cast<double>(i) / kPoints;
    points += fmt::format("{:.1f},{:.1f} ", axis.X(NearestRank(values, share)), Axis::Y(share));
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                     points, colour);
}

}  // namespace

Quantiles QuantilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  return {.mean = std::accumulate(values.begin(), values.end(), 0.0) /
                  static_cast<double>(values.size()),
          .p50 = NearestRank(values, 0.50),
          .p95 = NearestRank(values, 0.95),
          .p99 = NearestRank(values, 0.99),
          .max = values.back()};
}

LoadReport MakeLoadReport(const LoadResult& result) {
  LoadReport report;
  report.seconds = result.seconds();
  for (const RequestTrace& trace : result.requests) AddTrace(trace, &report);
  const auto& before = result.before.pipeline.scheduler;
  const auto& after = result.after.pipeline.scheduler;
  report.cached_tokens = after.cached_tokens - before.cached_tokens;
  report.drafted_tokens = after.drafted_tokens - before.drafted_tokens;
  report.accepted_tokens = after.accepted_tokens - before.accepted_tokens;
  report.stages = StageShares(result);
  return report;
}

std::string LoadReportText(const LoadReport& report) {
  std::string text = fmt::format(
      "{} requests in {:.1f} s ({:.2f}/s), {} failed; {} prompt tokens ({} cached), {} new tokens: "
      "{:.1f} tokens/s\n\n",
      report.completed, report.seconds, report.requests_per_s(), report.failed,
      report.prompt_tokens, report.cached_tokens, report.output_tokens, report.tokens_per_s());
  text += fmt::format("{:<22} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "milliseconds", "mean", "p50",
                      "p95", "p99", "max");
  text += QuantilesRow("to the first token", QuantilesOf(report.ttft_ms));
  text += QuantilesRow("between tokens", QuantilesOf(report.tbt_ms));
  text += QuantilesRow("whole answer", QuantilesOf(report.latency_ms));
  if (report.drafted_tokens > 0) {
    text += fmt::format("guessed {} tokens, {:.0f}% right\n", report.drafted_tokens,
                        100.0 * static_cast<double>(report.accepted_tokens) /
                            static_cast<double>(report.drafted_tokens));
  }
  text += "\n";
  for (const StageShare& stage : report.stages) {
    text += fmt::format(
        "{:<16} {:>9}  {:>7} steps of {:>8.2f} ms  busy {:>5.1f}%  bubbles {:>5.1f}%\n",
        stage.worker, fmt::format("{}-{}", stage.layers.begin, stage.layers.end - 1), stage.steps,
        stage.step_ms, stage.busy_share * 100, (1 - stage.busy_share) * 100);
  }
  if (report.failed > 0) text += fmt::format("first failure: {}\n", report.first_error);
  return text;
}

Json LoadReportJson(const LoadReport& report) {
  Json stages = Json::array();
  for (const StageShare& stage : report.stages) {
    stages.push_back({{"worker", stage.worker},
                      {"layers", {{"begin", stage.layers.begin}, {"end", stage.layers.end}}},
                      {"steps", stage.steps},
                      {"step_ms", stage.step_ms},
                      {"busy_share", stage.busy_share},
                      {"bubble_share", 1 - stage.busy_share}});
  }
  return {{"seconds", report.seconds},
          {"completed", report.completed},
          {"failed", report.failed},
          {"first_error", report.failed > 0 ? Json(report.first_error) : Json(nullptr)},
          {"prompt_tokens", report.prompt_tokens},
          {"cached_tokens", report.cached_tokens},
          {"output_tokens", report.output_tokens},
          {"drafted_tokens", report.drafted_tokens},
          {"accepted_tokens", report.accepted_tokens},
          {"tokens_per_s", report.tokens_per_s()},
          {"requests_per_s", report.requests_per_s()},
          {"ttft_ms", QuantilesJson(QuantilesOf(report.ttft_ms))},
          {"tbt_ms", QuantilesJson(QuantilesOf(report.tbt_ms))},
          {"latency_ms", QuantilesJson(QuantilesOf(report.latency_ms))},
          {"stages", stages}};
}

std::string LoadReportSvg(const LoadReport& report) {
  struct Series {
    std::string_view name;
    const std::vector<double>& values;
    std::string_view colour;
  };
  const Series all[] = {{"time to the first token", report.ttft_ms, "#1f77b4"},
                        {"time between tokens", report.tbt_ms, "#d62728"},
                        {"whole answer", report.latency_ms, "#2ca02c"}};
  Axis axis;
  for (const Series& series : all) {
    for (const double ms : series.values) axis.high_ms = std::max(axis.high_ms, ms);
  }
  axis.high_ms = std::pow(10, std::ceil(std::log10(axis.high_ms)));
  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"660\" height=\"360\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"660\" height=\"360\" "
      "fill=\"white\"/>\n";
  for (double ms = axis.low_ms; ms <= axis.high_ms * 1.01; ms *= 10) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>\n"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4:g} ms</text>\n",
        axis.X(ms), Axis::Y(1), Axis::Y(0), Axis::Y(0) + 16, ms);
  }
  for (const double share : {0.0, 0.5, 0.95, 1.0}) {
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" stroke=\"#ddd\"/>\n"
        "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.0f}%</text>\n",
        Axis::kLeft, Axis::Y(share), Axis::kLeft + Axis::kWidth, Axis::kLeft - 6,
        Axis::Y(share) + 4, share * 100);
  }
  double y = Axis::Y(0) + 34;
  double x = Axis::kLeft;
  for (const Series& series : all) {
    svg += Curve(axis, series.values, series.colour);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n", x, y,
                       series.colour, series.name);
    x += 180;
  }
  svg += fmt::format("<text x=\"{:.1f}\" y=\"18\">{} requests, {:.1f} tokens/s</text>\n</svg>\n",
                     Axis::kLeft, report.completed, report.tokens_per_s());
  return svg;
}

}  // namespace baton::cli
