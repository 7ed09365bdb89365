// Asks the system to run this process's threads soon after they wake.
#pragma once

namespace baton::engine {

// A step goes through several threads of several processes, and each waits for a CPU. Where others
// compute on the same machine, a thread that wakes would wait until their slice of time is over:
// some milliseconds a hop, more than a stage of a small model takes. Threads with a short slice of
// their own need not wait; their share of the CPU stays what it was. Linux 6.12 and later;
// elsewhere nothing happens. For the calling thread and those it starts afterwards.
void AskForShortTimeSlices();

}  // namespace baton::engine
