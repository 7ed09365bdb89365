#include "engine/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.h"
#include "engine/text/token_spelling.h"
#include "tests/support/metadata_builder.h"
#include "tests/support/test_data.h"

namespace baton::engine {
namespace {

using baton::testing::MetadataBuilder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<TokenId>;

enum : int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6 };

std::unique_ptr<Tokenizer> Create(const Metadata& metadata) {
  auto tokenizer = Tokenizer::Create(metadata);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

std::string CreateError(const Metadata& metadata) {
  return std::string(Message(Tokenizer::Create(metadata).status()));
}

// ---- a byte-level BPE vocabulary: ids 0..255 are the bytes

enum : TokenId {
  kHe = 256,
  kHel,
  kLo,
  kHello,
  kSpaceW,
  kAa,
  kAaaa,
  kTwoSpaces,
  kBos,
  kImEnd,
  kTool
};

MetadataBuilder BpeVocabulary() {
  std::vector<std::string> tokens;
  std::vector<int32_t> types(256, kNormal);
  for (int byte = 0; byte < 256; ++byte) {
    tokens.emplace_back();
    AppendByteCharacter(static_cast<uint8_t>(byte), tokens.back());
  }
  const std::pair<const char*, int32_t> more[] = {
      {"he", kNormal},          {"hel", kNormal},         {"lo", kNormal},
      {"hello", kNormal},       {"Ġw", kNormal},          {"aa", kNormal},
      {"aaaa", kNormal},        {"  ", kUserDefined},     {"<|bos|>", kControl},
      {"<|im_end|>", kControl}, {"<tool>", kUserDefined},
  };
  for (const auto& [text, type] : more) {
    tokens.emplace_back(text);
    types.push_back(type);
  }
  MetadataBuilder builder;
  builder.String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", "qwen2")
      .Strings("tokenizer.ggml.tokens", tokens)
      .Int32s("tokenizer.ggml.token_type", types)
      .Strings("tokenizer.ggml.merges", {"h e", "he l", "l o", "hel lo", "Ġ w", "a a", "aa aa"})
      .Uint32("tokenizer.ggml.bos_token_id", kBos)
      .Uint32("tokenizer.ggml.eos_token_id", kImEnd);
  return builder;
}

TEST(BpeTest, MergesInTheOrderOfTheList) {
  const MetadataBuilder builder = BpeVocabulary();
  const auto tokenizer = Create(builder.Build());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->Encode("hello", {}), (Ids{kHello}));
  EXPECT_EQ(tokenizer->Encode("helhe", {}), (Ids{kHel, kHe}));
  EXPECT_EQ(tokenizer->Encode("hello world", {}), (Ids{kHello, kSpaceW, 'o', 'r', 'l', 'd'}));
  EXPECT_EQ(tokenizer->Encode("aaaaaaa", {}), (Ids{kAaaa, kAa, 'a'}));
  EXPECT_EQ(tokenizer->Encode("", {}), Ids());
  EXPECT_EQ(tokenizer->Encode(std::string("\0", 1), {}), (Ids{0}));
  EXPECT_EQ(tokenizer->Decode(Ids{kHello, kSpaceW, 'o'}, false), "hello wo");
}

TEST(BpeTest, BadBytesBecomeReplacementCharacters) {
  const MetadataBuilder builder = BpeVocabulary();
  const auto tokenizer = Create(builder.Build());
  ASSERT_NE(tokenizer, nullptr);
  const Ids replacement = {0xEF, 0xBF, 0xBD};
  for (const char* bytes : {"\xFF", "\x80", "\xC3", "\xF8"}) {
    EXPECT_EQ(tokenizer->Encode(bytes, {}), replacement) << bytes;
  }
  EXPECT_EQ(tokenizer->Encode("\xED\xA0\x80", {}).size(), 9u);       // a surrogate
  EXPECT_EQ(tokenizer->Encode("\xF4\x90\x80\x80", {}).size(), 12u);  // above U+10FFFF
}

TEST(BpeTest, SpecialTokens) {
  const MetadataBuilder builder = BpeVocabulary();
  const auto tokenizer = Create(builder.Build());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->Encode("a<|im_end|>a", {.parse_special = true}), (Ids{'a', kImEnd, 'a'}));
  EXPECT_EQ(tokenizer->Encode("a<|im_end|>", {}).size(), 11u);
  EXPECT_EQ(tokenizer->Encode("a<tool>  a", {}),
            (Ids{'a', kTool, kTwoSpaces, 'a'}));  // user-defined: always
  EXPECT_EQ(tokenizer->Encode("a", {.add_special = true}),
            (Ids{'a'}));  // no key, and qwen2 adds none
  EXPECT_EQ(tokenizer->Decode(Ids{'a', kImEnd, kTool}, false), "a<tool>");
  EXPECT_EQ(tokenizer->Decode(Ids{'a', kImEnd, kTool}, true), "a<|im_end|><tool>");
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(kImEnd));
  EXPECT_FALSE(tokenizer->IsEndOfGeneration(kTool));
  EXPECT_TRUE(tokenizer->IsControl(kBos));
  EXPECT_EQ(tokenizer->TokenText(tokenizer->bos()), "<|bos|>");
  EXPECT_EQ(tokenizer->TokenBytes(-1, true), "");
  EXPECT_EQ(tokenizer->TokenBytes(tokenizer->vocab_size(), true), "");
}

