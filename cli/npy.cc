#include "cli/npy.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cli/exit_code.h"
#include "engine/base/quote.h"

namespace baton::cli {
namespace {

constexpr char kMagic[] = "\x93NUMPY\x01";
constexpr size_t kAlignment = 64;  // of the data, as NumPy writes it

std::string HalfName(const std::string& path) { return path + ".part"; }

}  // namespace

std::string NpyHeader(int64_t rows, int64_t cols) {
  static_assert(std::endian::native == std::endian::little);
  std::string dict =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, cols);
  const size_t fixed = 8 + 2;  // magic and version, length
  dict.append((kAlignment - (fixed + dict.size() + 1) % kAlignment) % kAlignment, ' ');
  dict += '\n';
  const auto length = static_cast<uint16_t>(dict.size());
  std::string header(kMagic, 8);  // ends with the minor version, 0
  header += static_cast<char>(length & 0xff);
  header += static_cast<char>(length >> 8);
  return header + dict;
}

absl::StatusOr<NpyWriter> NpyWriter::Open(const std::string& path, int64_t rows, int64_t cols) {
  std::FILE* file = path == "-" ? stdout : std::fopen(HalfName(path).c_str(), "wb");
  if (file == nullptr) return CannotWrite("{}: {}", engine::Named(path), std::strerror(errno));
  return NpyWriter(path, file, NpyHeader(rows, cols), static_cast<uint64_t>(rows * cols));
}

NpyWriter::NpyWriter(NpyWriter&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::exchange(other.file_, nullptr)),
      header_(std::move(other.header_)),
      missing_(other.missing_) {}

NpyWriter::~NpyWriter() {
  if (file_ == nullptr || file_ == stdout) return;
  std::fclose(file_);
  std::remove(HalfName(path_).c_str());
}

absl::Status NpyWriter::Write(std::span<const float> values) {
  if (values.size() > missing_) return Internal("{}: more logits than asked for", path_);
  missing_ -= values.size();
  // Only now, so that stdout stays empty where nothing comes.
  const std::string header = std::exchange(header_, {});
  if (std::fwrite(header.data(), 1, header.size(), file_) != header.size()) return Failed();
  if (std::fwrite(values.data(), sizeof(float), values.size(), file_) != values.size())
    return Failed();
  return absl::OkStatus();
}

absl::Status NpyWriter::Close() {
  if (missing_ != 0) return Internal("{}: {} logits did not come", path_, missing_);
  if (file_ == stdout) return std::fflush(file_) == 0 ? absl::OkStatus() : Failed();
  std::FILE* file = std::exchange(file_, nullptr);
  if (std::fclose(file) != 0 || std::rename(HalfName(path_).c_str(), path_.c_str()) != 0) {
    const absl::Status status = Failed();
    std::remove(HalfName(path_).c_str());
    return status;
  }
  return absl::OkStatus();
}

absl::Status NpyWriter::Failed() const {
  return CannotWrite("{}: {}", engine::Named(path_), std::strerror(errno));
}

}  // namespace baton::cli
