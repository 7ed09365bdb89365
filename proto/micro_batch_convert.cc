#include "proto/micro_batch_convert.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "proto/channel_options.h"
#include "proto/status_convert.h"

namespace baton::wire {
namespace {

void SamplingToProto(const engine::SamplingParams& params, v1::SamplingParams* message) {
  message->set_temperature(params.temperature);
  message->set_top_k(params.top_k);
  message->set_top_p(params.top_p);
  message->set_min_p(params.min_p);
  message->set_repetition_penalty(params.repetition_penalty);
  message->set_presence_penalty(params.presence_penalty);
  message->set_frequency_penalty(params.frequency_penalty);
  message->set_seed(params.seed);
  for (const auto& [token, bias] : params.logit_bias) {
    v1::LogitBias* entry = message->add_logit_bias();
    entry->set_token(token);
    entry->set_bias(bias);
  }
  message->set_top_logprobs(params.top_logprobs);
}

engine::SamplingParams SamplingFromProto(const v1::SamplingParams& message) {
  engine::SamplingParams params{.temperature = message.temperature(),
                                .top_k = message.top_k(),
                                .top_p = message.top_p(),
                                .min_p = message.min_p(),
                                .repetition_penalty = message.repetition_penalty(),
                                .presence_penalty = message.presence_penalty(),
                                .frequency_penalty = message.frequency_penalty(),
                                .seed = message.seed(),
                                .logit_bias = {},
                                .top_logprobs = message.top_logprobs()};
  params.logit_bias.reserve(message.logit_bias_size());
  for (const v1::LogitBias& entry : message.logit_bias())
    params.logit_bias.emplace_back(entry.token(), entry.bias());
  return params;
}

void OutputToProto(const engine::OutputRow& output, v1::OutputRow* message) {
  message->set_row(output.row);
  message->set_kind(static_cast<v1::OutputKind>(output.kind));
  message->set_target(output.target);
  if (output.kind == engine::OutputKind::kSample)
    SamplingToProto(output.sampling, message->mutable_sampling());
  message->mutable_recent()->Add(output.recent.begin(), output.recent.end());
  for (const auto& [token, count] : output.output_counts) {
    v1::TokenCount* entry = message->add_output_counts();
    entry->set_token(token);
    entry->set_count(count);
  }
  message->mutable_allowed()->Add(output.allowed.begin(), output.allowed.end());
}

absl::StatusOr<engine::OutputRow> OutputFromProto(const v1::OutputRow& message) {
  const int kind = message.kind();
  if (kind < v1::OUTPUT_KIND_SAMPLE || kind > v1::OUTPUT_KIND_SCORE) {
    return InvalidArgument("micro-batch: output of row {}: kind: got {}, expected 0 to {}",
                           message.row(), kind, static_cast<int>(v1::OUTPUT_KIND_SCORE));
  }
  engine::OutputRow output{.row = message.row(),
                           .kind = static_cast<engine::OutputKind>(kind),
                           .target = message.target(),
                           .sampling = {},
                           .recent = {message.recent().begin(), message.recent().end()},
                           .output_counts = {},
                           .allowed = {message.allowed().begin(), message.allowed().end()}};
  if (output.kind == engine::OutputKind::kSample) {
    if (!message.has_sampling()) {
      return InvalidArgument("micro-batch: output of row {}: no sampling parameters",
                             message.row());
    }
    output.sampling = SamplingFromProto(message.sampling());
  }
  output.output_counts.reserve(message.output_counts_size());
  for (const v1::TokenCount& entry : message.output_counts()) {
    output.output_counts.emplace_back(entry.token(), entry.count());
  }
  return output;
}

}  // namespace

void ToProto(const engine::MicroBatch& batch, v1::MicroBatch* message) {
  message->set_id(batch.id);
  message->set_epoch(batch.epoch);
  message->set_end_layer(batch.end_layer);
  message->mutable_tokens()->Add(batch.tokens.begin(), batch.tokens.end());
  for (const engine::SequenceRows& rows : batch.sequences) {
    v1::SequenceRows* entry = message->add_sequences();
    entry->set_sequence_id(rows.sequence_id);
    entry->set_first_position(rows.first_position);
    entry->set_num_rows(rows.num_rows);
    entry->mutable_kv_blocks()->Add(rows.kv_blocks.begin(), rows.kv_blocks.end());
  }
  for (const engine::OutputRow& output : batch.outputs)
    OutputToProto(output, message->add_outputs());
}

absl::StatusOr<engine::MicroBatch> FromProto(const v1::MicroBatch& message) {
  engine::MicroBatch batch;
  batch.id = message.id();
  batch.epoch = message.epoch();
  batch.end_layer = message.end_layer();
  batch.tokens.assign(message.tokens().begin(), message.tokens().end());
  batch.sequences.reserve(message.sequences_size());
  for (const v1::SequenceRows& rows : message.sequences()) {
    batch.sequences.push_back({.sequence_id = rows.sequence_id(),
                               .first_position = rows.first_position(),
                               .num_rows = rows.num_rows(),
                               .kv_blocks = {rows.kv_blocks().begin(), rows.kv_blocks().end()}});
  }
  batch.outputs.reserve(message.outputs_size());
  for (const v1::OutputRow& row : message.outputs()) {
    ASSIGN_OR_RETURN(engine::OutputRow output, OutputFromProto(row));
    batch.outputs.push_back(std::move(output));
  }
  return batch;
}

void ToProto(const engine::RowResult& result, v1::RowResult* message) {
  message->set_row(result.row);
  message->set_token(result.token);
  message->set_logprob(result.logprob);
  for (const engine::TokenLogprob& entry : result.top) {
    v1::TokenLogprob* top = message->add_top();
    top->set_token(entry.id);
    top->set_logprob(entry.logprob);
  }
  message->set_logits(result.logits.data(), result.logits.size() * sizeof(float));
}

absl::StatusOr<engine::RowResult> FromProto(const v1::RowResult& message) {
  const std::string& logits = message.logits();
  if (logits.size() % sizeof(float) != 0) {
    return InvalidArgument("result of row {}: logits of {} bytes, expected a multiple of 4",
                           message.row(), logits.size());
  }
  engine::RowResult result{.row = message.row(),
                           .token = message.token(),
                           .logprob = message.logprob(),
                           .top = {},
                           .logits = {}};
  result.top.reserve(message.top_size());
  for (const v1::TokenLogprob& entry : message.top())
    result.top.push_back({entry.token(), entry.logprob()});
  result.logits.resize(logits.size() / sizeof(float));
  if (!logits.empty()) std::memcpy(result.logits.data(), logits.data(), logits.size());
  return result;
}

void ToProto(const StepFailed& event, v1::WorkerMessage::StepFailed* message) {
  message->set_batch_id(event.batch_id);
  message->set_epoch(event.epoch);
  message->set_code(static_cast<int32_t>(event.status.code()));
  message->set_message(std::string(Message(event.status)));
}

StepFailed FromProto(const v1::WorkerMessage::StepFailed& message) {
  return {.batch_id = message.batch_id(),
          .epoch = message.epoch(),
          .status = FromWireCode(message.code(), message.message())};
}

void ToProto(const StepTimed& event, v1::WorkerMessage::StepTimed* message) {
  message->set_batch_id(event.batch_id);
  message->set_epoch(event.epoch);
  message->mutable_timings()->set_queue_us(event.timings.queue_us);
  message->mutable_timings()->set_compute_us(event.timings.compute_us);
  message->mutable_timings()->set_send_us(event.timings.send_us);
}

StepTimed FromProto(const v1::WorkerMessage::StepTimed& message) {
  return {.batch_id = message.batch_id(),
          .epoch = message.epoch(),
          .timings = {.queue_us = message.timings().queue_us(),
                      .compute_us = message.timings().compute_us(),
                      .send_us = message.timings().send_us()}};
}

void ToProto(const WorkerHeartbeat& event, v1::WorkerMessage::Heartbeat* message) {
  message->set_sequence(event.sequence);
  message->set_rss_bytes(event.rss_bytes);
  message->set_memory_available_bytes(event.memory_available_bytes);
  message->set_queued(event.queued);
  message->set_busy_us(event.busy_us);
  message->set_steps(event.steps);
  message->set_major_faults(event.major_faults);
  message->set_mapped_resident_bytes(event.mapped_resident_bytes);
  message->set_sent_bytes(event.sent_bytes);
  message->set_changed_messages(event.changed_messages);
}

WorkerHeartbeat FromProto(const v1::WorkerMessage::Heartbeat& message) {
  return {.sequence = message.sequence(),
          .rss_bytes = message.rss_bytes(),
          .memory_available_bytes = message.memory_available_bytes(),
          .queued = message.queued(),
          .busy_us = message.busy_us(),
          .steps = message.steps(),
          .major_faults = message.major_faults(),
          .mapped_resident_bytes = message.mapped_resident_bytes(),
          .sent_bytes = message.sent_bytes(),
          .changed_messages = message.changed_messages()};
}

std::vector<v1::WorkerMessage> ToProto(const StepResult& event) {
  std::vector<v1::WorkerMessage> messages;
  size_t bytes = 0;
  const auto start_message = [&]() -> v1::WorkerMessage::StepResult* {
    v1::WorkerMessage::StepResult* result = messages.emplace_back().mutable_result();
    result->set_batch_id(event.batch_id);
    result->set_epoch(event.epoch);
    bytes = 0;
    return result;
  };
  v1::WorkerMessage::StepResult* message = start_message();
  for (const engine::RowResult& row : event.results) {
    v1::RowResult converted;
    ToProto(row, &converted);
    const size_t row_bytes = converted.ByteSizeLong();
    if (bytes > 0 && bytes + row_bytes > kMaxChunkBytes) {
      message->set_more(true);
      message = start_message();
    }
    *message->add_results() = std::move(converted);
    bytes += row_bytes;
  }
  return messages;
}

absl::StatusOr<std::optional<StepResult>> StepResultAssembler::Add(
    const v1::WorkerMessage::StepResult& message) {
  if (!pending_.results.empty() &&
      (message.batch_id() != pending_.batch_id || message.epoch() != pending_.epoch)) {
    return InvalidArgument("result of micro-batch {}: expected the rest of {}", message.batch_id(),
                           pending_.batch_id);
  }
  pending_.batch_id = message.batch_id();
  pending_.epoch = message.epoch();
  for (const v1::RowResult& row : message.results()) {
    ASSIGN_OR_RETURN(engine::RowResult result, FromProto(row));
    pending_.results.push_back(std::move(result));
  }
  if (message.more()) return std::nullopt;
  return std::exchange(pending_, {});
}

}  // namespace baton::wire
