#include "engine/gguf/hashing_stream.h"

#include <xxhash.h>

namespace baton::engine {

HashingBuffer::HashingBuffer(std::streambuf* target) : target_(target), state_(XXH3_createState()) {
  XXH3_64bits_reset(state_);
}

HashingBuffer::~HashingBuffer() { XXH3_freeState(state_); }

uint64_t HashingBuffer::hash() const { return XXH3_64bits_digest(state_); }

HashingBuffer::int_type HashingBuffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char byte = traits_type::to_char_type(c);
  return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
}

std::streamsize HashingBuffer::xsputn(const char* data, std::streamsize size) {
  if (target_ != nullptr) size = target_->sputn(data, size);
  XXH3_64bits_update(state_, data, static_cast<size_t>(size));
  bytes_ += static_cast<uint64_t>(size);
  return size;
}

HashingBuffer::pos_type HashingBuffer::seekoff(off_type offset, std::ios::seekdir from,
                                               std::ios::openmode /*which*/) {
  const bool tell = offset == 0 && from == std::ios::cur;
  return tell ? pos_type(static_cast<off_type>(bytes_)) : pos_type(off_type(-1));
}

}  // namespace baton::engine
