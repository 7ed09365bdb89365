#include "cli/ready_line.h"

#include <fmt/format.h>

#include <cstdio>

namespace baton::cli {
namespace {

constexpr std::string_view kGrpc = "ready grpc=";
constexpr std::string_view kHttp = " http=";

}  // namespace

std::string FormatReadyLine(const ReadyLine& ready) {
  std::string line = fmt::format("{}{}", kGrpc, ready.grpc);
  return ready.http.empty() ? line : fmt::format("{}{}{}", line, kHttp, ready.http);
}

std::optional<ReadyLine> ParseReadyLine(std::string_view line) {
  if (!line.starts_with(kGrpc)) return std::nullopt;
  line.remove_prefix(kGrpc.size());
  const size_t http = line.find(kHttp);
  ReadyLine ready{.grpc = std::string(line.substr(0, http)), .http = {}};
  if (http != std::string_view::npos) ready.http = line.substr(http + kHttp.size());
  return ready;
}

void PrintReadyLine(const ReadyLine& ready) {
  std::fprintf(stderr, "%s\n", FormatReadyLine(ready).c_str());
}

}  // namespace baton::cli
