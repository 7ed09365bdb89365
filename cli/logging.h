// Where baton's own words go: spdlog, to stderr, so that stdout holds results alone.
#pragma once

#include <string>

namespace baton::cli {

struct LoggingFlags {
  int verbosity = 0;            // 0: information, 1: debug, 2: all
  std::string format = "text";  // or "json": an object a line
};

// Sets the process's default logger. Once, before any thread starts.
void SetUpLogging(const LoggingFlags& flags);

}  // namespace baton::cli
