// baton bench --server: a load on a running cluster, as its clients see it.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "cli/server_flags.h"
#include "engine/base/status.h"

namespace baton::cli {

struct BenchServerFlags {
  ServerFlags server;
  int requests = 64;
  int clients = 8;
  double rate = 0;
  std::string prompt = "16-256";
  std::string output = "16-128";
  int shared_prefix = 0;
  uint64_t seed = 1;
  bool no_speculation = false;
};

void AddBenchServerFlags(CLI::App& app, BenchServerFlags* flags);
// `plot`: an SVG file to write, or empty.
absl::Status BenchServer(const BenchServerFlags& flags, const std::string& plot, bool json);

}  // namespace baton::cli
