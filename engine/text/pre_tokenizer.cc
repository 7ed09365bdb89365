#include "engine/text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <limits>
#include <string>
#include <utility>

namespace baton::engine {
namespace {

// PCRE2's \s with Unicode also takes U+180E, which is no white space, so patterns get a class of
// their own for it. Without PCRE2_UCP, \d and \b stay ASCII, as the tables mean them.
std::string SpellOutSpaces(std::string_view pattern) {
  constexpr std::string_view kSpace = R"(\p{Z}\t-\r\x{85})";
  std::string spelled;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's' && in_class) {
        spelled += kSpace;
      } else if (escaped == 's' || escaped == 'S') {
        spelled += fmt::format("[{}{}]", escaped == 'S' ? "^" : "", kSpace);
      } else {
        spelled += {c, escaped};
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    spelled.push_back(c);
  }
  return spelled;
}

struct MatchDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

// One pattern over many pieces of a text.
class Matcher {
 public:
  Matcher()
      : data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
    // Every pattern is linear in its text, so that limits would only cut long texts short.
    pcre2_set_match_limit(context_.get(), std::numeric_limits<uint32_t>::max());
    pcre2_set_depth_limit(context_.get(), std::numeric_limits<uint32_t>::max());
  }

  // The first match in text[from, …), as [begin, end); {size, size} for none.
  std::pair<size_t, size_t> Find(const pcre2_code* code, std::string_view text, size_t from) {
    const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    int rc = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, data_.get(),
                         context_.get());
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its frames on the heap
      rc = pcre2_match(code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                       data_.get(), context_.get());
    }
    // Out of memory is the only failure left; the rest of the text then is one word.
    if (rc < 0) return {text.size(), text.size()};
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data_.get());
    return {range[0], range[1]};
  }

 private:
  std::unique_ptr<pcre2_match_data, MatchDeleter> data_;
  std::unique_ptr<pcre2_match_context, MatchDeleter> context_;
};

void Cut(Matcher& matcher, const pcre2_code* code, std::string_view piece,
         std::vector<uint32_t>& lengths) {
  size_t done = 0;
  while (done < piece.size()) {
    const auto [begin, end] = matcher.Find(code, piece, done);
    if (begin > done) lengths.push_back(static_cast<uint32_t>(begin - done));
    if (end > begin) lengths.push_back(static_cast<uint32_t>(end - begin));
    done = end;
  }
}

}  // namespace

void PreTokenizer::PatternDeleter::operator()(void* pattern) const {
  pcre2_code_free(static_cast<pcre2_code*>(pattern));
}

absl::StatusOr<PreTokenizer> PreTokenizer::Create(const PreTokenizerSpec& spec) {
  PreTokenizer pre_tokenizer;
  for (const char* pattern : spec.patterns) {
    if (pattern == nullptr) break;
    const std::string spelled = SpellOutSpaces(pattern);
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                                     PCRE2_UTF, &error, &offset, nullptr);
    if (code == nullptr)
      return Internal("pre-tokenizer {}: pattern {} at {}: PCRE2 error {}", spec.names, spelled,
                      offset, error);
    pre_tokenizer.patterns_.emplace_back(code);
    pcre2_jit_compile(
        code,
        PCRE2_JIT_COMPLETE);  // where the system allows it; else slower, with the same matches
  }
  return pre_tokenizer;
}

std::vector<uint32_t> PreTokenizer::Split(std::string_view text) const {
  std::vector<uint32_t> lengths;
  if (text.empty()) return lengths;
  lengths.push_back(static_cast<uint32_t>(text.size()));
  Matcher matcher;
  for (const Pattern& pattern : patterns_) {
    std::vector<uint32_t> finer;
    finer.reserve(lengths.size());
    size_t begin = 0;
    for (const uint32_t length : lengths) {
      Cut(matcher, static_cast<const pcre2_code*>(pattern.get()), text.substr(begin, length),
          finer);
      begin += length;
    }
    lengths = std::move(finer);
  }
  return lengths;
}

}  // namespace baton::engine
