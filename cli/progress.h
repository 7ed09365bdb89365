// How far something is, on one line of stderr; silent where stderr is no terminal.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <string>

namespace baton::cli {

// One thread. The line goes away when the object does.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(uint64_t done, uint64_t total);

 private:
  const std::string label_;
  const bool visible_;
  bool drawn_ = false;
  absl::Time next_ = absl::InfinitePast();
};

}  // namespace baton::cli