TEST(BpeTest, PromptsHaveOneBosAndNoControlTokensInContent) {
  MetadataBuilder builder = BpeVocabulary();
  builder.Bool("tokenizer.ggml.add_bos_token", true);
  const auto tokenizer = Create(builder.Build());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->EncodePrompt({.text = "<|bos|>a"}), (Ids{kBos, 'a'}));
  EXPECT_EQ(tokenizer->EncodePrompt({.text = "a"}), (Ids{kBos, 'a'}));
  EXPECT_EQ(tokenizer->Encode("<|bos|>a", {.parse_special = true, .add_special = true}),
            (Ids{kBos, kBos, 'a'}));

  // "a<|im_end|>a<|im_end|>": the first one is content, whole or in part.
  const std::string text = "a<|im_end|>a<|im_end|>";
  for (const PromptText::Range& content : {PromptText::Range{0, 12}, {1, 11}, {2, 3}, {10, 11}}) {
    const Ids ids = tokenizer->EncodePrompt({.text = text, .content = {content}});
    EXPECT_EQ(std::count(ids.begin(), ids.end(), kImEnd), 1) << content.begin;
    EXPECT_EQ(ids.back(), kImEnd);
    EXPECT_EQ(tokenizer->Decode(ids, true), "<|bos|>" + text);
  }
  // Next to content is not in it.
  EXPECT_EQ(tokenizer->EncodePrompt({.text = "a<|im_end|>", .content = {{0, 1}}}),
            (Ids{kBos, 'a', kImEnd}));
  EXPECT_EQ(tokenizer->EncodePrompt({.text = "<tool>", .content = {{0, 6}}}), (Ids{kBos, kTool}));
}

TEST(BpeTest, CleansUpSpacesWhereTheVocabularySaysSo) {
  MetadataBuilder builder = BpeVocabulary();
  builder.String("tokenizer.ggml.pre", "gpt-2");
  const auto tokenizer = Create(builder.Build());
  ASSERT_NE(tokenizer, nullptr);
  const std::pair<const char*, const char*> cases[] = {
      {"a , b .", "a, b."}, {"a ' b", "a'b"}, {"a 's b 're 't", "a's b're 't"},
      {" ?", "?"},          {" ' ' ", "'' "},
  };
  for (const auto& [text, cleaned] : cases)
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, {}), true), cleaned);
}

