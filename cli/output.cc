#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "cli/exit_code.h"
#include "engine/base/quote.h"

namespace baton::cli {

absl::Status Print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return CannotWrite("standard output: {}", std::strerror(errno));
  }
  return absl::OkStatus();
}

absl::Status PrintJson(const nlohmann::ordered_json& document) {
  return Print(document.dump(-1, ' ', /*ensure_ascii=*/true,
                             nlohmann::ordered_json::error_handler_t::replace) +
               "\n");
}

absl::StatusOr<std::string> ReadStdin(size_t limit_bytes) {
  std::string text;
  char buffer[1 << 16];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) {
    if (text.size() + n > limit_bytes) {
      return InvalidArgument("standard input: more than {} bytes", limit_bytes);
    }
    text.append(buffer, n);
  }
  if (std::ferror(stdin) != 0) return Unknown("standard input: {}", std::strerror(errno));
  return text;
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int reason = errno;
    if (reason == ENOENT) return NotFound("{}: no such file", engine::Named(path));
    return Unknown("{}: {}", engine::Named(path), std::strerror(reason));
  }
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return Unknown("{}: {}", engine::Named(path), std::strerror(errno));
  return std::move(text).str();
}

bool StdoutIsTerminal() { return isatty(STDOUT_FILENO) == 1; }
bool StderrIsTerminal() { return isatty(STDERR_FILENO) == 1; }

}  // namespace baton::cli
