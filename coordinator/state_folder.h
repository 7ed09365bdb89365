// Where a coordinator keeps what should outlive it if nobody says where: below the user's state
// folder.
#pragma once

#include <string>

namespace baton::coordinator {

// $XDG_STATE_HOME/baton, or what stands for it; empty where there is no home.
std::string StateFolder();

}  // namespace baton::coordinator
