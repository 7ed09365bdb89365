#include "engine/text/jinja/text.h"

#include <algorithm>

namespace baton::engine::jinja {

Text& Text::Append(std::string_view bytes, bool data) {
  const size_t begin = size();
  bytes_.append(bytes);
  if (!data || bytes.empty()) return *this;
  if (!data_.empty() && data_.back().end == begin) {
    data_.back().end = size();
  } else {
    data_.push_back({begin, size()});
  }
  return *this;
}

Text& Text::Append(const Text& other, size_t begin, size_t end) {
  const auto first = std::upper_bound(other.data_.begin(), other.data_.end(), begin,
                                      [](size_t at, const Range& range) { return at < range.end; });
  size_t position = begin;
  for (auto range = first; range != other.data_.end() && range->begin < end; ++range) {
    const size_t data_begin = std::max(begin, range->begin), data_end = std::min(end, range->end);
    Append(other.view().substr(position, data_begin - position));
    Append(other.view().substr(data_begin, data_end - data_begin), true);
    position = data_end;
  }
  return Append(other.view().substr(position, end - position));
}

}  // namespace baton::engine::jinja
