#include "engine/text/token_matcher.h"

#include <algorithm>
#include <string>
#include <utility>

namespace baton::engine {
namespace {

// Files don't say which special tokens take white space along; these rules stand for their
// tokenizers' settings.
struct StripRule {
  std::string_view key, contains;  // holds where the key's lowercased value contains this
  std::string_view token;          // "": every special token but the exceptions
  std::string_view exceptions[3];
  bool left, right;
};
constexpr StripRule kStripRules[] = {
    {"tokenizer.ggml.pre", "jina-v2-", "<mask>", {}, true, false},
    {"general.name", "phi-3", "", {"<unk>", "<s>", "<|endoftext|>"}, false, true},
    {"general.name", "phi3", "", {"<unk>", "<s>", "<|endoftext|>"}, false, true},
};

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string Lowercase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool Touches(std::span<const PromptText::Range> ranges, size_t begin, size_t end) {
  const auto after =
      std::partition_point(ranges.begin(), ranges.end(),
                           [&](const PromptText::Range& range) { return range.end <= begin; });
  return after != ranges.end() && after->begin < end;
}

}  // namespace

TokenMatcher::TokenMatcher(const Metadata& metadata, const Vocabulary& vocabulary,
                           const SpecialTokens& special) {
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const TokenType type = vocabulary.type(id);
    const bool control = type == TokenType::kControl || type == TokenType::kUnknown;
    if (!control && type != TokenType::kUserDefined) continue;
    const bool shown =
        std::binary_search(special.shown_control.begin(), special.shown_control.end(), id);
    specials_.push_back({.text = vocabulary.text(id),
                         .id = id,
                         .control = control,
                         .barred_from_content = control || shown});
  }
  std::sort(specials_.begin(), specials_.end(),
            [](const Special& a, const Special& b) { return a.text < b.text; });
  for (int byte = 0; byte <= 256; ++byte) {
    const auto begin = std::partition_point(
        specials_.begin(), specials_.end(),
        [&](const Special& s) { return static_cast<uint8_t>(s.text[0]) < byte; });
    first_.push_back(begin - specials_.begin());
  }
  ReadStripRules(metadata);
}

void TokenMatcher::ReadStripRules(const Metadata& metadata) {
  for (const StripRule& rule : kStripRules) {
    const auto value = metadata.FindString(rule.key);
    if (!value.ok() || !*value || Lowercase(**value).find(rule.contains) == std::string::npos)
      continue;
    for (Special& special : specials_) {
      const bool excepted = std::find(std::begin(rule.exceptions), std::end(rule.exceptions),
                                      special.text) != std::end(rule.exceptions);
      if (rule.token.empty() ? excepted : special.text != rule.token) continue;
      special.strips_left = rule.left;
      special.strips_right = rule.right;
    }
  }
}

std::vector<TextFragment> TokenMatcher::Split(std::string_view text, bool parse_control,
                                              std::span<const PromptText::Range> content) const {
  std::vector<TextFragment> fragments;
  if (!text.empty()) fragments.push_back({.begin = 0, .end = text.size()});
  for (const Special* special : FindPresent(text)) {
    if (special->control && !parse_control) continue;
    std::vector<TextFragment> finer;
    for (const TextFragment& fragment : fragments) {
      if (fragment.token == kNoToken) {
        SplitAt(*special, text,
                special->barred_from_content ? content : std::span<const PromptText::Range>(),
                fragment, finer);
      } else {
        finer.push_back(fragment);
      }
    }
    fragments = std::move(finer);
  }
  return fragments;
}

// The special tokens that stand anywhere in the text, longest first. A vocabulary may have
// thousands, a text has few: one walk over the text, narrowing the sorted list byte by byte.
std::vector<const TokenMatcher::Special*> TokenMatcher::FindPresent(std::string_view text) const {
  std::vector<bool> seen(specials_.size());
  std::vector<const Special*> present;
  for (size_t at = 0; at < text.size(); ++at) {
    const uint8_t byte = static_cast<uint8_t>(text[at]);
    size_t begin = first_[byte], end = first_[byte + 1];
    for (size_t depth = 1; begin < end; ++depth) {
      if (specials_[begin].text.size() == depth) {
        if (!seen[begin]) present.push_back(&specials_[begin]);
        seen[begin] = true;
        ++begin;
      }
      if (at + depth >= text.size()) break;
      const uint8_t next = static_cast<uint8_t>(text[at + depth]);
      const auto byte_at = [&](const Special& s) { return static_cast<uint8_t>(s.text[depth]); };
      const auto first = specials_.begin();
      const auto low = std::partition_point(first + begin, first + end,
                                            [&](const auto& s) { return byte_at(s) < next; });
      const auto high =
          std::partition_point(low, first + end, [&](const auto& s) { return byte_at(s) == next; });
      begin = low - first;
      end = high - first;
    }
  }
  std::sort(present.begin(), present.end(), [](const Special* a, const Special* b) {
    return std::pair(b->text.size(), a->id) < std::pair(a->text.size(), b->id);
  });
  return present;
}

void TokenMatcher::SplitAt(const Special& special, std::string_view text,
                           std::span<const PromptText::Range> content, const TextFragment& fragment,
                           std::vector<TextFragment>& out) {
  const std::string_view searched = text.substr(0, fragment.end);
  size_t begin = fragment.begin;  // of the text that has no fragment yet
  size_t from = begin;            // where to search on
  while (true) {
    const size_t match = searched.find(special.text, from);
    if (match == std::string_view::npos) break;
    const size_t match_end = match + special.text.size();
    if (Touches(content, match, match_end)) {
      from = match + 1;
      continue;
    }
    size_t left_end = match;
    while (special.strips_left && left_end > begin && IsSpace(text[left_end - 1])) --left_end;
    if (left_end > begin) out.push_back({.begin = begin, .end = left_end});
    out.push_back({.begin = match, .end = match_end, .token = special.id});
    begin = match_end;
    while (special.strips_right && begin < fragment.end && IsSpace(text[begin])) ++begin;
    from = begin;
  }
  if (begin < fragment.end) out.push_back({.begin = begin, .end = fragment.end});
}

}  // namespace baton::engine