TEST(BpeTest, RefusesWhatItDoesNotKnow) {
  MetadataBuilder builder = BpeVocabulary();
  EXPECT_THAT(CreateError(builder.Build({"tokenizer.ggml.merges"})),
              HasSubstr("tokenizer.ggml.merges"));
  EXPECT_THAT(CreateError(builder.Build({"tokenizer.ggml.tokens"})),
              HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(CreateError(builder.Build({"tokenizer.ggml.model"})),
              HasSubstr("tokenizer.ggml.model"));

  const auto without_pre = Create(builder.Build({"tokenizer.ggml.pre"}));
  ASSERT_NE(without_pre, nullptr);
  ASSERT_EQ(without_pre->warnings().size(), 1u);
  EXPECT_THAT(without_pre->warnings()[0], HasSubstr("tokenizer.ggml.pre"));

  for (const char* name : {"nosuch", "gpt-2 phi-2", "gpt", "Qwen2"}) {
    builder.String("tokenizer.ggml.pre", name);
    EXPECT_THAT(CreateError(builder.Build()), HasSubstr(name));
  }
  for (const char* model : {"bert", "t5", "rwkv", "plamo2"}) {
    builder.String("tokenizer.ggml.model", model);
    EXPECT_THAT(CreateError(builder.Build()), HasSubstr(model));
  }
}

TEST(BpeTest, BrokenVocabulariesAreErrorsOrWarnings) {
  MetadataBuilder builder = BpeVocabulary();
  builder.Uint32("tokenizer.ggml.eos_token_id", 5000);
  const auto tokenizer = Create(builder.Build());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->eos(), kNoToken);
  EXPECT_THAT(tokenizer->warnings().at(0), HasSubstr("tokenizer.ggml.eos_token_id"));

  MetadataBuilder twice = BpeVocabulary();
  twice.Strings("tokenizer.ggml.tokens", {"a", "b", "a"})
      .Int32s("tokenizer.ggml.token_type", {1, 1, 1});
  EXPECT_THAT(CreateError(twice.Build()), HasSubstr("stands twice, as 0 and 2"));

  MetadataBuilder types = BpeVocabulary();
  types.Int32s("tokenizer.ggml.token_type", {1});
  EXPECT_THAT(CreateError(types.Build()), HasSubstr("tokenizer.ggml.token_type"));

  // A vocabulary without the bytes: nothing to encode with, and no crash.
  MetadataBuilder empty = BpeVocabulary();
  empty.Strings("tokenizer.ggml.tokens", {"x"}).Int32s("tokenizer.ggml.token_type", {1});
  const auto tiny = Create(empty.Build());
  ASSERT_NE(tiny, nullptr);
  EXPECT_EQ(tiny->Encode("axb hello", {}), (Ids{0}));
}

TEST(BpeTest, EveryPreTokenizerSplitsEveryText) {
  constexpr const char* kNames[] = {"default",        "gpt-2",       "trillion",   "llama-bpe",
                                    "glm4",           "qwen2",       "stablelm2",  "qwen35",
                                    "smollm",         "starcoder",   "falcon",     "deepseek-llm",
                                    "deepseek-coder", "deepseek-v3", "spark2_5",   "gpt-4o",
                                    "tekken",         "bloom",       "poro-chat",  "viking",
                                    "bailingmoe",     "seed-coder",  "exaone-moe", "minicpm5",
                                    "laguna",         "ufakzeka",    "jais-2",     "chameleon",
                                    "command-r",      "refact",      "mpt",        "olmo"};
  const std::string text =
      "Hello  wORLD's 12345 \t\n\r\n x\u00A0y \u3000\u4E00\u3042 \uD55C\uAE00 caf\u00E9 e\u0301 "
      "\u0627\u0644 !?… "
      "<sentinel:3> \U0001F636 \u180E \x01\x7F _a_B I'LL  ";
  MetadataBuilder builder = BpeVocabulary();
  for (const char* name : kNames) {
    builder.String("tokenizer.ggml.pre", name)
        .Bool("tokenizer.ggml.clean_up_tokenization_spaces", false);
    const auto tokenizer = Create(builder.Build());
    ASSERT_NE(tokenizer, nullptr) << name;
    EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(text, {}), true), text) << name;
  }
}

// ---- SPM

enum : TokenId {
  kSpmUnk,
  kSpmBos,
  kSpmEos,
  kSpmBytes,
  kA = kSpmBytes + 256,
  kSpmSpace,
  kSpaceA,
  kAb,
  kB,
  kSpaceAb
};

MetadataBuilder SpmVocabulary() {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<int32_t> types = {kUnknown, kControl, kControl};
  std::vector<float> scores(3, 0.0f);
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
    types.push_back(kByte);
    scores.push_back(0);
  }
  const std::pair<const char*, float> more[] = {{"a", -5.f},  {"▁", -4.f}, {"▁a", -1.f},
                                                {"ab", -2.f}, {"b", -6.f}, {"▁ab", -3.f}};
  for (const auto& [text, score] : more) {
    tokens.emplace_back(text);
    types.push_back(kNormal);
    scores.push_back(score);
  }
  MetadataBuilder builder;
  builder.String("tokenizer.ggml.model", "llama")
      .Strings("tokenizer.ggml.tokens", tokens)
      .Int32s("tokenizer.ggml.token_type", types)
      .Floats("tokenizer.ggml.scores", scores);
  return builder;
}

