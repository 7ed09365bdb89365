#include "engine/text/special_tokens.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace baton::engine {
namespace {

// Texts that end an answer, whatever the file's keys say. They are control tokens even where the
// file has another type.
constexpr std::string_view kEndOfGenerationTexts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "[e~[",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
};

// A part of fill-in-the-middle prompts: its keys (the second is an old name) and the texts it is
// known by. A model that writes one where a file would end has ended its answer.
struct InfillRole {
  std::string_view key, old_key;
  bool ends_generation;
  std::string_view texts[8];
};
constexpr InfillRole kInfillRoles[] = {
    {"fim_pre_token_id",
     "prefix_token_id",
     false,
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
      "<|code_prefix|>", "<|prefix|>"}},
    {"fim_suf_token_id",
     "suffix_token_id",
     false,
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
      "<|code_suffix|>", "<|suffix|>"}},
    {"fim_mid_token_id",
     "middle_token_id",
     false,
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
      "<|code_middle|>", "<|middle|>"}},
    {"fim_pad_token_id", "", true, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {"fim_rep_token_id",
     "",
     true,
     {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {"fim_sep_token_id", "", true, {"<|file_sep|>"}},
};

// Marks inside an answer that clients need to see, though files call them control tokens.
constexpr std::string_view kShownControlTexts[] = {"<|channel|>", "<|message|>", "<|start|>",
                                                   "<|constrain|>"};

class Reader {
 public:
  Reader(const Metadata& metadata, Vocabulary& vocabulary, std::vector<std::string>& warnings)
      : metadata_(metadata), vocabulary_(vocabulary), warnings_(warnings) {}

  // The token that a key names; `fallback` where it is absent, or out of range (some files store -1
  // for none).
  absl::StatusOr<TokenId> Id(std::string_view name, TokenId fallback) {
    if (!vocabulary_.Contains(fallback)) fallback = kNoToken;
    const std::string key = fmt::format("tokenizer.ggml.{}", name);
    const GgufValue* value = metadata_.Find(key);
    if (value == nullptr) return fallback;
    ASSIGN_OR_RETURN(const int64_t id, metadata_.GetInt(key));
    if (id >= 0 && id < vocabulary_.size()) return static_cast<TokenId>(id);
    warnings_.push_back(
        fmt::format("{}: {} is not a token of {}; ignored", key, id, vocabulary_.size()));
    return fallback;
  }

  absl::StatusOr<bool> Flag(std::string_view name, bool fallback) {
    ASSIGN_OR_RETURN(const auto value, metadata_.FindBool(fmt::format("tokenizer.ggml.{}", name)));
    return value.value_or(fallback);
  }

  TokenId FindControl(std::string_view text) {
    const TokenId id = vocabulary_.Find(text);
    if (id != kNoToken) vocabulary_.set_type(id, TokenType::kControl);
    return id;
  }

 private:
  const Metadata& metadata_;
  Vocabulary& vocabulary_;
  std::vector<std::string>& warnings_;
};

void Insert(std::vector<TokenId>& sorted, TokenId id) {
  if (id == kNoToken) return;
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), id);
  if (at == sorted.end() || *at != id) sorted.insert(at, id);
}

absl::Status ReadInfillTokens(Reader& reader, SpecialTokens& tokens) {
  for (const InfillRole& role : kInfillRoles) {
    ASSIGN_OR_RETURN(TokenId id, reader.Id(role.key, kNoToken));
    if (!role.old_key.empty()) {
      ASSIGN_OR_RETURN(id, reader.Id(role.old_key, id));
    }
    for (std::string_view text : role.texts) {
      if (id != kNoToken || text.empty()) break;
      id = reader.FindControl(text);
    }
    if (role.ends_generation) Insert(tokens.end_of_generation, id);
  }
  return absl::OkStatus();
}

// Two vocabularies hold texts of the list above that do not end their answers.
void DropFalseEnds(Vocabulary& vocabulary, SpecialTokens& tokens) {
  const auto ends = [&](std::string_view text) {
    return tokens.EndsGeneration(vocabulary.Find(text));
  };
  const auto drop = [&](std::string_view text, TokenType type) {
    const TokenId id = vocabulary.Find(text);
    if (!tokens.EndsGeneration(id)) return;
    std::erase(tokens.end_of_generation, id);
    if (type == TokenType::kUserDefined) Insert(tokens.shown_control, id);
    vocabulary.set_type(id, type);
  };
  // Where messages end with <|return|> or <|call|>, <|end|> only ends one of several parts.
  const bool calls = ends("<|call|>") || ends("<|calls|>");
  if (calls && (ends("<|return|>") || ends("<|flush|>"))) drop("<|end|>", TokenType::kUserDefined);
  // Where tool answers have a token, </s> is the HTML tag.
  if (ends("<|tool_response>")) drop("</s>", TokenType::kNormal);
}

}  // namespace

absl::StatusOr<SpecialTokens> SpecialTokens::Read(const Metadata& metadata,
                                                  const SpecialTokenDefaults& defaults,
                                                  Vocabulary& vocabulary,
                                                  std::vector<std::string>& warnings) {
  Reader reader(metadata, vocabulary, warnings);
  SpecialTokens tokens;
  ASSIGN_OR_RETURN(tokens.bos, reader.Id("bos_token_id", defaults.bos));
  ASSIGN_OR_RETURN(tokens.eos, reader.Id("eos_token_id", defaults.eos));
  ASSIGN_OR_RETURN(tokens.unknown, reader.Id("unknown_token_id", defaults.unknown));
  ASSIGN_OR_RETURN(tokens.add_bos, reader.Flag("add_bos_token", defaults.add_bos));
  ASSIGN_OR_RETURN(tokens.add_eos, reader.Flag("add_eos_token", false));
  if (tokens.add_bos && tokens.bos == kNoToken) {
    warnings.push_back("tokenizer.ggml.bos_token_id is absent: no BOS is put before texts");
    tokens.add_bos = false;
  }
  if (tokens.add_eos && tokens.eos == kNoToken) {
    warnings.push_back("tokenizer.ggml.eos_token_id is absent: no EOS is put after texts");
    tokens.add_eos = false;
  }

  RETURN_IF_ERROR(ReadInfillTokens(reader, tokens));
  for (std::string_view text : kEndOfGenerationTexts)
    Insert(tokens.end_of_generation, reader.FindControl(text));
  for (std::string_view text : kShownControlTexts) {
    const TokenId id = vocabulary.Find(text);
    if (id == kNoToken) continue;
    if (vocabulary.type(id) == TokenType::kControl) Insert(tokens.shown_control, id);
    vocabulary.set_type(id, TokenType::kUserDefined);
  }
  Insert(tokens.end_of_generation, tokens.eos);
  for (std::string_view key : {"eot_token_id", "eom_token_id"}) {
    ASSIGN_OR_RETURN(const TokenId id, reader.Id(key, kNoToken));
    Insert(tokens.end_of_generation, id);
  }
  DropFalseEnds(vocabulary, tokens);
  return tokens;
}

bool SpecialTokens::EndsGeneration(TokenId id) const {
  return std::binary_search(end_of_generation.begin(), end_of_generation.end(), id);
}

}  // namespace baton::engine
