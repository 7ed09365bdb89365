#include "cli/progress.h"

#include <algorithm>
#include <cstdio>

#include "cli/output.h"
#include "engine/base/steady_time.h"

namespace baton::cli {
namespace {

constexpr int kBarWidth = 30;
constexpr absl::Duration kInterval = absl::Milliseconds(100);

}  // namespace

Progress::Progress(std::string label) : label_(std::move(label)), visible_(StderrIsTerminal()) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\x1b[K", stderr);
}

void Progress::Update(uint64_t done, uint64_t total) {
  if (!visible_ || total == 0) return;
  const absl::Time now = SteadyNow();
  if (now < next_ && done < total) return;
  next_ = now + kInterval;
  drawn_ = true;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const int filled = static_cast<int>(share * kBarWidth);
  std::fprintf(stderr, "\r\x1b[K%s [%s%s] %3.0f%%", label_.c_str(),
               std::string(filled, '=').c_str(), std::string(kBarWidth - filled, ' ').c_str(),
               share * 100);
  std::fflush(stderr);
}

}  // namespace baton::cli