TEST(SpmTest, JoinsByScoreWithByteFallback) {
  const MetadataBuilder builder = SpmVocabulary();
  const auto tokenizer = Create(builder.Build());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(tokenizer->warnings(), IsEmpty());
  EXPECT_EQ(tokenizer->Encode("a", {}), (Ids{kSpaceA}));
  EXPECT_EQ(tokenizer->Encode("ab", {}), (Ids{kSpaceAb}));
  EXPECT_EQ(tokenizer->Encode("aab", {}), (Ids{kSpaceA, kAb}));
  EXPECT_EQ(tokenizer->Encode("", {.add_special = true}), (Ids{kSpmBos}));
  EXPECT_EQ(tokenizer->Encode("a\n", {.add_special = true}),
            (Ids{kSpmBos, kSpaceA, kSpmBytes + '\n'}));
  EXPECT_EQ(tokenizer->Encode("\xC3\xA9\xFF", {}),
            (Ids{kSpmSpace, kSpmBytes + 0xC3, kSpmBytes + 0xA9, kSpmBytes + 0xFF}));
  EXPECT_EQ(tokenizer->Encode("a</s>a", {.parse_special = true}), (Ids{kSpaceA, kSpmEos, kSpaceA}));
  EXPECT_EQ(tokenizer->Decode(Ids{kSpaceA, kSpaceA}, false), "a a");
  EXPECT_EQ(tokenizer->TokenBytes(kSpaceA, false), " a");
  EXPECT_EQ(tokenizer->TokenBytes(kSpmBytes + 0xC3, false), "\xC3");
}

TEST(SpmTest, KeysForSpaces) {
  MetadataBuilder builder = SpmVocabulary();
  builder.Bool("tokenizer.ggml.add_space_prefix", false)
      .Bool("tokenizer.ggml.add_bos_token", false);
  builder.Bool("tokenizer.ggml.add_eos_token", true);
  const auto bare = Create(builder.Build());
  ASSERT_NE(bare, nullptr);
  EXPECT_EQ(bare->Encode("a", {.add_special = true}), (Ids{kA, kSpmEos}));
  EXPECT_EQ(bare->Decode(Ids{kSpaceA}, false), " a");

  MetadataBuilder extra = SpmVocabulary();
  extra.Bool("tokenizer.ggml.remove_extra_whitespaces", true);
  const auto single = Create(extra.Build());
  ASSERT_NE(single, nullptr);
  EXPECT_EQ(single->Encode("  a   a ", {}), (Ids{kSpaceA, kSpaceA}));
}

TEST(SpmTest, PreIsNotNeededButNotIgnoredEither) {
  MetadataBuilder builder = SpmVocabulary();
  builder.String("tokenizer.ggml.pre", "default");
  EXPECT_NE(Create(builder.Build()), nullptr);
  builder.String("tokenizer.ggml.pre", "nosuch");
  EXPECT_THAT(CreateError(builder.Build()), HasSubstr("nosuch"));
}

// ---- long texts stay near linear

TEST(TokenizerTest, LongTextsOfOneKind) {
  const MetadataBuilder bpe = BpeVocabulary();
  const MetadataBuilder spm = SpmVocabulary();
  const std::string texts[] = {std::string(60000, 'a'),  std::string(1 << 20, ' '),
                               std::string(60000, '1'),  std::string(60000, '!'),
                               std::string(60000, '\n'), std::string(60000, '\xFF')};
  for (const MetadataBuilder* builder : {&bpe, &spm}) {
    const auto tokenizer = Create(builder->Build());
    ASSERT_NE(tokenizer, nullptr);
    for (const std::string& text : texts) {
      const auto start = std::chrono::steady_clock::now();
      const Ids ids = tokenizer->Encode(text, {.parse_special = true});
      EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5))
          << text.substr(0, 3);
      EXPECT_GE(tokenizer->Decode(ids, true).size(), text.size()) << text.substr(0, 3);
    }
  }
}

// ---- values reported in public, with the vocabularies they are about

std::unique_ptr<Tokenizer> LoadVocabulary(const std::string& name) {
  const auto model =
      GgufModel::Open(testing::TestDataDir() + "/conformance/vocab/ggml-vocab-" + name + ".gguf");
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? Create(model->metadata()) : nullptr;
}

