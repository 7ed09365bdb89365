#include "engine/base/private_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace baton::engine {

absl::Status MakePrivate(std::span<const std::byte> mapping, size_t bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t size = (std::min(bytes, mapping.size()) + page - 1) / page * page;
  if (size == 0) return absl::OkStatus();
  void* copy = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED)
    return ResourceExhausted("a copy of {} bytes: {}", size, std::strerror(errno));
  std::memcpy(copy, mapping.data(), std::min(size, mapping.size()));
  mprotect(copy, size, PROT_READ);
  void* const place = const_cast<std::byte*>(mapping.data());
  if (mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED) {
    const absl::Status status =
        ResourceExhausted("a copy of {} bytes: {}", size, std::strerror(errno));
    munmap(copy, size);
    return status;
  }
  return absl::OkStatus();
}

}  // namespace baton::engine
