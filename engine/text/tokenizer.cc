#include "engine/text/tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/text/bpe.h"
#include "engine/text/fragment_encoder.h"
#include "engine/text/pre_tokenizer.h"
#include "engine/text/special_tokens.h"
#include "engine/text/spm.h"
#include "engine/text/token_matcher.h"
#include "engine/text/token_spelling.h"
#include "engine/text/vocabulary.h"

namespace baton::engine {
namespace {

constexpr std::string_view kModelKey = "tokenizer.ggml.model";
constexpr std::string_view kPreKey = "tokenizer.ggml.pre";

// A value of tokenizer.ggml.model: how it encodes, and what it assumes where keys are absent.
struct ModelKind {
  std::string_view name;
  bool merges;                     // byte-pair merges, else pieces with scores
  std::string_view pre_tokenizer;  // "": the file's own key names it
  SpecialTokenDefaults special;
  bool add_space_prefix;
};
constexpr ModelKind kModelKinds[] = {
    {.name = "llama",
     .merges = false,
     .pre_tokenizer = {},
     .special = {.bos = 1, .eos = 2, .unknown = 0, .add_bos = true},
     .add_space_prefix = true},
    {.name = "gpt2", .merges = true, .pre_tokenizer = {}, .special = {}, .add_space_prefix = false},
    {.name = "gemma4",
     .merges = true,
     .pre_tokenizer = "gemma4",
     .special = {},
     .add_space_prefix = false},
};

absl::StatusOr<const ModelKind*> ReadModelKind(const Metadata& metadata) {
  ASSIGN_OR_RETURN(const std::string_view name, metadata.GetString(kModelKey));
  std::string known;
  for (const ModelKind& kind : kModelKinds) {
    if (kind.name == name) return &kind;
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", kind.name);
  }
  return Unimplemented("{}: \"{}\" is not supported, expected one of {}", kModelKey, name, known);
}

// A name that is not known is refused: text cut in the wrong places degrades a model without a
// word.
absl::StatusOr<const PreTokenizerSpec*> ReadPreTokenizer(const Metadata& metadata,
                                                         const ModelKind& kind,
                                                         std::vector<std::string>& warnings) {
  ASSIGN_OR_RETURN(const auto value, metadata.FindString(kPreKey));
  const std::string_view name =
      kind.pre_tokenizer.empty() ? value.value_or("") : kind.pre_tokenizer;
  if (name.empty()) {
    if (kind.merges) {
      warnings.push_back(fmt::format(
          "{} is absent: texts are cut by the default rules, which may not be this model's; "
          "answers may be worse than they could be",
          kPreKey));
    }
    return &DefaultPreTokenizer();
  }
  const PreTokenizerSpec* spec = FindPreTokenizer(name);
  if (spec == nullptr)
    return Unimplemented("{}: \"{}\" is not a known pre-tokenizer", kPreKey, name);
  return spec;
}

// One space between words and none at the ends, as SentencePiece's remove_extra_whitespaces does.
std::string RemoveExtraSpaces(std::string_view text) {
  std::string single;
  for (const char c : text) {
    if (c != ' ' || (!single.empty() && single.back() != ' ')) single.push_back(c);
  }
  if (single.ends_with(' ')) single.pop_back();
  return single;
}

// What Hugging Face calls clean_up_tokenization_spaces, in the three passes of the reference
// engine: no space before
// ?!., none around a lone apostrophe, none before 's 'm 're 've.
std::string CleanUpSpaces(std::string_view text) {
  const auto pass = [](std::string_view in, auto&& drops_space_before, auto&& drops_space_after) {
    std::string out;
    out.reserve(in.size());
    char previous = '\0';  // a dropped space counts for nothing
    for (size_t i = 0; i < in.size(); ++i) {
      const bool after_space = previous == ' ';
      const std::string_view rest = in.substr(i);
      previous = in[i];
      if (after_space && drops_space_before(rest)) out.pop_back();
      out.push_back(in[i]);
      if (after_space && drops_space_after(rest)) {
        ++i;
        previous = '\0';
      }
    }
    return out;
  };
  const auto never = [](std::string_view) { return false; };
  const auto punctuation = [](std::string_view rest) {
    return std::string_view("?!.,").find(rest[0]) != std::string_view::npos;
  };
  const auto lone_apostrophe = [](std::string_view rest) { return rest.starts_with("' "); };
  const auto contraction = [](std::string_view rest) {
    return rest.starts_with("'s") || rest.starts_with("'m") || rest.starts_with("'re") ||
           rest.starts_with("'ve");
  };
  return pass(pass(pass(text, punctuation, never), lone_apostrophe, lone_apostrophe), contraction,
              never);
}

class GgufTokenizer final : public Tokenizer {
 public:
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(const Metadata& metadata);

  std::vector<TokenId> Encode(std::string_view text, EncodeOptions options) const override;
  std::vector<TokenId> EncodePrompt(const PromptText& prompt) const override;
  std::string Decode(std::span<const TokenId> ids, bool special) const override;
  std::string TokenBytes(TokenId id, bool special) const override;

  int vocab_size() const override { return vocabulary_.size(); }
  TokenId bos() const override { return special_.bos; }
  TokenId eos() const override { return special_.eos; }
  bool adds_bos() const override { return special_.add_bos; }
  bool IsControl(TokenId id) const override {
    return vocabulary_.Contains(id) && vocabulary_.type(id) == TokenType::kControl;
  }
  bool IsEndOfGeneration(TokenId id) const override { return special_.EndsGeneration(id); }
  std::string_view TokenText(TokenId id) const override {
    return vocabulary_.Contains(id) ? vocabulary_.text(id) : std::string_view();
  }
  const std::vector<std::string>& warnings() const override { return warnings_; }

