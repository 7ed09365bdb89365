#include "engine/base/block_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace baton::engine {
namespace {

constexpr uint64_t kBlock = uint64_t{2} << 20;  // of x86-64's and AArch64's huge pages

}  // namespace

class BlockFile::Buffer : public std::streambuf {
 public:
  Buffer(int fd, uint64_t size) : fd_(fd), position_(size), block_(new char[kBlock]) {}
  ~Buffer() override { ::close(fd_); }

  // 0, or the errno of the first write that failed.
  int Flush() {
    for (size_t done = 0; error_ == 0 && done < held_;) {
      const ssize_t count = ::write(fd_, block_.get() + done, held_ - done);
      if (count >= 0) {
        done += static_cast<size_t>(count);
      } else if (errno != EINTR) {
        error_ = errno;
      }
    }
    held_ = 0;
    return error_;
  }

 protected:
  std::streamsize xsputn(const char* data, std::streamsize size) override {
    for (std::streamsize done = 0; done < size;) {
      const uint64_t room = kBlock - position_ % kBlock;
      const uint64_t piece = std::min<uint64_t>(room, static_cast<uint64_t>(size - done));
      std::memcpy(block_.get() + held_, data + done, piece);
      held_ += piece;
      position_ += piece;
      done += static_cast<std::streamsize>(piece);
      if (piece == room && Flush() != 0) return 0;
    }
    return size;
  }
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    const char byte = traits_type::to_char_type(c);
    return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
  }
  int sync() override { return Flush() == 0 ? 0 : -1; }
  pos_type seekoff(off_type offset, std::ios::seekdir from, std::ios::openmode which) override {
    if (from == std::ios::end) return pos_type(off_type(-1));
    return seekpos(from == std::ios::cur ? static_cast<off_type>(position_) + offset : offset,
                   which);
  }
  // Beyond the end a hole is left.
  pos_type seekpos(pos_type place, std::ios::openmode /*which*/) override {
    if (place == pos_type(static_cast<off_type>(position_))) return place;
    if (Flush() != 0 || lseek(fd_, place, SEEK_SET) < 0) return pos_type(off_type(-1));
    position_ = static_cast<uint64_t>(off_type(place));
    return place;
  }

 private:
  const int fd_;
  uint64_t position_;  // in the file, of what comes next
  const std::unique_ptr<char[]> block_;
  size_t held_ = 0;  // bytes in block_, not written yet
  int error_ = 0;
};

BlockFile::BlockFile() : std::ostream(nullptr) {}

BlockFile::~BlockFile() { Close(); }

bool BlockFile::Open(const std::string& path, Mode mode) {
  Close();
  const int how = mode == Mode::kAppend ? O_APPEND : O_TRUNC;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
  if (fd < 0) return false;
  const off_t size = lseek(fd, 0, SEEK_END);
  buffer_ = std::make_unique<Buffer>(fd, size < 0 ? 0 : static_cast<uint64_t>(size));
  rdbuf(buffer_.get());  // and clears what an earlier file met
  return true;
}

bool BlockFile::Close() {
  if (buffer_ == nullptr) return true;
  const int error = buffer_->Flush();
  rdbuf(nullptr);
  buffer_.reset();
  errno = error;
  return error == 0;
}

}  // namespace baton::engine
