// One line of `baton bench`: the same test, some times over.
#pragma once

#include <string>
#include <vector>

namespace baton::cli {

struct BenchResult {
  std::string test;  // load, prefill, decode, batched_decode
  int threads = 0;
  int tokens = 0;             // of a prompt or an answer
  int depth = 0;              // positions before them
  int batch = 1;              // sequences at once
  std::vector<double> rates;  // tokens/s, rising; of "load" loads/s
  double bandwidth_share = 0;
  double compute_share = 0;

  double median() const { return rates[rates.size() / 2]; }
};

}  // namespace baton::cli
