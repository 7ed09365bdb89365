// A mapped file that is cut while it is read raises SIGBUS. The process survives: what is missing
// reads as zeros, and whoever computed with it asks here before it believes the result.
#pragma once

#include <cstdint>
#include <string>

namespace baton::worker {

// For the whole process; calls after the first do nothing. Bus errors outside of mapped files end
// the process as before.
void HandleBusErrors();

// How often a mapping broke since the process started. Any thread.
uint64_t BusErrorCount();
// The file whose mapping broke first. Any thread.
std::string BrokenFile();

}  // namespace baton::worker
