#include <algorithm>
#include <nlohmann/json.hpp>

#include "coordinator/planner.h"
#include "engine/base/units.h"

namespace baton::coordinator {

using engine::FormatBytes;

namespace {

std::string Row(std::string_view worker, std::string_view layers, std::string_view weights,
                std::string_view kv, std::string_view scratch, std::string_view memory,
                std::string_view budget, std::string_view time) {
  return fmt::format("{:<16} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9}\n", worker, layers,
                     weights, kv, scratch, memory, budget, time);
}

std::string Picture(const PlanRequest& request, const Plan& plan) {
  std::string picture = "client -> ";
  for (const PlanStage& stage : plan.stages) {
    picture += fmt::format("[{} {}-{}] -> ", request.workers[stage.worker].name, stage.layers.begin,
                           stage.layers.end - 1);
  }
  return picture + "client\n";
}

std::string_view ObjectiveName(Objective objective) {
  return objective == Objective::kLatency ? "latency" : "throughput";
}

}  // namespace

std::string PlanToText(const PlanRequest& request, const Plan& plan) {
  std::string text =
      Row("worker", "layers", "weights", "KV cache", "scratch", "memory", "has", "step");
  for (const PlanStage& stage : plan.stages) {
    const std::string step =
        plan.speeds_known ? fmt::format("{:.2f} ms", stage.seconds * 1e3) : "?";
    text += Row(request.workers[stage.worker].name,
                fmt::format("{}-{}", stage.layers.begin, stage.layers.end - 1),
                FormatBytes(stage.weights_bytes), FormatBytes(stage.kv_bytes),
                FormatBytes(stage.scratch_bytes), FormatBytes(stage.memory_bytes()),
                stage.budget_bytes > 0 ? FormatBytes(stage.budget_bytes) : "?", step);
    if (!stage.fits()) {
      text.insert(text.size() - 1,
                  fmt::format("  too little by {}",
                              FormatBytes(stage.memory_bytes() - stage.budget_bytes)));
    }
  }
  text += "\n" + Picture(request, plan);
  if (plan.speeds_known) {
    text += fmt::format("predicted: {:.1f} ms a token for one stream, {:.1f} tokens/s for {}",
                        plan.latency_s_per_token * 1e3, plan.tokens_per_s, request.sequences);
    if (plan.prompt_tokens_per_s > 0)
      text += fmt::format(", prompts {:.1f} tokens/s", plan.prompt_tokens_per_s);
    text += "\n";
  }
  for (const std::string& note : plan.notes) text += "- " + note + "\n";
  if (!plan.fits)
    text += "does not fit: lower context or sequences, raise memory, or add a worker\n";
  return text;
}

nlohmann::ordered_json PlanToJson(const PlanRequest& request, const Plan& plan,
                                  const std::vector<std::vector<std::string>>& parts) {
  nlohmann::ordered_json json;
  json["fits"] = plan.fits;
  json["stages"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const PlanStage& stage = plan.stages[i];
    nlohmann::ordered_json out;
    out["worker"] = request.workers[stage.worker].name;
    out["layers"] = {{"begin", stage.layers.begin}, {"end", stage.layers.end}};
    out["weights_bytes"] = stage.weights_bytes;
    out["kv_bytes"] = stage.kv_bytes;
    out["scratch_bytes"] = stage.scratch_bytes;
    out["memory_bytes"] = stage.memory_bytes();
    out["budget_bytes"] =
        stage.budget_bytes > 0 ? nlohmann::ordered_json(stage.budget_bytes) : nullptr;
    out["fits"] = stage.fits();
    out["parts"] = i < parts.size() ? parts[i] : std::vector<std::string>();
    out["stage_ms"] = plan.speeds_known ? nlohmann::ordered_json(stage.seconds * 1e3) : nullptr;
    json["stages"].push_back(std::move(out));
  }
  const auto known = [&](double value) {
    return plan.speeds_known ? nlohmann::ordered_json(value) : nullptr;
  };
  json["predicted"] = {
      {"latency_ms_per_token", known(plan.latency_s_per_token * 1e3)},
      {"tokens_per_s", known(plan.tokens_per_s)},
      {"prompt_tokens_per_s",
       plan.prompt_tokens_per_s > 0 ? nlohmann::ordered_json(plan.prompt_tokens_per_s) : nullptr}};
  json["objective"] = ObjectiveName(request.objective);
  json["notes"] = plan.notes;
  return json;
}

}  // namespace baton::coordinator
