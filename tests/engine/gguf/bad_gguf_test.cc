// Every hostile or odd file of the shared collection, as its manifest says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/gguf/gguf_file.h"
#include "tests/support/test_data.h"

namespace baton::engine {
namespace {

struct Outcome {
  absl::Status status;
  double seconds;
  int64_t peak_growth_bytes;
};

int64_t PeakBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

Outcome OpenMeasured(const std::string& path) {
  const int64_t before = PeakBytes();
  const auto start = std::chrono::steady_clock::now();
  absl::Status status = GgufModel::Open(path).status();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {std::move(status), elapsed.count(), PeakBytes() - before};
}

std::string Lowercase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// Each group holds phrases of which the message has at least one.
void ExpectMentions(const absl::Status& status, const nlohmann::json& groups) {
  const std::string message = Lowercase(Message(status));
  for (const nlohmann::json& group : groups) {
    const bool found = std::ranges::any_of(group, [&](const nlohmann::json& phrase) {
      return message.find(Lowercase(phrase.get<std::string>())) != std::string::npos;
    });
    EXPECT_TRUE(found) << Message(status) << "\nmentions none of " << group;
  }
}

void CheckCase(const std::string& folder, const nlohmann::json& entry) {
  const Outcome outcome = OpenMeasured(folder + entry["name"].get<std::string>());
  EXPECT_LT(outcome.seconds, 1.0);
  EXPECT_LT(outcome.peak_growth_bytes, 32 << 20);
  // What only a model loader may refuse is a sound container.
  const bool container_ok = entry["expect"] == "accept" || entry["level"] == "model";
  if (container_ok) {
    EXPECT_TRUE(outcome.status.ok()) << Message(outcome.status);
  } else if (entry["expect"] == "reject") {
    EXPECT_FALSE(outcome.status.ok());
  }
  if (!outcome.status.ok()) {
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kDataLoss);
    ExpectMentions(outcome.status, entry["must_mention"]);
  }
}

TEST(BadGgufTest, BehavesAsTheManifestSays) {
  SKIP_WITHOUT_TEST_DATA();
  const std::string folder = testing::TestDataDir() + "/cases/bad_gguf/";
  const nlohmann::json manifest = nlohmann::json::parse(std::ifstream(folder + "manifest.json"));
  ASSERT_GT(manifest["cases"].size(), 100u);
  for (const nlohmann::json& entry : manifest["cases"]) {
    SCOPED_TRACE(entry["name"]);
    CheckCase(folder, entry);
  }
}

TEST(BadGgufTest, PolicyCases) {
  SKIP_WITHOUT_TEST_DATA();
  struct Policy {
    std::string_view file;
    bool accepted;
  };
  constexpr Policy kPolicies[] = {
      {"k_nested_array.gguf", false},
      {"a_align_24.gguf", false},
      {"a_align_1.gguf", false},
      {"a_align_4.gguf", false},
      {"a_align_2pow31_no_tensors.gguf", false},
      {"t_name_64.gguf", true},
      {"t_name_empty.gguf", false},
      {"k_key_uppercase_space.gguf", true},
      {"k_key_invalid_utf8.gguf", false},
      {"k_bool_2.gguf", false},
      {"k_bool_array_255.gguf", false},
      {"t_off_first_32.gguf", true},
      {"t_off_gap.gguf", true},
      {"a_layout_padded_to_64.gguf", true},
      {"t_dim_zero.gguf", true},
      {"s_count_type_u32/m-00001-of-00002.gguf", true},
      {"s_total_missing/m-00001-of-00002.gguf", false},
      {"s_entry_second_part/m-00002-of-00002.gguf", false},
  };
  for (const Policy& policy : kPolicies) {
    const std::string path =
        fmt::format("{}/cases/bad_gguf/{}", testing::TestDataDir(), policy.file);
    const absl::Status status = GgufModel::Open(path).status();
    EXPECT_EQ(status.ok(), policy.accepted) << policy.file << ": " << Message(status);
  }
}

}  // namespace
}  // namespace baton::engine
