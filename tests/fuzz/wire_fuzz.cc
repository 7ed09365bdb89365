// Any bytes as the messages that workers and coordinators take from each other: what passes the
// converters and checks is in range, whatever was claimed.
#include <google/protobuf/stubs/logging.h>

#include <cmath>
#include <string>
#include <vector>

#include "baton/v1/worker.pb.h"
#include "proto/load_convert.h"
#include "proto/micro_batch_convert.h"
#include "proto/tensor_convert.h"
#include "tests/fuzz/target.h"

namespace baton::fuzz {
namespace {

constexpr engine::MicroBatchLimits kLimits = {
    .vocab_size = 64, .context_length = 256, .num_kv_blocks = 12, .max_rows = 16};
constexpr int32_t kRows = 2, kCols = 32;

template <typename Message>
bool Parse(std::string_view bytes, Message* message) {
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void FuzzLoad(std::string_view bytes) {
  v1::LoadStageRequest message;
  if (!Parse(bytes, &message)) return;
  const auto request = wire::FromProto(message);
  if (!request.ok()) return;
  const engine::StageSpec& spec = request->spec;
  Require(spec.layers.begin >= 0 && spec.layers.end > spec.layers.begin);
  Require(spec.context_length > 0 && spec.num_kv_blocks > 0 && spec.max_rows > 0);
  for (const engine::TensorPlacement& tensor : spec.tensors) {
    Require(tensor.part < spec.parts.size());
    Require(kernels::IsDefinedQuantType(static_cast<uint32_t>(tensor.type)));
    const uint64_t part_bytes = spec.parts[tensor.part].bytes;
    Require(tensor.file_offset <= part_bytes && tensor.bytes <= part_bytes - tensor.file_offset);
  }
  v1::LoadStageRequest again;
  wire::ToProto(*request, &again);
  Require(wire::FromProto(again).ok());
}

void FuzzBatch(std::string_view bytes) {
  v1::MicroBatch message;
  if (!Parse(bytes, &message)) return;
  const auto batch = wire::FromProto(message);
  if (!batch.ok() || !engine::CheckMicroBatch(*batch, kLimits).ok()) return;
  Require(batch->rows() > 0 && batch->rows() <= kLimits.max_rows);
  for (const engine::TokenId token : batch->tokens)
    Require(token >= 0 && token < kLimits.vocab_size);
  int32_t rows = 0;
  for (const engine::SequenceRows& sequence : batch->sequences) {
    rows += sequence.num_rows;
    Require(sequence.num_rows > 0 && sequence.first_position >= 0);
    const int32_t positions = sequence.first_position + sequence.num_rows;
    Require(positions <= kLimits.context_length);
    Require(static_cast<int32_t>(sequence.kv_blocks.size()) * 32 >= positions);
    for (const int32_t block : sequence.kv_blocks)
      Require(block >= 0 && block < kLimits.num_kv_blocks);
  }
  Require(rows == batch->rows());
  for (const engine::OutputRow& output : batch->outputs)
    Require(output.row >= 0 && output.row < rows);
}

void FuzzHidden(std::string_view bytes) {
  v1::ForwardMessage message;
  if (!Parse(bytes, &message)) return;
  wire::HiddenStatesAssembler assembler(kRows, kCols);
  if (!assembler.Add(message.hidden()).ok() || !assembler.complete()) return;
  const engine::HiddenStates hidden = assembler.Take();
  Require(hidden.values.size() == size_t{kRows} * kCols);
  for (const float value : hidden.values) Require(std::isfinite(value));
}

void FuzzWorkerMessage(std::string_view bytes) {
  v1::WorkerMessage message;
  if (!Parse(bytes, &message)) return;
  wire::StepResultAssembler assembler;
  for (int times = 0; times < 2; ++times) {
    const auto result = assembler.Add(message.result());
    if (!result.ok()) break;
  }
  (void)wire::FromProto(message.failed());
  (void)wire::FromProto(message.timed());
  (void)wire::FromProto(message.heartbeat());
  (void)wire::FromProto(message.hello());
}

// The first byte says which.
constexpr void (*kKinds[])(std::string_view) = {FuzzLoad, FuzzBatch, FuzzHidden, FuzzWorkerMessage};

std::string Seed(char kind, const google::protobuf::Message& message) {
  return kind + message.SerializeAsString();
}

}  // namespace

std::vector<std::string> WireSeeds() {
  engine::StageSpec spec;
  spec.model_header = "header";
  spec.fingerprint = "model";
  spec.layers = {0, 2};
  spec.parts = {{"model.gguf", 10'000}};
  spec.tensors = {{.name = "blk.0.attn_q.weight",
                   .type = kernels::QuantType::kF32,
                   .ne = {16, 8},
                   .part = 0,
                   .file_offset = 64,
                   .bytes = 512}};
  spec.context_length = 1024;
  spec.num_kv_blocks = 64;
  spec.max_rows = 16;
  v1::LoadStageRequest load;
  wire::ToProto({.spec = spec,
                 .epoch = 1,
                 .next_address = "127.0.0.1:7",
                 .wire_type = {},
                 .part_sources = {}},
                &load);

  engine::MicroBatch batch;
  batch.tokens = {1, 2};
  batch.sequences = {{.sequence_id = 1, .first_position = 3, .num_rows = 2, .kv_blocks = {4}}};
  batch.outputs.resize(1);
  batch.outputs[0].row = 1;
  v1::MicroBatch batch_message;
  wire::ToProto(batch, &batch_message);

  v1::ForwardMessage forward;
  *forward.mutable_batch() = batch_message;
  const engine::HiddenStates hidden{
      .rows = kRows, .cols = kCols, .values = std::vector<float>(kRows * kCols, 1.0f)};
  wire::CutPiece(hidden, wire::WireType::kF16, 0, 4096, forward.mutable_hidden());

  wire::StepResult result;
  result.results.resize(1);
  result.results[0].logits.assign(8, 0.5f);
  return {Seed(0, load), Seed(1, batch_message), Seed(2, forward),
          Seed(3, wire::ToProto(result)[0])};
}

void FuzzWire(std::string_view input) {
  static const google::protobuf::LogSilencer* const quiet = new google::protobuf::LogSilencer;
  (void)quiet;
  if (input.empty()) return;
  kKinds[static_cast<uint8_t>(input[0]) % std::size(kKinds)](input.substr(1));
}

}  // namespace baton::fuzz
