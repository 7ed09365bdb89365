// A string that knows which of its bytes are data: text that came from outside the template, such
// as the content of a message. All string work of the interpreter goes through these few
// operations, so that the marks are never lost.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace baton::engine::jinja {

class Text {
 public:
  struct Range {
    size_t begin = 0, end = 0;  // [begin, end) in bytes
  };

  Text() = default;
  explicit Text(std::string_view literal) : bytes_(literal) {}
  static Text Data(std::string_view bytes) { return Text().Append(bytes, true); }

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  bool has_data() const { return !data_.empty(); }
  // Sorted, neither overlapping nor touching.
  const std::vector<Range>& data() const { return data_; }

  // Already escaped for HTML: what is added to it gets escaped too.
  bool markup() const { return markup_; }
  void set_markup(bool markup) { markup_ = markup; }

  Text& Append(std::string_view bytes, bool data = false);
  Text& Append(const Text& other) { return Append(other, 0, other.size()); }
  Text& Append(const Text& other, size_t begin, size_t end);
  Text Slice(size_t begin, size_t end) const { return Text().Append(*this, begin, end); }

  // Calls visit(std::string_view bytes, bool data) for each longest piece of one provenance, in
  // order.
  template <typename Visit>
  void ForEachPiece(Visit visit) const {
    size_t position = 0;
    for (const Range& range : data_) {
      if (position < range.begin) visit(view().substr(position, range.begin - position), false);
      visit(view().substr(range.begin, range.end - range.begin), true);
      position = range.end;
    }
    if (position < size()) visit(view().substr(position), false);
  }

 private:
  std::string bytes_;
  std::vector<Range> data_;
  bool markup_ = false;
};

}  // namespace baton::engine::jinja
