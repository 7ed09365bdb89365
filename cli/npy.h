// NumPy's .npy format, as far as a float32 matrix needs it (format 1.0).
#pragma once

#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include "engine/base/status.h"

namespace baton::cli {

// Writes a float32 matrix row by row. A file appears under its name only when it is whole; "-" is
// stdout. One thread.
class NpyWriter {
 public:
  static absl::StatusOr<NpyWriter> Open(const std::string& path, int64_t rows, int64_t cols);
  NpyWriter(NpyWriter&& other) noexcept;
  NpyWriter& operator=(NpyWriter&&) = delete;
  ~NpyWriter();

  absl::Status Write(std::span<const float> values);
  absl::Status Close();  // all rows are there; InternalError where they are not

 private:
  NpyWriter(std::string path, std::FILE* file, std::string header, uint64_t values)
      : path_(std::move(path)), file_(file), header_(std::move(header)), missing_(values) {}
  absl::Status Failed() const;

  std::string path_;
  std::FILE* file_;
  std::string header_;  // not written yet
  uint64_t missing_;    // values
};

std::string NpyHeader(int64_t rows, int64_t cols);

}  // namespace baton::cli
