// The user's folders of a coordinator, where nobody names others.
#pragma once

#include <string>

namespace baton::coordinator {

// What should outlive a process: $XDG_STATE_HOME/baton, or what stands for it. Empty: there is no
// home.
std::string StateFolder();
// What can be had again: $XDG_CACHE_HOME/baton, in the same way.
std::string CacheFolder();

}  // namespace baton::coordinator
