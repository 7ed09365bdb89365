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
    {"gguf", FuzzGguf, 4096, GgufSeeds}, {"split_set", FuzzSplitSet, 4096, SplitSetSeeds},
    {"topology", FuzzTopology, 1024},    {"wire", FuzzWire, 4096, WireSeeds},
    {"openai", FuzzOpenAi, 1024},        {"http", FuzzHttp, 2048},
    {"jinja", FuzzJinja, 1024},          {"tokenizer", FuzzTokenizer, 512},
    {"grammar", FuzzGrammar, 512},       {"journal", FuzzJournal, 2048},
    {"api_keys", FuzzApiKeys, 1024},
};

// Flags of the command line come after these and win.
constexpr const char* kFlags[] = {
    "-entropic=0",     // to weigh the corpus by entropy takes more time than it is worth
    "-print_funcs=0",  // nor is it worth a symbolizer to name what is new
    "-malloc_limit_mb=64", "-rss_limit_mb=2048", "-timeout=25", "-print_final_stats=1"};

const Target* chosen = nullptr;
std::vector<std::string> seeds;

constexpr unsigned kSeedEvery = 50;  // mutations

}  // namespace
}  // namespace baton::fuzz

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Reports show where memory was taken by its nearest callers, and a use after free is found soon or
// not at all: more of both costs half of the time.
extern "C" const char* __asan_default_options() {
  return "malloc_context_size=6:quarantine_size_mb=16";
}

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
  static std::vector<char*> arguments = {(*argv)[0]};
  for (const char* flag : kFlags) arguments.push_back(const_cast<char*>(flag));
  arguments.insert(arguments.end(), *argv + 2, *argv + *argc);
  *argc = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  *argv = arguments.data();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int random) {
  using namespace baton::fuzz;
  max_size = std::min(max_size, chosen->max_bytes);
  size = std::min(size, max_size);
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
