// What the host gives this process: memory, within the limits of its control group, and who shares
// it.
#pragma once

#include <cstdint>
#include <string>

namespace baton::worker {

struct MemoryInfo {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;  // that could be used without swapping
};

// Reads /proc and the control group's files at each call; any thread.
MemoryInfo HostMemory();

// Of this process.
struct ProcessMemory {
  uint64_t resident_bytes = 0;
  uint64_t mapped_resident_bytes = 0;  // pages of files among them
  uint64_t locked_bytes = 0;           // by mlock
  uint64_t major_faults = 0;           // pages that had to come from the disk, since the start
};
ProcessMemory OwnMemory();
uint64_t ResidentBytes();

// On which memory nodes new pages of this process go, for people: "1 NUMA node",
// "NUMA nodes 0-1, policy bind".
std::string NumaPlacement();

// Equal for processes that share memory: the boot id and, where one limits this process, its
// control group.
std::string HostId();

// Random, 128 bits as hexadecimal digits.
std::string DrawInstanceId();
uint64_t DrawId();  // at random; not 0

}  // namespace baton::worker
