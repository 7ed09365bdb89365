// Which baton this is.
#pragma once

#include <string>

namespace baton::cli {

std::string VersionLine();  // "baton 0.1.0 (c++ 12.2.0, linux x86_64)"

}  // namespace baton::cli
