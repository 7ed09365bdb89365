#include "worker/bus_error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string_view>

namespace baton::worker {
namespace {

// Everything the handler touches is async-signal-safe: system calls, lock-free atomics, the stack.

constexpr size_t kMaxPath = 512;
char broken_path[kMaxPath];  // written once, between kNone and kSet
enum State : int { kNone, kWriting, kSet };
std::atomic<int> broken_state = kNone;
std::atomic<uint64_t> g_bus_errors = 0;

// A line of /proc/self/maps: "begin-end perms offset device inode   path".
struct Mapping {
  uintptr_t end = 0;
  std::string_view path;
};

uintptr_t ParseHex(std::string_view& text) {
  uintptr_t value = 0;
  while (!text.empty()) {
    const char c = text.front();
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) break;
    value = value * 16 + static_cast<uintptr_t>(digit);
    text.remove_prefix(1);
  }
  return value;
}

bool Covers(std::string_view line, uintptr_t address, Mapping* mapping) {
  std::string_view rest = line;
  const uintptr_t begin = ParseHex(rest);
  if (rest.empty()) return false;
  rest.remove_prefix(1);  // '-'
  mapping->end = ParseHex(rest);
  const size_t slash = line.find('/');
  mapping->path = slash == std::string_view::npos ? std::string_view() : line.substr(slash);
  return begin <= address && address < mapping->end;
}

// Looks for the file mapping around `address`; `buffer` holds the path that is found.
bool FindMapping(uintptr_t address, char (&buffer)[4096], Mapping* mapping) {
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  size_t filled = 0;
  bool found = false;
  while (!found) {
    const ssize_t count = read(fd, buffer + filled, sizeof(buffer) - filled);
    if (count <= 0) break;
    filled += static_cast<size_t>(count);
    size_t begin = 0;
    for (;;) {
      const void* newline = std::memchr(buffer + begin, '\n', filled - begin);
      if (newline == nullptr) break;
      const size_t end = static_cast<size_t>(static_cast<const char*>(newline) - buffer);
      if (Covers({buffer + begin, end - begin}, address, mapping)) {
        found = true;
        break;
      }
      begin = end + 1;
    }
    if (found) break;
    std::memmove(buffer, buffer + begin, filled - begin);
    filled -= begin;
  }
  close(fd);
  return found;
}

void Note(std::string_view path) {
  int none = kNone;
  if (broken_state.compare_exchange_strong(none, kWriting)) {
    const size_t length = std::min(path.size(), kMaxPath - 1);
    std::memcpy(broken_path, path.data(), length);
    broken_path[length] = '\0';
    broken_state = kSet;
  }
  ++g_bus_errors;
}

// Puts zeros in place of the rest of the mapping, so that the reader comes to its end.
bool Repair(uintptr_t address) {
  char buffer[4096];
  Mapping mapping;
  if (!FindMapping(address, buffer, &mapping)) return false;
  if (mapping.path.empty()) return g_bus_errors > 0;  // another thread was here first
  const uintptr_t page = address & ~(static_cast<uintptr_t>(sysconf(_SC_PAGE_SIZE)) - 1);
  void* zeros = mmap(reinterpret_cast<void*>(page), mapping.end - page, PROT_READ,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  if (zeros == MAP_FAILED) return false;
  Note(mapping.path);
  return true;
}

void OnBusError(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  if (info->si_code == BUS_ADRERR && Repair(reinterpret_cast<uintptr_t>(info->si_addr))) {
    errno = saved_errno;
    return;
  }
  std::signal(signal, SIG_DFL);  // returns to the access, which then ends the process
}

}  // namespace

void HandleBusErrors() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = OnBusError;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, nullptr);
  });
}

uint64_t BusErrorCount() { return g_bus_errors; }

std::string BrokenFile() { return broken_state == kSet ? broken_path : ""; }

}  // namespace baton::worker
