// Micro-batches and their results to and from messages.
//
// Shapes and enums are checked here; CheckMicroBatch checks what depends on the model.
#pragma once

#include <span>

#include "baton/v1/worker.pb.h"
#include "engine/base/status.h"
#include "engine/runtime/micro_batch.h"
#include "proto/worker_client.h"

namespace baton::wire {

void ToProto(const engine::MicroBatch& batch, v1::MicroBatch* message);
absl::StatusOr<engine::MicroBatch> FromProto(const v1::MicroBatch& message);

void ToProto(const engine::RowResult& result, v1::RowResult* message);
absl::StatusOr<engine::RowResult> FromProto(const v1::RowResult& message);

void ToProto(const StepFailed& event, v1::WorkerMessage::StepFailed* message);
StepFailed FromProto(const v1::WorkerMessage::StepFailed& message);
void ToProto(const StepTimed& event, v1::WorkerMessage::StepTimed* message);
StepTimed FromProto(const v1::WorkerMessage::StepTimed& message);
void ToProto(const WorkerHeartbeat& event, v1::WorkerMessage::Heartbeat* message);
WorkerHeartbeat FromProto(const v1::WorkerMessage::Heartbeat& message);

// A result as messages below the limit: rows of logits fill several, all but the last with `more`.
std::vector<v1::WorkerMessage> ToProto(const StepResult& event);

// Puts the messages of results together again. One reader.
class StepResultAssembler {
 public:
  // The whole result once its last message is there; nullopt before.
  absl::StatusOr<std::optional<StepResult>> Add(const v1::WorkerMessage::StepResult& message);

 private:
  StepResult pending_;
};

}  // namespace baton::wire
