// Round trips of all that travels beside hidden states, and messages that must be refused.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "proto/channel_options.h"
#include "proto/load_convert.h"
#include "proto/micro_batch_convert.h"
#include "proto/spec_hash.h"
#include "proto/status_convert.h"
#include "proto/version.h"
#include "tests/support/fake_stage.h"
#include "tests/support/status_matchers.h"

namespace baton::wire {
namespace {

using ::baton::testing::Fails;
using ::baton::testing::FakeSpec;
using ::baton::testing::IsOk;

engine::MicroBatch FullBatch() {
  engine::MicroBatch batch;
  batch.id = 1ull << 60;
  batch.epoch = 1'700'000'000'000;
  batch.end_layer = 7;
  batch.tokens = {1, 2, 3};
  batch.sequences = {{.sequence_id = 5, .first_position = 31, .num_rows = 2, .kv_blocks = {4, 9}},
                     {.sequence_id = 6, .first_position = 0, .num_rows = 1, .kv_blocks = {0}}};
  engine::OutputRow& sample = batch.outputs.emplace_back();
  sample.row = 1;
  sample.sampling.temperature = 0.25f;
  sample.sampling.top_k = 7;
  sample.sampling.top_p = 0.5f;
  sample.sampling.min_p = 0.125f;
  sample.sampling.repetition_penalty = 1.5f;
  sample.sampling.presence_penalty = -0.5f;
  sample.sampling.frequency_penalty = 0.75f;
  sample.sampling.seed = std::numeric_limits<uint64_t>::max();
  sample.sampling.logit_bias = {{3, -2.5f}};
  sample.sampling.top_logprobs = 4;
  sample.recent = {1, 2};
  sample.output_counts = {{2, 1}};
  sample.allowed = {0xffffffffu, 1u};
  engine::OutputRow& score = batch.outputs.emplace_back();
  score.row = 2;
  score.kind = engine::OutputKind::kScore;
  score.target = 77;
  return batch;
}

TEST(MicroBatchConvert, KeepsEveryField) {
  const engine::MicroBatch batch = FullBatch();
  v1::MicroBatch message;
  ToProto(batch, &message);
  const auto back = FromProto(message);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->id, batch.id);
  EXPECT_EQ(back->epoch, batch.epoch);
  EXPECT_EQ(back->end_layer, batch.end_layer);
  EXPECT_EQ(back->tokens, batch.tokens);
  ASSERT_EQ(back->sequences.size(), 2u);
  EXPECT_EQ(back->sequences[0].sequence_id, 5u);
  EXPECT_EQ(back->sequences[0].first_position, 31);
  EXPECT_EQ(back->sequences[0].num_rows, 2);
  EXPECT_EQ(back->sequences[0].kv_blocks, batch.sequences[0].kv_blocks);
  ASSERT_EQ(back->outputs.size(), 2u);
  const engine::SamplingParams &got = back->outputs[0].sampling,
                               &expected = batch.outputs[0].sampling;
  EXPECT_EQ(
      std::tie(got.temperature, got.top_k, got.top_p, got.min_p, got.repetition_penalty,
               got.presence_penalty, got.frequency_penalty, got.seed, got.logit_bias,
               got.top_logprobs),
      std::tie(expected.temperature, expected.top_k, expected.top_p, expected.min_p,
               expected.repetition_penalty, expected.presence_penalty, expected.frequency_penalty,
               expected.seed, expected.logit_bias, expected.top_logprobs));
  EXPECT_EQ(back->outputs[0].recent, batch.outputs[0].recent);
  EXPECT_EQ(back->outputs[0].output_counts, batch.outputs[0].output_counts);
  EXPECT_EQ(back->outputs[0].allowed, batch.outputs[0].allowed);
  EXPECT_EQ(back->outputs[1].kind, engine::OutputKind::kScore);
  EXPECT_EQ(back->outputs[1].target, 77);
}

TEST(MicroBatchConvert, RefusesWhatHasNoMeaning) {
  v1::MicroBatch message;
  ToProto(FullBatch(), &message);
  message.mutable_outputs(1)->set_kind(static_cast<v1::OutputKind>(7));
  EXPECT_THAT(FromProto(message), Fails(absl::StatusCode::kInvalidArgument, "kind: got 7"));
  message.mutable_outputs(1)->set_kind(static_cast<v1::OutputKind>(-1));
  EXPECT_THAT(FromProto(message), Fails(absl::StatusCode::kInvalidArgument, "kind: got -1"));
  ToProto(FullBatch(), &message);
  message.mutable_outputs(0)->clear_sampling();
  EXPECT_THAT(FromProto(message),
              Fails(absl::StatusCode::kInvalidArgument, "no sampling parameters"));
}

TEST(StepResultConvert, SplitsLogitsBelowTheLimit) {
  StepResult result{.batch_id = 3, .epoch = 9, .results = {}};
  for (int32_t row = 0; row < 9; ++row) {
    result.results.push_back({.row = row,
                              .token = row + 100,
                              .logprob = -0.5f,
                              .top = {{5, -1.0f}},
                              .logits = std::vector<float>(100'000, static_cast<float>(row))});
  }
  StepResultAssembler assembler;
  const auto messages = ToProto(result);
  EXPECT_EQ(messages.size(), 5u);  // two rows of 400 kB each
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_LT(messages[i].ByteSizeLong(), size_t{kMaxMessageBytes});
    const auto whole = assembler.Add(messages[i].result());
    ASSERT_THAT(whole, IsOk());
    ASSERT_EQ(whole->has_value(), i + 1 == messages.size());
    if (!whole->has_value()) continue;
    EXPECT_EQ((*whole)->batch_id, 3u);
    ASSERT_EQ((*whole)->results.size(), 9u);
    for (int32_t row = 0; row < 9; ++row) {
      const engine::RowResult& got = (*whole)->results[row];
      EXPECT_EQ(got.token, row + 100);
      EXPECT_EQ(got.top.at(0).id, 5);
      EXPECT_EQ(got.logits, result.results[row].logits);
    }
  }
}

TEST(StepResultConvert, AResultWithoutRowsIsOneMessage) {
  const auto messages = ToProto(StepResult{.batch_id = 1, .epoch = 2, .results = {}});
  ASSERT_EQ(messages.size(), 1u);
  StepResultAssembler assembler;
  const auto whole = assembler.Add(messages[0].result());
  ASSERT_THAT(whole, IsOk());
  EXPECT_TRUE(whole->has_value());
}

TEST(StepResultConvert, RefusesMixedAndCrookedResults) {
  v1::WorkerMessage::StepResult message;
  message.set_batch_id(1);
  message.set_more(true);
  message.add_results()->set_row(0);
  StepResultAssembler assembler;
  ASSERT_THAT(assembler.Add(message), IsOk());
  message.set_batch_id(2);
  EXPECT_THAT(assembler.Add(message),
              Fails(absl::StatusCode::kInvalidArgument, "expected the rest of 1"));
  v1::RowResult row;
  row.set_logits("12345");
  EXPECT_THAT(FromProto(row), Fails(absl::StatusCode::kInvalidArgument, "logits of 5 bytes"));
}

v1::LoadStageRequest LoadMessage() {
  LoadRequest request;
  request.spec = FakeSpec(0, 3);
  request.epoch = 12;
  request.next_address = "127.0.0.1:7072";
  request.wire_type = WireType::kBF16;
  request.part_sources = {"127.0.0.1:7073", "hf:org/repo/model.gguf"};
  request.measure = Measure::kTogether;
  v1::LoadStageRequest message;
  ToProto(request, &message);
  return message;
}

TEST(LoadConvert, KeepsEveryField) {
  const auto back = FromProto(LoadMessage());
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->epoch, 12u);
  EXPECT_EQ(back->next_address, "127.0.0.1:7072");
  EXPECT_EQ(back->wire_type, WireType::kBF16);
  EXPECT_EQ(back->part_sources,
            (std::vector<std::string>{"127.0.0.1:7073", "hf:org/repo/model.gguf"}));
  EXPECT_EQ(back->measure, Measure::kTogether);
  EXPECT_EQ(SpecHash(back->spec), SpecHash(FakeSpec(0, 3)));
}

TEST(LoadConvert, RefusesWhatIsOutOfRange) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  struct Case {
    const char* complaint;
    std::function<void(v1::LoadStageRequest&)> spoil;
  };
  const Case cases[] = {
      {"layer_begin: got -1", [](auto& m) { m.set_layer_begin(-1); }},
      {"layer_end: got 0", [](auto& m) { m.set_layer_end(0); }},
      {"layer_begin: got 2147483647", [](auto& m) { m.set_layer_begin(kMost); }},
      {"context_length: got 0", [](auto& m) { m.set_context_length(0); }},
      {"num_kv_blocks: got 2147483647", [](auto& m) { m.set_num_kv_blocks(kMost); }},
      {"max_rows: got -5", [](auto& m) { m.set_max_rows(-5); }},
      {"max_rows: got 2147483647", [](auto& m) { m.set_max_rows(kMost); }},
      {"kv_type: got 3", [](auto& m) { m.set_kv_type(static_cast<v1::KvType>(3)); }},
      {"wire type: got 4", [](auto& m) { m.set_wire_type(static_cast<v1::WireType>(4)); }},
      {"more than one colon", [](auto& m) { m.set_next_address("::1:70"); }},
      {"no port", [](auto& m) { m.add_part_sources("somewhere"); }},
      {"topology_hash: 1000000 digits",
       [](auto& m) { m.set_topology_hash(std::string(1'000'000, 'a')); }},
      {"expected a file name",
       [](auto& m) { m.mutable_parts(0)->set_file_name("../secret.gguf"); }},
      {"expected a file name", [](auto& m) { m.mutable_parts(0)->set_file_name(".."); }},
      {"expected a file name", [](auto& m) { m.mutable_parts(0)->set_file_name(""); }},
      {"expected a file name",
       [](auto& m) { m.mutable_parts(0)->set_file_name(std::string("a\0b", 3)); }},
      {"type: got 4, which is not defined", [](auto& m) { m.mutable_tensors(0)->set_type(4); }},
      {"type: got 4294967295",
       [](auto& m) { m.mutable_tensors(0)->set_type(std::numeric_limits<uint32_t>::max()); }},
      {"dimensions: got 5",
       [](auto& m) {
         for (int i = 0; i < 3; ++i) m.mutable_tensors(0)->add_ne(1);
       }},
      {"dimensions: got 0", [](auto& m) { m.mutable_tensors(0)->clear_ne(); }},
      {"dimension of size -16", [](auto& m) { m.mutable_tensors(0)->set_ne(0, -16); }},
      {"part: got 1", [](auto& m) { m.mutable_tensors(0)->set_part(1); }},
      {"beyond the 10000", [](auto& m) { m.mutable_tensors(0)->set_file_offset(9'999); }},
      {"beyond the 10000",
       [](auto& m) { m.mutable_tensors(0)->set_bytes(std::numeric_limits<uint64_t>::max()); }},
  };
  for (const Case& c : cases) {
    v1::LoadStageRequest message = LoadMessage();
    c.spoil(message);
    EXPECT_THAT(FromProto(message), Fails(absl::StatusCode::kInvalidArgument, c.complaint));
  }
}

TEST(SpecHash, ChangesWithEveryFieldOfTheSpec) {
  const std::string original = SpecHash(FakeSpec(0, 3));
  EXPECT_EQ(original.size(), 32u);
  EXPECT_EQ(SpecHash(FakeSpec(0, 3)), original);
  const std::function<void(engine::StageSpec&)> changes[] = {
      [](auto& s) { s.model_header += "x"; },
      [](auto& s) { s.fingerprint = "other"; },
      [](auto& s) { s.layers.end = 4; },
      [](auto& s) { s.parts[0].bytes = 10'001; },
      [](auto& s) { s.parts[0].file_name = "other.gguf"; },
      [](auto& s) { s.tensors[0].file_offset = 96; },
      [](auto& s) { s.tensors[0].type = kernels::QuantType::kF16; },
      [](auto& s) { s.context_length = 7; },
      [](auto& s) { s.num_kv_blocks = 7; },
      [](auto& s) { s.max_rows = 7; },
      [](auto& s) { s.kv_type = engine::KvType::kF32; },
  };
  for (const auto& change : changes) {
    engine::StageSpec spec = FakeSpec(0, 3);
    change(spec);
    EXPECT_NE(SpecHash(spec), original);
  }
}

TEST(WorkerInfoConvert, KeepsEveryField) {
  WorkerInfo info{.name = "left",
                  .build = "1",
                  .protocol_version = 1,
                  .instance_id = "abc",
                  .pid = 42,
                  .device = "cpu",
                  .backend = "cpu (avx2, 2 threads)",
                  .threads = 2,
                  .memory_total_bytes = 1,
                  .memory_available_bytes = 2,
                  .memory_budget_bytes = 3,
                  .rss_bytes = 4,
                  .host_id = "host",
                  .loaded = true,
                  .stage = {.fingerprint = "f",
                            .layers = {2, 5},
                            .weights_bytes = 6,
                            .kv_bytes = 7,
                            .warnings = {"w"},
                            .spec_hash = "h",
                            .speed = {1.5, 2.5, 8, 3.5, 64},
                            .next_link = {4.5, 5.5}},
                  .epoch = 8,
                  .weight_bytes_received = 9,
                  .files = {{"m.gguf", 10}}};
  v1::WorkerInfo message, again;
  ToProto(info, &message);
  EXPECT_EQ(message.pid(), 42);
  EXPECT_EQ(message.stage().warnings(0), "w");
  EXPECT_EQ(message.epoch(), 8u);
  EXPECT_EQ(message.stage().speed().prompt_rows(), 64);
  EXPECT_EQ(message.stage().next_link().bytes_per_s(), 5.5);
  EXPECT_EQ(message.files(0).bytes(), 10u);
  ToProto(FromProto(message), &again);
  EXPECT_EQ(again.SerializeAsString(), message.SerializeAsString());
}

TEST(StatusConvert, KeepsCodeAndMessage) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "what went wrong");
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_THAT(FromWireCode(0, "m"), Fails(absl::StatusCode::kUnknown, "m"));
  EXPECT_THAT(FromWireCode(-7, "m"), Fails(absl::StatusCode::kUnknown, "m"));
  EXPECT_THAT(FromWireCode(17, "m"), Fails(absl::StatusCode::kUnknown, "m"));
}

TEST(Version, AMismatchNamesBothSides) {
  EXPECT_THAT(CheckSameVersion("worker left", kProtocolVersion, BuildId()), IsOk());
  const absl::Status status = CheckSameVersion("worker left", kProtocolVersion + 1, "9.9.9");
  EXPECT_THAT(status, Fails(absl::StatusCode::kFailedPrecondition,
                            "worker left runs protocol 3, build 9.9.9"));
  EXPECT_THAT(status,
              Fails(absl::StatusCode::kFailedPrecondition,
                    std::string("this side runs protocol 2, build ") + std::string(BuildId())));
  EXPECT_THAT(CheckSameVersion("worker left", kProtocolVersion, "9.9.9"),
              Fails(absl::StatusCode::kFailedPrecondition, "version mismatch"));
}

}  // namespace
}  // namespace baton::wire
