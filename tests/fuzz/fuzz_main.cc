// One program of all fuzz targets, so that what they share is built once:
//   baton_fuzz TARGET [libFuzzer's flags] [corpus folders]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "tests/fuzz/target.h"

namespace baton::fuzz {
namespace {

constexpr Target kTargets[] = {
    {"gguf", FuzzGguf, GgufSeeds}, {"split_set", FuzzSplitSet, SplitSetSeeds},
    {"topology", FuzzTopology},    {"wire", FuzzWire, WireSeeds},
    {"openai", FuzzOpenAi},        {"http", FuzzHttp},
    {"jinja", FuzzJinja},          {"tokenizer", FuzzTokenizer},
    {"grammar", FuzzGrammar},      {"journal", FuzzJournal},
    {"api_keys", FuzzApiKeys},
};

const Target* chosen = nullptr;
std::vector<std::string> seeds;

constexpr unsigned kSeedEvery = 50;  // mutations

}  // namespace
}  // namespace baton::fuzz

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Takes the target's name out of the arguments.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace baton::fuzz;
  const std::string_view name = *argc > 1 ? (*argv)[1] : "";
  chosen = std::find_if(std::begin(kTargets), std::end(kTargets),
                        [&](const Target& target) { return target.name == name; });
  if (chosen == std::end(kTargets)) {
    std::fprintf(stderr, "usage: %s TARGET [flags] [corpus]\ntargets:", (*argv)[0]);
    for (const Target& target : kTargets) std::fprintf(stderr, " %s", target.name.data());
    std::fputc('\n', stderr);
    std::exit(64);
  }
  if (chosen->seeds != nullptr) seeds = chosen->seeds();
  std::rotate(*argv + 1, *argv + 2, *argv + *argc);
  --*argc;
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int random) {
  using namespace baton::fuzz;
  if (!seeds.empty() && (size < 8 || random % kSeedEvery == 0)) {
    const std::string& seed = seeds[random / kSeedEvery % seeds.size()];
    if (seed.size() <= max_size) {
      std::memcpy(data, seed.data(), seed.size());
      size = seed.size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  baton::fuzz::chosen->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
