// Every vocabulary of the conformance data: ids and texts equal the reference's. New files need no
// new test.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.h"
#include "engine/text/tokenizer.h"
#include "tests/support/test_data.h"

namespace baton::engine {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

fs::path VocabularyDir() { return fs::path(testing::TestDataDir()) / "conformance" / "vocab"; }

std::vector<fs::path> VocabularyFiles() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(VocabularyDir())) {
    if (entry.path().extension() == ".gguf") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::unique_ptr<Tokenizer> Load(const fs::path& file) {
  const auto model = GgufModel::Open(file);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return nullptr;
  auto tokenizer = Tokenizer::Create(model->metadata());
  EXPECT_TRUE(tokenizer.ok()) << file << ": " << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string ToHex(const std::string& bytes) {
  std::string hex;
  for (unsigned char byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

TEST(VocabularyFilesTest, TextsOfInpGiveIdsOfOut) {
  SKIP_WITHOUT_TEST_DATA();
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  int compared = 0;
  for (const fs::path& file : VocabularyFiles()) {
    if (!fs::exists(file.string() + ".out")) continue;
    const auto tokenizer = Load(file);
    ASSERT_NE(tokenizer, nullptr);
    std::string texts = ReadFile(file.string() + ".inp");
    std::istringstream lines(ReadFile(file.string() + ".out"));
    for (std::string line; std::getline(lines, line); ++compared) {
      const size_t end = std::min(texts.find(kSeparator), texts.size());
      const std::string text = texts.substr(0, end);
      texts.erase(0, std::min(end + kSeparator.size(), texts.size()));
      std::istringstream numbers(line);
      const std::vector<TokenId> expected(std::istream_iterator<TokenId>(numbers), {});
      EXPECT_EQ(tokenizer->Encode(text, {}), expected) << file << "\n" << text;
    }
  }
  EXPECT_GT(compared, 0);
}

TEST(VocabularyFilesTest, StringsGiveIdsAndBack) {
  SKIP_WITHOUT_TEST_DATA();
  for (const fs::path& file : VocabularyFiles()) {
    const std::string name = file.stem().string().substr(std::string("ggml-vocab-").size());
    const auto tokenizer = Load(file);
    ASSERT_NE(tokenizer, nullptr);
    std::ifstream rows(VocabularyDir() / (name + ".strings.jsonl"));
    int compared = 0;
    for (std::string line; std::getline(rows, line); ++compared) {
      const Json row = Json::parse(line);
      const std::string text = FromHex(row["hex"]);
      const std::vector<TokenId> expected = row["ids"];
      const auto ids = tokenizer->Encode(text, {.parse_special = row["parse_special"]});
      EXPECT_EQ(ids, expected) << name << " " << row["category"] << ": " << row["hex"] << "\n"
                               << text;
      EXPECT_EQ(ToHex(tokenizer->Decode(expected, true)), row["detok"]) << name << ": " << text;
      if (row.contains("detok_without_control")) {
        EXPECT_EQ(ToHex(tokenizer->Decode(expected, false)), row["detok_without_control"])
            << name << ": " << text;
      }
    }
    EXPECT_GT(compared, 0) << name;
  }
}

// Prints the rate; the bound is for machines under load and sanitizers.
TEST(VocabularyFilesTest, EnglishIsEncodedAtSpeed) {
  SKIP_WITHOUT_TEST_DATA();
  const std::string text =
      ReadFile(fs::path(testing::TestDataDir()) / "cases" / "public_reports.md");
  ASSERT_GT(text.size(), 10000u);
  for (const fs::path& file : VocabularyFiles()) {
    const auto tokenizer = Load(file);
    ASSERT_NE(tokenizer, nullptr);
    constexpr int kTimes = 5;
    const std::clock_t start = std::clock();
    size_t num_ids = 0;
    for (int i = 0; i < kTimes; ++i) num_ids += tokenizer->Encode(text, {}).size();
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    const double megabytes_per_second = kTimes * text.size() / 1e6 / seconds;
    std::cout << fmt::format("{}: {:.1f} MB/s, {:.1f} bytes a token\n", file.stem().string(),
                             megabytes_per_second, double(kTimes * text.size()) / num_ids);
    EXPECT_GT(megabytes_per_second, 0.2) << file;
  }
}

TEST(VocabularyFilesTest, SpecialTokensAreThoseOfTheManifest) {
  SKIP_WITHOUT_TEST_DATA();
  const Json manifest = Json::parse(ReadFile(VocabularyDir() / "manifest.json"));
  for (const Json& row : manifest["vocabs"]) {
    const auto tokenizer = Load(VocabularyDir() / row["file"].get<std::string>());
    ASSERT_NE(tokenizer, nullptr);
    EXPECT_EQ(tokenizer->vocab_size(), row["n_tokens"]) << row["name"];
    EXPECT_EQ(tokenizer->bos(), row["bos"]) << row["name"];
    EXPECT_EQ(tokenizer->eos(), row["eos"]) << row["name"];
    EXPECT_EQ(tokenizer->adds_bos(), row["add_bos"] == 1) << row["name"];
    EXPECT_TRUE(tokenizer->IsEndOfGeneration(tokenizer->eos())) << row["name"];
    const bool names_pre = row["pre"].is_string() && row["pre"] != "";
    EXPECT_EQ(tokenizer->warnings().empty(), names_pre) << row["name"];
  }
}

}  // namespace
}  // namespace baton::engine
