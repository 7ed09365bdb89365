#include "engine/runtime/micro_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

namespace baton::engine {
namespace {

using ::testing::HasSubstr;

constexpr MicroBatchLimits kLimits = {
    .vocab_size = 100, .context_length = 96, .num_kv_blocks = 8, .max_rows = 64};

// Two sequences: 40 rows of a prompt in blocks 3 and 5, one row at position 64 in blocks 0, 1
// and 2.
MicroBatch GoodBatch() {
  MicroBatch batch;
  batch.tokens.assign(41, 7);
  batch.sequences = {
      {.sequence_id = 1, .first_position = 0, .num_rows = 40, .kv_blocks = {3, 5}},
      {.sequence_id = 2, .first_position = 64, .num_rows = 1, .kv_blocks = {0, 1, 2}}};
  batch.outputs.resize(3);
  batch.outputs[0].row = 38;
  batch.outputs[0].kind = OutputKind::kLogits;
  batch.outputs[1].row = 39;
  batch.outputs[1].kind = OutputKind::kScore;
  batch.outputs[1].target = 99;
  batch.outputs[2].row = 40;
  return batch;
}

TEST(MicroBatchTest, GoodOnesPass) {
  EXPECT_TRUE(CheckMicroBatch(GoodBatch(), kLimits).ok()) << CheckMicroBatch(GoodBatch(), kLimits);
  MicroBatch shared = GoodBatch();  // a shared prefix is read by both and written by none
  shared.sequences[0] = {
      .sequence_id = 1, .first_position = 32, .num_rows = 40, .kv_blocks = {0, 5, 6}};
  EXPECT_TRUE(CheckMicroBatch(shared, kLimits).ok()) << CheckMicroBatch(shared, kLimits);
}

struct HostileCase {
  const char* name;
  std::function<void(MicroBatch&)> spoil;
  const char* says;
};

const HostileCase kHostile[] = {
    {"Empty", [](MicroBatch& b) { b = {}; }, "0 rows"},
    {"TooManyRows", [](MicroBatch& b) { b.tokens.assign(65, 1); }, "65 rows"},
    {"TokenNegative", [](MicroBatch& b) { b.tokens[3] = -1; }, "token -1"},
    {"TokenBeyondVocabulary", [](MicroBatch& b) { b.tokens[3] = 100; }, "token 100"},
    {"NoSequence", [](MicroBatch& b) { b.sequences.clear(); }, "0 rows in sequences"},
    {"RowsOfNoSequence", [](MicroBatch& b) { b.sequences.pop_back(); }, "40 rows in sequences"},
    {"SequenceWithoutRows", [](MicroBatch& b) { b.sequences[0].num_rows = 0; }, "of 0 rows"},
    {"RowsNegative", [](MicroBatch& b) { b.sequences[0].num_rows = -40; }, "of -40 rows"},
    {"RowsOverflow",
     [](MicroBatch& b) { b.sequences[0].num_rows = std::numeric_limits<int32_t>::max(); },
     "positions [0, 2147483647)"},
    {"PositionNegative", [](MicroBatch& b) { b.sequences[1].first_position = -1; },
     "positions [-1, 0)"},
    {"PositionBeyondContext", [](MicroBatch& b) { b.sequences[1].first_position = 96; },
     "positions [96, 97)"},
    {"PositionOverflow",
     [](MicroBatch& b) { b.sequences[1].first_position = std::numeric_limits<int32_t>::max(); },
     "positions"},
    {"TooFewBlocks", [](MicroBatch& b) { b.sequences[0].kv_blocks = {3}; }, "1 KV blocks"},
    {"TooManyBlocks",
     [](MicroBatch& b) {
       b.sequences[0].kv_blocks = {3, 4, 5, 6};
     },
     "4 KV blocks"},
    {"BlockNegative", [](MicroBatch& b) { b.sequences[0].kv_blocks[1] = -1; }, "KV block -1"},
    {"BlockBeyondPool", [](MicroBatch& b) { b.sequences[0].kv_blocks[1] = 8; }, "KV block 8"},
    {"BlockTwiceInASequence", [](MicroBatch& b) { b.sequences[0].kv_blocks[1] = 3; },
     "KV block 3 twice"},
    {"BlockWrittenByTwo", [](MicroBatch& b) { b.sequences[1].kv_blocks[2] = 5; },
     "KV block 5 written by two"},
    {"OutputNegative", [](MicroBatch& b) { b.outputs[0].row = -1; }, "output row -1"},
    {"OutputBeyondRows", [](MicroBatch& b) { b.outputs[2].row = 41; }, "output row 41"},
    {"OutputsOutOfOrder", [](MicroBatch& b) { b.outputs[1].row = 38; }, "output row 38"},
    {"KindUnknown", [](MicroBatch& b) { b.outputs[0].kind = static_cast<OutputKind>(9); },
     "output kind 9"},
    {"TargetAbsent", [](MicroBatch& b) { b.outputs[1].target = kNoToken; }, "target -1"},
    {"TemperatureNegative", [](MicroBatch& b) { b.outputs[2].sampling.temperature = -1; },
     "temperature"},
    {"TopPNan", [](MicroBatch& b) { b.outputs[2].sampling.top_p = NAN; }, "top_p"},
    {"RepetitionPenaltyZero", [](MicroBatch& b) { b.outputs[2].sampling.repetition_penalty = 0; },
     "repetition_penalty"},
    {"TooManyLogprobs", [](MicroBatch& b) { b.outputs[2].sampling.top_logprobs = 1 << 30; },
     "top_logprobs"},
    {"BiasOfNoToken",
     [](MicroBatch& b) {
       b.outputs[2].sampling.logit_bias = {{100, 1.0f}};
     },
     "token 100"},
    {"RecentTooLong", [](MicroBatch& b) { b.outputs[2].recent.assign(65, 1); }, "65 recent"},
    {"RecentOfNoToken", [](MicroBatch& b) { b.outputs[2].recent = {-5}; }, "recent token -5"},
    {"CountOfNoToken",
     [](MicroBatch& b) {
       b.outputs[2].output_counts = {{100, 1}};
     },
     "token 100"},
    {"CountZero",
     [](MicroBatch& b) {
       b.outputs[2].output_counts = {{1, 0}};
     },
     "counted 0"},
    {"TooManyCounts",
     [](MicroBatch& b) {
       b.outputs[2].output_counts.assign(101, {1, 1});
     },
     "101 tokens"},
    {"MaskOfAnotherSize", [](MicroBatch& b) { b.outputs[2].allowed.assign(3, ~0u); }, "3 words"},
};

class HostileMicroBatchTest : public ::testing::TestWithParam<HostileCase> {};

TEST_P(HostileMicroBatchTest, IsRefused) {
  MicroBatch batch = GoodBatch();
  GetParam().spoil(batch);
  const absl::Status status = CheckMicroBatch(batch, kLimits);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(Table, HostileMicroBatchTest, ::testing::ValuesIn(kHostile),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace baton::engine
