#pragma once

#include <string_view>

namespace baton::coordinator {

// index.html, embedded when the program is built.
std::string_view WebPage();

}  // namespace baton::coordinator
