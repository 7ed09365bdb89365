// Logits of the shared conformance models against exact arithmetic, within each file's own limits,
// on the KV types that have limits. Loops over the folders: a new file needs no new test.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/cuda_backend.h"
#include "engine/runtime/local_pipeline.h"
#include "tests/support/reference_files.h"
#include "tests/support/test_data.h"
#include "tests/support/tested_cuda.h"

namespace baton::engine {
namespace {

using nlohmann::json;

std::vector<std::string> ModelsOf(const std::string& folder) {
  std::vector<std::string> models;
  const std::string root = testing::TestDataDir();
  if (root.empty()) return models;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/conformance/" + folder)) {
    if (entry.path().extension() == ".gguf")
      models.push_back(folder + "/" + entry.path().stem().string());
  }
  std::ranges::sort(models);
  return models;
}

std::vector<std::string> AllModels() {
  std::vector<std::string> models = ModelsOf("models");
  for (std::string& model : ModelsOf("quants")) models.push_back(std::move(model));
  if (models.empty()) models.push_back("none");  // an instantiation without values fails
  return models;
}

double Nmse(std::span<const float> ours, std::span<const float> exact) {
  double error = 0;
  double power = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double difference = static_cast<double>(ours[i]) - exact[i];
    error += difference * difference;
    power += static_cast<double>(exact[i]) * exact[i];
  }
  return error / power;
}

// Logits of a case's stored positions: the last rows of the prompt, then one fed token after
// another.
std::vector<float> RunCase(LocalPipeline& pipeline, const json& test, size_t rows) {
  const auto prompt = test["prompt"].get<std::vector<TokenId>>();
  const auto fed = test["fed_after_prompt"].get<std::vector<TokenId>>();
  pipeline.Reset();
  auto logits = pipeline.Feed(prompt, prompt.size() - (rows - fed.size()));
  EXPECT_TRUE(logits.ok()) << logits.status();
  for (const TokenId token : fed) {
    const auto row = pipeline.Feed(std::span(&token, 1), 0);
    EXPECT_TRUE(row.ok()) << row.status();
    logits->insert(logits->end(), row->begin(), row->end());
  }
  return *logits;
}

void CheckArgmax(const json& test, std::span<const float> ours, size_t vocab_size,
                 double least_margin) {
  const auto argmax = test["exact"]["argmax"].get<std::vector<int>>();
  const auto margin = test["exact"]["margin"].get<std::vector<double>>();
  for (size_t row = 0; row < argmax.size(); ++row) {
    if (margin[row] <= least_margin) continue;
    const auto logits = ours.subspan(row * vocab_size, vocab_size);
    EXPECT_EQ(std::ranges::max_element(logits) - logits.begin(), argmax[row]) << "row " << row;
  }
}

struct KvCase {
  KvType type;
  const char* suffix;  // of the limits' names
};
constexpr KvCase kKvCases[] = {{KvType::kF32, "kv_f32"}, {KvType::kF16, "kv_f16"}};

void CheckLogits(const std::string& name, Backend& backend, std::span<const KvCase> kv_cases) {
  const std::string base = testing::TestDataDir() + "/conformance/" + name;
  const std::string folder = std::filesystem::path(base).parent_path().string() + "/";
  const json description = testing::ReadJson(base + ".json");
  const auto model = GgufModel::Open(base + ".gguf");
  ASSERT_TRUE(model.ok()) << model.status();
  for (const KvCase& kv : kv_cases) {
    auto pipeline =
        LocalPipeline::Open(*model, {.context_length = 512, .kv_type = kv.type}, &backend);
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    for (const json& test : description["cases"]) {
      const auto exact = testing::ReadFloats(folder + test["exact"]["logits"].get<std::string>());
      const auto shape = test["exact"]["shape"].get<std::vector<size_t>>();
      const auto ours = RunCase(*pipeline, test, shape[0]);
      ASSERT_EQ(ours.size(), exact.size());
      const double nmse = Nmse(ours, exact);
      const std::string case_name = test["name"].get<std::string>() + "_" + kv.suffix;
      const double limit = test["limits"][std::string("nmse_") + kv.suffix];
      const double theirs = kv.type == KvType::kF32
                                ? test["llamacpp"]["nmse_vs_exact"].get<double>()
                                : test["llamacpp"]["nmse_other_settings"]["kv_f16"].get<double>();
      ::testing::Test::RecordProperty(case_name, fmt::format("{:.4e}", nmse));
      // One line of docs/conformance.md, see scripts/conformance_table.py.
      const char* on = backend.device() == "cpu" ? "" : "cuda ";
      fmt::print("{}nmse {} {} {:.4e} {:.4e} {:.4e}\n", on, name, case_name, nmse, theirs, limit);
      EXPECT_LE(nmse, limit) << case_name;
      CheckArgmax(test, ours, shape[1], test["limits"][std::string("argmax_margin_") + kv.suffix]);
    }
  }
}

class ConformanceTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ConformanceTest, LogitsWithinLimits) {
  SKIP_WITHOUT_TEST_DATA();
  const auto backend = MakeBackend({.device = "cpu", .threads = 1});
  ASSERT_TRUE(backend.ok()) << backend.status();
  CheckLogits(GetParam(), **backend, kKvCases);
}

// Emulated threads are slow: one KV type.
TEST_P(ConformanceTest, LogitsOnCudaWithinLimits) {
  SKIP_WITHOUT_TEST_DATA();
  const auto backend = CudaBackend::Open(testing::TestedCuda(), 0);
  ASSERT_TRUE(backend.ok()) << backend.status();
  CheckLogits(GetParam(), **backend, std::span(kKvCases).last(1));
}

INSTANTIATE_TEST_SUITE_P(Files, ConformanceTest, ::testing::ValuesIn(AllModels()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace_if(
                               name,
                               [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
                               '_');
                           return name;
                         });

}  // namespace
}  // namespace baton::engine
