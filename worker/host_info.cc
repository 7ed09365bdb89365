#include "worker/host_info.h"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <sstream>
#include <string_view>

namespace baton::worker {
namespace {

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

// The number after `key` in lines of "key   123".
std::optional<uint64_t> NumberAfter(std::string_view text, std::string_view key) {
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) end = text.size();
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    line.remove_prefix(std::min(line.find_first_of("0123456789"), line.size()));
    uint64_t value = 0;
    if (std::from_chars(line.data(), line.data() + line.size(), value).ec == std::errc())
      return value;
  }
  return std::nullopt;
}

std::optional<uint64_t> ReadNumber(const std::string& path) {
  const std::optional<std::string> text = ReadFile(path);
  return text.has_value() ? NumberAfter(*text, "") : std::nullopt;
}

// A control group's memory controller.
struct MemoryGroup {
  std::string path;  // for HostId
  uint64_t limit_bytes = 0;
  uint64_t used_bytes = 0;  // without the file cache that can go
};

// Where both versions of control groups keep the same facts.
struct GroupLayout {
  const char* controller;  // in /proc/self/cgroup: "N:memory:/path" or "0::/path"
  const char* mount;
  const char* limit;
  const char* usage;
  const char* inactive_file;  // in memory.stat
};
constexpr GroupLayout kLayouts[] = {
    {":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file "},
    {"0::", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "},
};

std::optional<MemoryGroup> ReadGroup(const GroupLayout& layout, const std::string& path) {
  // Inside a container the path of the host may not be there; the mount itself is the group then.
  for (const std::string& folder : {layout.mount + path, std::string(layout.mount)}) {
    const std::optional<uint64_t> limit =
        ReadNumber(fmt::format("{}/{}", folder, layout.limit));  // none for "max"
    const std::optional<uint64_t> usage = ReadNumber(fmt::format("{}/{}", folder, layout.usage));
    if (!limit.has_value() || !usage.has_value()) continue;
    const std::string stat = ReadFile(folder + "/memory.stat").value_or("");
    const uint64_t inactive = NumberAfter(stat, layout.inactive_file).value_or(0);
    return MemoryGroup{path, *limit, *usage - std::min(*usage, inactive)};
  }
  return std::nullopt;
}

std::optional<MemoryGroup> FindMemoryGroup() {
  std::istringstream groups(ReadFile("/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(groups, line);) {
    for (const GroupLayout& layout : kLayouts) {
      const size_t at = line.find(layout.controller);
      if (at == std::string::npos) continue;
      if (auto group = ReadGroup(layout, line.substr(line.rfind(':') + 1)); group.has_value())
        return group;
    }
  }
  return std::nullopt;
}

uint64_t PhysicalBytes() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace

MemoryInfo HostMemory() {
  const std::string info = ReadFile("/proc/meminfo").value_or("");
  MemoryInfo memory{PhysicalBytes(), NumberAfter(info, "MemAvailable:").value_or(0) * 1024};
  if (const auto group = FindMemoryGroup();
      group.has_value() && group->limit_bytes < memory.total_bytes) {
    memory.total_bytes = group->limit_bytes;
    memory.available_bytes =
        std::min(memory.available_bytes,
                 group->limit_bytes - std::min(group->limit_bytes, group->used_bytes));
  }
  return memory;
}

ProcessMemory OwnMemory() {
  std::istringstream statm(ReadFile("/proc/self/statm").value_or(""));
  uint64_t size_pages = 0, resident_pages = 0, file_pages = 0;
  statm >> size_pages >> resident_pages >> file_pages;
  const uint64_t page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const std::string status = ReadFile("/proc/self/status").value_or("");
  return {.resident_bytes = resident_pages * page_bytes,
          .mapped_resident_bytes = file_pages * page_bytes,
          .locked_bytes = NumberAfter(status, "VmLck:").value_or(0) * 1024,
          .major_faults = static_cast<uint64_t>(usage.ru_majflt)};
}

std::string NumaPlacement() {
  std::string nodes = ReadFile("/sys/devices/system/node/online").value_or("0");
  while (!nodes.empty() && nodes.back() == '\n') nodes.pop_back();
  constexpr std::string_view kNames[] = {"default", "preferred", "bind", "interleave", "local"};
  int mode = 0;
  const bool known = syscall(SYS_get_mempolicy, &mode, nullptr, 0, nullptr, 0) == 0;
  mode &= ~MPOL_MODE_FLAGS;
  const bool named = known && mode >= 0 && static_cast<size_t>(mode) < std::size(kNames);
  const std::string_view policy = named ? kNames[mode] : "unknown";
  if (nodes == "0" && (!known || mode == MPOL_DEFAULT)) return "1 NUMA node";
  return fmt::format("NUMA node{} {}, policy {}", nodes == "0" ? "" : "s", nodes, policy);
}

uint64_t ResidentBytes() { return OwnMemory().resident_bytes; }

std::string HostId() {
  std::string id = ReadFile("/proc/sys/kernel/random/boot_id").value_or("unknown");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  if (const auto group = FindMemoryGroup();
      group.has_value() && group->limit_bytes < PhysicalBytes())
    id += group->path;
  return id;
}

std::string DrawInstanceId() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", source(), source(), source(), source());
}

uint64_t DrawId() {
  std::random_device source;
  return (uint64_t{source()} << 32 | source()) | 1;
}

}  // namespace baton::worker
