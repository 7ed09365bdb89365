// What one rendering may use. Everything a template can make big or long is charged here before it
// is made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/status.h"

namespace baton::engine::jinja {

class Budget {
 public:
  // What any template may use, and what it may use besides for each byte of its input.
  static constexpr int64_t kSteps = 2'000'000, kStepsPerInputByte = 256;
  static constexpr int64_t kBytes = 16 << 20, kBytesPerInputByte = 64;
  static constexpr int kMaxDepth = 800;  // nested evaluations: statements, expressions, macro calls
  static constexpr int kMaxNesting = 200;  // lists in lists, in values and in expressions

  explicit Budget(size_t input_bytes)
      : steps_left_(kSteps + kStepsPerInputByte * static_cast<int64_t>(input_bytes)),
        bytes_left_(kBytes + kBytesPerInputByte * input_bytes) {}

  absl::Status Steps(int64_t count) {
    if (count > steps_left_) return ResourceExhausted("the template takes too many steps");
    steps_left_ -= count;
    return absl::OkStatus();
  }
  absl::Status Bytes(size_t count) {
    if (count > bytes_left_)
      return ResourceExhausted("the template makes too much text or too long lists");
    bytes_left_ -= count;
    return absl::OkStatus();
  }

  // One level of nested evaluation, for as long as it lives.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) { ++budget_.depth_; }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    absl::Status Check() const {
      if (budget_.depth_ <= kMaxDepth) return absl::OkStatus();
      return ResourceExhausted("the template is nested deeper than {} levels", kMaxDepth);
    }

   private:
    Budget& budget_;
  };

 private:
  int64_t steps_left_;
  size_t bytes_left_;
  int depth_ = 0;
};

}  // namespace baton::engine::jinja
