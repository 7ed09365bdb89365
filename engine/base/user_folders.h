// Where the user's files of baton lie, as the XDG base directory specification has it. Any thread.
#pragma once

#include <string>

namespace baton::engine {

// What should outlive a process: $XDG_STATE_HOME/baton, or what stands for it. Empty: there is no
// home.
std::string StateFolder();
// What can be had again: $XDG_CACHE_HOME/baton, in the same way; without a home one of the user's
// in the folder for temporary files.
std::string CacheFolder();

}  // namespace baton::engine
