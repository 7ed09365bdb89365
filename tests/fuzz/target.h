// Fuzz targets: each gives any bytes to one reader of what comes from outside. A reader's sound
// answer is an error or a value that keeps the reader's promises.
#pragma once

#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baton::fuzz {

struct Target {
  std::string_view name;
  void (*run)(std::string_view input);
  // Enough for all that the format can say; longer inputs only take longer.
  size_t max_bytes;
  // Sound inputs, which random bytes would take long to find; null: corpus/NAME has them as files.
  std::vector<std::string> (*seeds)() = nullptr;
};

// Where bytes from outside break a promise, the fuzzer shall stop.
inline void Require(bool condition) {
  if (!condition) std::abort();
}

void FuzzGguf(std::string_view input);
std::vector<std::string> GgufSeeds();
void FuzzSplitSet(std::string_view input);
std::vector<std::string> SplitSetSeeds();
void FuzzTopology(std::string_view input);
void FuzzWire(std::string_view input);
std::vector<std::string> WireSeeds();
void FuzzOpenAi(std::string_view input);
void FuzzHttp(std::string_view input);
void FuzzJinja(std::string_view input);
void FuzzTokenizer(std::string_view input);
void FuzzGrammar(std::string_view input);
void FuzzJournal(std::string_view input);
void FuzzApiKeys(std::string_view input);

}  // namespace baton::fuzz
