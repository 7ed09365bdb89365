#include "engine/text/pre_tokenizer.h"

#include <algorithm>

namespace baton::engine {
namespace {

// The patterns are those of the tokenizers' own files (tokenizer.json), in the form that the
// reference engine gives them: \s is Unicode's white space, \d is ASCII, and "a letter, but not
// a-z" is written as a class, [^\P{L}a-z].
#define CONTRACTIONS R"('[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define LETTERS R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define OTHERS R"( ?[^\s\p{L}\p{N}]+[\r\n]*)"
#define LINE_ENDS R"(\s*[\r\n]+)"
#define SPACES R"(\s+(?!\S)|\s+)"
#define UP_TO_LOWERCASE R"([^\r\n\p{L}\p{N}]?[^\P{L}a-z]*[^\P{L}A-Z]+)"
#define FROM_UPPERCASE R"([^\r\n\p{L}\p{N}]?[^\P{L}a-z]+[^\P{L}A-Z]*)"
#define SYMBOL_AND_LATIN R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+)"
#define LETTERS_AND_MARKS R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"

constexpr char kGpt2[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|)" SPACES;
constexpr char kLlama3[] =
    CONTRACTIONS "|" LETTERS R"(|\p{N}{1,3}|)" OTHERS "|" LINE_ENDS "|" SPACES;
constexpr char kQwen2[] = CONTRACTIONS "|" LETTERS R"(|\p{N}|)" OTHERS "|" LINE_ENDS "|" SPACES;
constexpr char kDigit[] = R"(\p{N})";
constexpr char kUpToThreeDigits[] = R"(\p{N}{1,3})";
constexpr char kThreeAsciiDigits[] = "[0-9][0-9][0-9]";
constexpr char kLineOrNewlines[] = R"([^\n]+|[\n]+)";
// Up to the punctuation of several scripts.
constexpr char kClause[] =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";
constexpr char kIdeographsAndKana[] = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
// U+0800 to U+9FA5 and Hangul, less the white space in between.
constexpr char kEastOf0800[] =
    R"([\x{800}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E})"
    R"(\x{2060}-\x{2FFF}\x{3001}-\x{9FA5}\x{AC00}-\x{D7FF}]+)";
constexpr char kCasedLetters[] =
    R"(\s?[)"
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386})"
    R"(\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F})"
    R"(\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA})"
    R"(\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D})"
    R"(\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4})"
    R"(\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3})"
    R"(\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D})"
    R"(\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184})"
    R"(\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"
    R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A})"
    R"(\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB})"
    R"(\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr char kCasedPunctuation[] =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3001}\x{3002}]+)";

constexpr PreTokenizerSpec kPreTokenizers[] = {
    {.names = "default",
     .patterns = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", kThreeAsciiDigits}},
    {.names = "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code "
              "roberta-bpe gigachat a.x-4.0 mellum modern-bert mpt olmo jais exaone4",
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
     .patterns = {CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
                               R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" LINE_ENDS "|" SPACES},
     .clean_spaces = false},
    {.names = "smollm command-r", .patterns = {kDigit, kGpt2}, .clean_spaces = false},
    {.names = "starcoder refact codeshell exaone minerva-7b mellum2", .patterns = {kDigit, kGpt2}},
    {.names = "falcon", .patterns = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2, kThreeAsciiDigits}},
    {.names = "deepseek-llm",
     .patterns = {R"([\r\n])", kCasedLetters, kCasedPunctuation, R"(\s+\z)", kEastOf0800,
                  R"(\p{N}+)"},
     .clean_spaces = false},
    {.names = "deepseek-coder",
     .patterns = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kEastOf0800, kDigit},
     .clean_spaces = false},
    {.names = "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     .patterns = {kUpToThreeDigits, kIdeographsAndKana,
                  SYMBOL_AND_LATIN "|" LETTERS_AND_MARKS R"(| ?[\p{P}\p{S}]+[\r\n]*|)" LINE_ENDS
                                   "|" SPACES},
     .clean_spaces = false},
    {.names = "spark2_5",
     .patterns = {kUpToThreeDigits, kIdeographsAndKana,
                  SYMBOL_AND_LATIN "|" LETTERS_AND_MARKS R"(| ?[\p{P}\p{S}]+|[\r\n]|)" SPACES,
                  kDigit},
     .clean_spaces = false},
    {.names = "gpt-4o llama4 kanana2 talkie minimax-m2",
     .patterns = {UP_TO_LOWERCASE "(?:" CONTRACTIONS ")?|" FROM_UPPERCASE "(?:" CONTRACTIONS ")?"
                                  R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" LINE_ENDS
                                  "|" SPACES},
     .clean_spaces = false},
    {.names = "tekken",
     .patterns = {UP_TO_LOWERCASE "|" FROM_UPPERCASE
                                  R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" LINE_ENDS "|" SPACES},
     .whole_words = WholeWords::kAll,
     .add_bos = true,
     .clean_spaces = false},
    {.names = "bloom gpt3-finnish", .patterns = {kClause}},
    {.names = "poro-chat", .patterns = {kClause}, .clean_spaces = false},
    {.names = "viking", .patterns = {kClause, kDigit}, .clean_spaces = false},
    {.names = "bailingmoe bailingmoe2 llada-moe",
     .patterns = {R"('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|)" LETTERS R"(|\p{N}|)" OTHERS
                  R"(|\s*[\r\n]|)" SPACES},
     .clean_spaces = false},
    {.names = "seed-coder",
     .patterns = {CONTRACTIONS "|" LETTERS R"(|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|)" LINE_ENDS
                               "|" SPACES},
     .clean_spaces = false},
    {.names = "exaone-moe",
     .patterns = {CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+)"
                               R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|)" SPACES}},
    {.names = "minicpm5",
     .patterns = {kUpToThreeDigits,
                  CONTRACTIONS "|" LETTERS R"(|\p{N}+|)" OTHERS "|" LINE_ENDS "|" SPACES},
     .whole_words = WholeWords::kAll},
    {.names = "laguna", .patterns = {kLineOrNewlines, kQwen2}, .clean_spaces = false},
    {.names = "ufakzeka",
     .patterns = {LETTERS R"(|\p{N}|)" OTHERS "|" LINE_ENDS "|" SPACES},
     .clean_spaces = false},
    {.names = "jais-2",
     .patterns = {CONTRACTIONS
                  "|" LETTERS R"(|\p{N}{1,3}|)" OTHERS "|" LINE_ENDS
                  R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S))"
                  R"(|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s)"}},
    {.names = "chameleon",
     .patterns = {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", R"([\t\n]|    |  )", kDigit,
                  R"([\p{P}!-/:-@\[-`{-~])", kGpt2},
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

}  // namespace

const PreTokenizerSpec* FindPreTokenizer(std::string_view name) {
  for (const PreTokenizerSpec& spec : kPreTokenizers) {
    if (HasName(spec, name)) return &spec;
  }
  return nullptr;
}

const PreTokenizerSpec& DefaultPreTokenizer() { return kPreTokenizers[0]; }

}  // namespace baton::engine
