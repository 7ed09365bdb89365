// A picture of `baton bench`: how decode slows with depth, and what sequences gain by going
// together.
#pragma once

#include <span>
#include <string>

#include "cli/bench_result.h"
#include "engine/base/status.h"

namespace baton::cli {

// An SVG of two charts of tokens/s: against depth, a line for each batch and number of threads, and
// against batch, a line for each depth.
std::string DrawSpeedPlot(std::span<const BenchResult> results);

// Exit code 73 where the file cannot be written.
absl::Status WriteSpeedPlot(const std::string& path, std::span<const BenchResult> results);

}  // namespace baton::cli
