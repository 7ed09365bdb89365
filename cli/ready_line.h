// The line by which a server says that it serves, and where: "ready grpc=HOST:PORT
// [http=HOST:PORT]", on stderr.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace baton::cli {

struct ReadyLine {
  std::string grpc;
  std::string http;  // "": none
};

std::string FormatReadyLine(const ReadyLine& ready);
std::optional<ReadyLine> ParseReadyLine(std::string_view line);  // nullopt: another kind of line
void PrintReadyLine(const ReadyLine& ready);

}  // namespace baton::cli
