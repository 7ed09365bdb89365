#include "engine/text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace baton::engine {
namespace {

// The patterns below are those of the tokenizers' own files, in the form that the reference engine
// gives them, with:
// - white space spelled out, since PCRE2's \s with Unicode also takes U+180E; \d and \b are ASCII;
// - "a letter, but not a-z" written as a double negation, one class.
#define SPACE "\\p{Z}\\t-\\r\\x{85}"  // inside a class
#define NOT_SPACE_LETTER_NUMBER "[^" SPACE "\\p{L}\\p{N}]"
#define ANY_SPACES "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define LINE_ENDS "[" SPACE "]*[\\r\\n]+"
#define CONTRACTIONS "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define PUNCTUATION " ?" NOT_SPACE_LETTER_NUMBER "+[\\r\\n]*"
#define UP_TO_LOWER "[^\\P{L}a-z]*[^\\P{L}A-Z]+"
#define UPPER_FIRST "[^\\P{L}a-z]+[^\\P{L}A-Z]*"

constexpr char kGpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?" NOT_SPACE_LETTER_NUMBER "+|" ANY_SPACES;
constexpr char kLlama3[] =
    CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" PUNCTUATION "|" LINE_ENDS "|" ANY_SPACES;
constexpr char kQwen2[] =
    CONTRACTIONS "|" LETTERS "|\\p{N}|" PUNCTUATION "|" LINE_ENDS "|" ANY_SPACES;
constexpr char kDigit[] = "\\p{N}";
constexpr char kThreeAsciiDigits[] = "[0-9][0-9][0-9]";
constexpr char kLineOrNewlines[] = "[^\\n]+|[\\n]+";
// A sentence's words up to the punctuation of several scripts.
constexpr char kUpToPunctuation[] =
    " ?[^(" SPACE "|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+";
constexpr char kIdeographsAndKana[] =
    "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+";
// U+0800 to U+9FA5 and Hangul, less the white space in between.
constexpr char kEastOf0800[] =
    "[\\x{800}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{"
    "205E}"
    "\\x{2060}-\\x{2FFF}\\x{3001}-\\x{9FA5}\\x{AC00}-\\x{D7FF}]+";
constexpr char kCasedLetters[] =
    "[" SPACE
    "]?[A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{"
    "293}"
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-"
    "\\x{38A}\\x{38C}"
    "\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}"
    "-\\x{10C5}"
    "\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{"
    "1D2B}"
    "\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{"
    "1F45}"
    "\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-"
    "\\x{1FB4}"
    "\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}"
    "-\\x{1FDB}"
    "\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}"
    "\\x{2115}"
    "\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}"
    "\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-"
    "\\x{2CE4}"
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{"
    "FB17}"
    "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-"
    "\\x{104FB}"
    "\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}]+";
constexpr char kCasedPunctuation[] =
    "[" SPACE
    "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3001}\\x{3002}]+";
#define PUNCTUATION_THEN_LATIN "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
#define LETTERS_AND_MARKS "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"

constexpr PreTokenizerSpec kPreTokenizers[] = {
    {.names = "default",
     .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|]+", kGpt2, "\\p{N}+", kThreeAsciiDigits}},
    {.names = "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code "
              "roberta-bpe gigachat a.x-4.0 "
              "mellum modern-bert mpt olmo jais exaone4",
     .patterns = {kGpt2}},
    {.names = "trillion granite-docling", .patterns = {kGpt2}, .clean_spaces = false},
    {.names = "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .patterns = {kLlama3},
     .whole_words = WholeWords::kAll,
     .add_bos = true},
    {.names = "dbrx smaug-bpe glm4 chatglm-bpe", .patterns = {kLlama3}},
    {.names = "qwen2 deepseek-r1-qwen kormo f2llmv2 hunyuan solar-open grok-2",
     .patterns = {kQwen2},
     .clean_spaces = false},
    {.names = "stablelm2 megrez", .patterns = {kQwen2}},
    {.names = "qwen35",
     .patterns = {CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" SPACE
                               "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINE_ENDS "|" ANY_SPACES},
     .clean_spaces = false},
    {.names = "smollm command-r", .patterns = {kDigit, kGpt2}, .clean_spaces = false},
    {.names = "starcoder refact codeshell exaone minerva-7b mellum2", .patterns = {kDigit, kGpt2}},
    {.names = "falcon", .patterns = {"[\\p{P}\\$\\+<=>\\^~\\|`]+", kGpt2, kThreeAsciiDigits}},
    {.names = "deepseek-llm",
     .patterns = {"[\\r\\n]", kCasedLetters, kCasedPunctuation, "[" SPACE "]+\\z", kEastOf0800,
                  "\\p{N}+"},
     .clean_spaces = false},
    {.names = "deepseek-coder",
     .patterns = {"[\\r\\n]", "[" SPACE "]?\\p{L}+", "[" SPACE "]?\\p{P}+", kEastOf0800, kDigit},
     .clean_spaces = false},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     .patterns = {"\\p{N}{1,3}", kIdeographsAndKana,
                  PUNCTUATION_THEN_LATIN "|" LETTERS_AND_MARKS
                                         "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINE_ENDS "|" ANY_SPACES},
     .clean_spaces = false},
    {.names = "spark2_5",
     .patterns = {"\\p{N}{1,3}", kIdeographsAndKana,
                  PUNCTUATION_THEN_LATIN "|" LETTERS_AND_MARKS
                                         "| ?[\\p{P}\\p{S}]+|[\\r\\n]|" ANY_SPACES,
                  kDigit},
     .clean_spaces = false},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2",
     .patterns = {"[^\\r\\n\\p{L}\\p{N}]?" UP_TO_LOWER "(?:" CONTRACTIONS
                  ")?|[^\\r\\n\\p{L}\\p{N}]?" UPPER_FIRST "(?:" CONTRACTIONS
                  ")?|\\p{N}{1,3}| ?" NOT_SPACE_LETTER_NUMBER "+[\\r\\n/]*|" LINE_ENDS
                  "|" ANY_SPACES},
     .clean_spaces = false},
    {.names = "tekken",
     .patterns = {"[^\\r\\n\\p{L}\\p{N}]?" UP_TO_LOWER "|[^\\r\\n\\p{L}\\p{N}]?" UPPER_FIRST
                  "|\\p{N}| ?" NOT_SPACE_LETTER_NUMBER "+[\\r\\n/]*|" LINE_ENDS "|" ANY_SPACES},
     .whole_words = WholeWords::kAll,
     .add_bos = true,
     .clean_spaces = false},
    {.names = "bloom gpt3-finnish", .patterns = {kUpToPunctuation}},
    {.names = "poro-chat", .patterns = {kUpToPunctuation}, .clean_spaces = false},
    {.names = "viking", .patterns = {kUpToPunctuation, kDigit}, .clean_spaces = false},
    {.names = "bailingmoe bailingmoe2 llada-moe",
     .patterns = {"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|" LETTERS "|\\p{N}|" PUNCTUATION
                  "|[" SPACE "]*[\\r\\n]|" ANY_SPACES},
     .clean_spaces = false},
    {.names = "seed-coder",
     .patterns = {CONTRACTIONS "|" LETTERS "|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}\\r\\n]+|" LINE_ENDS
                               "|" ANY_SPACES},
     .clean_spaces = false},
    {.names = "exaone-moe",
     .patterns = {CONTRACTIONS
                  "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| "
                  "?" NOT_SPACE_LETTER_NUMBER "+[\\r\\n/]?|[" SPACE "]*[\\r\\n]|" ANY_SPACES}},
    {.names = "minicpm5",
     .patterns = {"\\p{N}{1,3}",
                  CONTRACTIONS "|" LETTERS "|\\p{N}+|" PUNCTUATION "|" LINE_ENDS "|" ANY_SPACES},
     .whole_words = WholeWords::kAll},
    {.names = "laguna", .patterns = {kLineOrNewlines, kQwen2}, .clean_spaces = false},
    {.names = "ufakzeka",
     .patterns = {LETTERS "|\\p{N}|" PUNCTUATION "|" LINE_ENDS "|" ANY_SPACES},
     .clean_spaces = false},
    {.names = "jais-2",
     .patterns = {CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" PUNCTUATION "|" LINE_ENDS "|[" SPACE
                               "]{512}(?![^" SPACE "])|[" SPACE "]{256}(?![^" SPACE "])|[" SPACE
                               "]{128}(?![^" SPACE "])|[" SPACE "]{64}(?![^" SPACE "])|[" SPACE
                               "]{32}(?![^" SPACE "])|[" SPACE "]{16}(?![^" SPACE "])|[" SPACE
                               "]{8}(?![^" SPACE "])|[" SPACE "]{4}(?![^" SPACE "])|[" SPACE
                               "]{1,2}(?![^" SPACE "])|[" SPACE "]"}},
    {.names = "chameleon",
     .patterns = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", kDigit,
                  "[\\p{P}!-/:-@\\[-`{-~]", kGpt2},
     .add_bos = true,
     .clean_spaces = false},
    {.names = "gemma4",
     .patterns = {kLineOrNewlines},
     .spelling = TokenSpelling::kEscapedSpaces,
     .whole_words = WholeWords::kNewlines,
     .add_bos = true},
    {.names = "sarvam-moe",
     .patterns = {kLineOrNewlines},
     .spelling = TokenSpelling::kEscapedSpaces,
     .clean_spaces = false},
};

bool HasName(const PreTokenizerSpec& spec, std::string_view wanted) {
  std::string_view names = spec.names;
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == wanted) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
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

const PreTokenizerSpec* FindPreTokenizer(std::string_view name) {
  for (const PreTokenizerSpec& spec : kPreTokenizers) {
    if (HasName(spec, name)) return &spec;
  }
  return nullptr;
}

const PreTokenizerSpec& DefaultPreTokenizer() { return kPreTokenizers[0]; }

void PreTokenizer::PatternDeleter::operator()(void* pattern) const {
  pcre2_code_free(static_cast<pcre2_code*>(pattern));
}

absl::StatusOr<PreTokenizer> PreTokenizer::Create(const PreTokenizerSpec& spec) {
  PreTokenizer pre_tokenizer;
  for (const char* pattern : spec.patterns) {
    if (pattern == nullptr) break;
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF, &error, &offset, nullptr);
    if (code == nullptr)
      return Internal("pre-tokenizer {}: pattern {} at {}: PCRE2 error {}", spec.names, pattern,
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
