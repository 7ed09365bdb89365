// How fast text becomes tokens, and tokens text, on one core: bytes/s per vocabulary.
//
// Usage: tokenizer_benchmark [MODEL.gguf …] [--benchmark_…]
// Without models, those that scripts/fetch_model.sh has fetched. The text is English prose (the
// licence), and the odd kind of input that must not take more than linear time.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.h"
#include "engine/text/tokenizer.h"
#include "tests/support/real_model.h"

namespace baton::engine {
namespace {

constexpr const char* kFetchedModels[] = {"SmolLM2-135M-Instruct.Q4_1.gguf",
                                          "gemma-3-270m-q4_k_m.gguf"};

struct Text {
  const char* name;
  std::string bytes;
};

std::vector<Text> Texts() {
  std::ifstream file(BATON_ENGLISH_TEXT, std::ios::binary);
  std::string english((std::istreambuf_iterator<char>(file)), {});
  while (english.size() < 1'000'000) english += english;
  return {{"english", std::move(english)},
          {"one_letter", std::string(60'000, 'a')},
          {"spaces", std::string(1'000'000, ' ')}};
}

void Encode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& text) {
  size_t tokens = 0;
  for (auto _ : state) tokens = tokenizer.Encode(text, {}).size();
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["bytes/token"] = static_cast<double>(text.size()) / static_cast<double>(tokens);
}

void Decode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<TokenId> ids = tokenizer.Encode(text, {});
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer.Decode(ids, false));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}

// Owns what the registered benchmarks work on.
struct Subject {
  std::string name;
  std::unique_ptr<Tokenizer> tokenizer;
};

absl::StatusOr<Subject> Open(const std::string& path) {
  ASSIGN_OR_RETURN(const GgufModel model, GgufModel::Open(path));
  ASSIGN_OR_RETURN(auto tokenizer, Tokenizer::Create(model.metadata()));
  return Subject{std::filesystem::path(path).stem().string(), std::move(tokenizer)};
}

int Main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<std::string> paths(argv + 1, argv + argc);
  if (paths.empty()) {
    for (const char* name : kFetchedModels) {
      if (const std::string path = testing::RealModelPath(name); !path.empty())
        paths.push_back(path);
    }
  }
  if (paths.empty()) {
    std::fprintf(stderr, "no model: name one, or run scripts/fetch_model.sh smollm2\n");
    return 66;
  }
  std::vector<Subject> subjects;
  for (const std::string& path : paths) {
    absl::StatusOr<Subject> subject = Open(path);
    if (!subject.ok()) {
      std::fprintf(stderr, "%s\n", std::string(subject.status().message()).c_str());
      return 65;
    }
    subjects.push_back(*std::move(subject));
  }
  const std::vector<Text> texts = Texts();
  for (const Subject& subject : subjects) {
    for (const Text& text : texts) {
      const auto add = [&](const char* verb, auto run) {
        benchmark::RegisterBenchmark((subject.name + '/' + verb + '/' + text.name).c_str(), run,
                                     std::cref(*subject.tokenizer), std::cref(text.bytes))
            ->Unit(benchmark::kMillisecond);
      };
      add("encode", Encode);
      add("decode", Decode);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace baton::engine

int main(int argc, char** argv) { return baton::engine::Main(argc, argv); }
