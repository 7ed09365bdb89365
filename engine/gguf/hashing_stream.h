// A stream that hashes what passes through it, and hands it on or drops it. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <streambuf>

struct XXH3_state_s;

namespace baton::engine {

// XXH3, 64 bits.
class HashingBuffer : public std::streambuf {
 public:
  explicit HashingBuffer(std::streambuf* target);  // nullptr: drops the bytes
  ~HashingBuffer() override;

  uint64_t hash() const;
  uint64_t bytes() const { return bytes_; }

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* data, std::streamsize size) override;
  // Only tells where it is.
  pos_type seekoff(off_type offset, std::ios::seekdir from, std::ios::openmode which) override;

 private:
  std::streambuf* target_;
  XXH3_state_s* state_;
  uint64_t bytes_ = 0;
};

}  // namespace baton::engine