TEST(ReportedCasesTest, SpaceThatSpmPutsInFront) {
  SKIP_WITHOUT_TEST_DATA();
  const auto tokenizer = LoadVocabulary("llama-spm");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->Encode("Hello", {}), (Ids{15043}));
  EXPECT_EQ(tokenizer->Encode(" Hello", {}), (Ids{29871, 15043}));
  EXPECT_EQ(tokenizer->Encode("  Hello", {}), (Ids{259, 15043}));
  EXPECT_EQ(tokenizer->Encode("", {}), Ids());
  EXPECT_EQ(tokenizer->Encode("a</s>b", {.parse_special = true}), (Ids{263, 2, 289}));
  EXPECT_EQ(tokenizer->Encode("a</s>b", {}), (Ids{263, 829, 29879, 29958, 29890}));
  EXPECT_EQ(tokenizer->Encode("<s> Hello", {.parse_special = true, .add_special = true}),
            (Ids{1, 1, 29871, 15043}));
  EXPECT_EQ(tokenizer->Decode(Ids{259, 15043}, false), "  Hello");
}

TEST(ReportedCasesTest, PreTokenizersDiffer) {
  SKIP_WITHOUT_TEST_DATA();
  struct Case {
    const char* text;
    Ids llama_bpe, qwen2, gpt2;
  };
  const Case cases[] = {
      {"3333", {8765, 18}, {18, 18, 18, 18}, {24840}},
      {"1234567", {4513, 10961, 22}, {16, 17, 18, 19, 20, 21, 22}, {10163, 2231, 3134}},
      {"\n\n", {271}, {271}, {628}},
      {"\n\na", {271, 64}, {271, 64}, {198, 198, 64}},
      {"\r\n", {319}, {319}, {201, 198}},
      {"a\r\n\r\nb", {64, 881, 65}, {64, 871, 65}, {64, 201, 198, 201, 198, 65}},
      {" Việt", {101798}, {128324}, {16049, 157, 119, 229, 83}},
      {"I'LL we'Ve",
       {40, 6, 4178, 584, 6, 43712},
       {40, 6, 4086, 582, 6, 42612},
       {40, 6, 3069, 356, 6, 26979}},
      {"😶‍🌫️",
       {76460, 114, 102470, 9468, 234, 104, 31643},
       {146440, 378, 235, 149921, 30543},
       {47249, 114, 447, 235, 8582, 234, 104, 37929}},
      {"a  b   c",
       {64, 220, 293, 256, 272},
       {64, 220, 293, 256, 272},
       {64, 220, 275, 220, 220, 269}},
  };
  const auto llama_bpe = LoadVocabulary("llama-bpe"), qwen2 = LoadVocabulary("qwen2"),
             gpt2 = LoadVocabulary("gpt-2");
  for (const Case& c : cases) {
    EXPECT_EQ(llama_bpe->Encode(c.text, {}), c.llama_bpe) << c.text;
    EXPECT_EQ(qwen2->Encode(c.text, {}), c.qwen2) << c.text;
    EXPECT_EQ(gpt2->Encode(c.text, {}), c.gpt2) << c.text;
  }
}

TEST(ReportedCasesTest, ControlTokensTypedByTheUser) {
  SKIP_WITHOUT_TEST_DATA();
  const auto tokenizer = LoadVocabulary("llama-bpe");
  ASSERT_NE(tokenizer, nullptr);
  const std::string content = "A<|eot_id|>B";
  const Ids plain = {32, 27, 91, 68, 354, 851, 91, 29, 33};
  EXPECT_EQ(tokenizer->Encode(content, {}), plain);
  EXPECT_EQ(tokenizer->Encode(content, {.parse_special = true}), (Ids{32, 128009, 33}));

  PromptText prompt = {.text = "<|begin_of_text|>" + content + "<|eot_id|>"};
  prompt.content = {{17, 17 + content.size()}};
  Ids expected = plain;
  expected.insert(expected.begin(), 128000);
  expected.push_back(128009);
  EXPECT_EQ(tokenizer->EncodePrompt(prompt), expected);
}

TEST(ReportedCasesTest, OneBosInPrompts) {
  SKIP_WITHOUT_TEST_DATA();
  const auto llama = LoadVocabulary("llama-bpe"), qwen2 = LoadVocabulary("qwen2");
  EXPECT_EQ(llama->EncodePrompt({.text = "<|begin_of_text|>Hello"}), (Ids{128000, 9906}));
  EXPECT_EQ(llama->EncodePrompt({.text = "Hello"}), (Ids{128000, 9906}));
  EXPECT_EQ(llama->Encode("<|begin_of_text|>Hello", {.parse_special = true, .add_special = true}),
            (Ids{128000, 128000, 9906}));
  EXPECT_EQ(qwen2->Encode("Hello", {.add_special = true}), qwen2->Encode("Hello", {}));
}

}  // namespace
}  // namespace baton::engine