 private:
  absl::Status Read(const Metadata& metadata);
  void Append(std::string_view text, bool parse_control, std::span<const PromptText::Range> content,
              std::vector<TokenId>& ids) const;

  std::vector<std::string> warnings_;
  Vocabulary vocabulary_;
  SpecialTokens special_;
  std::optional<TokenMatcher> matcher_;       // refers to vocabulary_
  std::unique_ptr<FragmentEncoder> encoder_;  // refers to vocabulary_
  TokenSpelling spelling_ = TokenSpelling::kEscapedSpaces;
  bool add_space_prefix_ = false;
  bool remove_extra_spaces_ = false;
  bool clean_up_spaces_ = false;
};

absl::StatusOr<std::unique_ptr<Tokenizer>> GgufTokenizer::Create(const Metadata& metadata) {
  auto tokenizer = std::make_unique<GgufTokenizer>();
  RETURN_IF_ERROR(tokenizer->Read(metadata));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

absl::Status GgufTokenizer::Read(const Metadata& metadata) {
  ASSIGN_OR_RETURN(const ModelKind* kind, ReadModelKind(metadata));
  ASSIGN_OR_RETURN(const PreTokenizerSpec* pre_tokenizer,
                   ReadPreTokenizer(metadata, *kind, warnings_));
  ASSIGN_OR_RETURN(vocabulary_, Vocabulary::Read(metadata));

  SpecialTokenDefaults defaults = kind->special;
  if (kind->merges) defaults.add_bos = pre_tokenizer->add_bos;
  ASSIGN_OR_RETURN(special_, SpecialTokens::Read(metadata, defaults, vocabulary_, warnings_));
  matcher_.emplace(metadata, vocabulary_, special_);

  ASSIGN_OR_RETURN(const auto space_prefix, metadata.FindBool("tokenizer.ggml.add_space_prefix"));
  ASSIGN_OR_RETURN(const auto extra_spaces,
                   metadata.FindBool("tokenizer.ggml.remove_extra_whitespaces"));
  ASSIGN_OR_RETURN(const auto clean_up,
                   metadata.FindBool("tokenizer.ggml.clean_up_tokenization_spaces"));
  add_space_prefix_ = space_prefix.value_or(kind->add_space_prefix);
  remove_extra_spaces_ = !kind->merges && extra_spaces.value_or(false);
  clean_up_spaces_ = clean_up.value_or(kind->merges && pre_tokenizer->clean_spaces);

  if (kind->merges) {
    spelling_ = pre_tokenizer->spelling;
    ASSIGN_OR_RETURN(encoder_,
                     BpeEncoder::Create(metadata, vocabulary_, *pre_tokenizer, special_.unknown));
  } else {
    encoder_ = std::make_unique<SpmEncoder>(vocabulary_, special_.unknown);
  }
  return absl::OkStatus();
}

std::vector<TokenId> GgufTokenizer::Encode(std::string_view text, EncodeOptions options) const {
  std::vector<TokenId> ids;
  if (options.add_special && special_.add_bos) ids.push_back(special_.bos);
  Append(text, options.parse_special, {}, ids);
  if (options.add_special && special_.add_eos) ids.push_back(special_.eos);
  return ids;
}

std::vector<TokenId> GgufTokenizer::EncodePrompt(const PromptText& prompt) const {
  std::vector<TokenId> ids;
  Append(prompt.text, true, prompt.content, ids);
  const bool has_bos = !ids.empty() && ids.front() == special_.bos;
  if (special_.add_bos && !has_bos) ids.insert(ids.begin(), special_.bos);
  return ids;
}

void GgufTokenizer::Append(std::string_view text, bool parse_control,
                           std::span<const PromptText::Range> content,
                           std::vector<TokenId>& ids) const {
  WordCache cache(text.size());
  bool after_special = true;  // as is the beginning
  for (const TextFragment& fragment : matcher_->Split(text, parse_control, content)) {
    if (fragment.token != kNoToken) {
      ids.push_back(fragment.token);
      after_special = true;
      continue;
    }
    std::string_view plain = text.substr(fragment.begin, fragment.end - fragment.begin);
    std::string rewritten;
    if (remove_extra_spaces_) plain = rewritten = RemoveExtraSpaces(plain);
    if (spelling_ == TokenSpelling::kEscapedSpaces && add_space_prefix_ && after_special) {
      plain = rewritten = fmt::format(" {}", plain);
    }
    encoder_->Encode(plain, cache, ids);
    after_special = false;
  }
}

std::string GgufTokenizer::Decode(std::span<const TokenId> ids, bool special) const {
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string bytes = TokenBytes(ids[i], special);
    const bool drop_space = i == 0 && add_space_prefix_ && bytes.starts_with(' ');
    text.append(bytes, drop_space ? 1 : 0);
  }
  return clean_up_spaces_ ? CleanUpSpaces(text) : text;
}

std::string GgufTokenizer::TokenBytes(TokenId id, bool special) const {
  if (!vocabulary_.Contains(id)) return {};
  const std::string_view text = vocabulary_.text(id);
  switch (vocabulary_.type(id)) {
    case TokenType::kControl:
    case TokenType::kUnknown:
      return special ? std::string(text) : std::string();
    case TokenType::kUserDefined:
      return std::string(text);
    case TokenType::kNormal:
      return spelling_ == TokenSpelling::kByteCharacters ? ReadCharactersAsBytes(text)
                                                         : UnescapeSpaces(text);
    case TokenType::kByte:
      return ReadByteToken(text);
    case TokenType::kUnused:
    case TokenType::kUndefined:
      return {};
  }
  return {};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(const Metadata& metadata) {
  return GgufTokenizer::Create(metadata);
}

}  // namespace baton::engine
