// A `baton up` in the background: one for each topology file, with its process id and what it says
// in a folder below the user's state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace baton::cli {

// Runs this program with `arguments` in a session of its own. Returns once it has said that it is
// ready; an error is what it said last. FailedPrecondition: one runs already.
absl::Status StartDetached(const std::string& topology_file,
                           const std::vector<std::string>& arguments);
// Asks it to end, and waits. NotFound: none runs.
absl::Status StopDetached(const std::string& topology_file);
// Its words, or those of one of its programs; `follow`: goes on until a signal comes.
absl::Status PrintDetachedLog(const std::string& topology_file, std::string_view program,
                              bool follow);

}  // namespace baton::cli
