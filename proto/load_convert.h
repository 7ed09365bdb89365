// What a worker is asked to load, and what it tells about itself, to and from messages.
#pragma once

#include "baton/v1/worker.pb.h"
#include "engine/base/status.h"
#include "proto/worker_client.h"

namespace baton::wire {

void SpecToProto(const engine::StageSpec& spec, v1::LoadStageRequest* message);
void ToProto(const LoadRequest& request, v1::LoadStageRequest* message);
// InvalidArgument names the field that is out of range. Whether the tensors make a stage is for
// engine::Stage to say.
absl::StatusOr<LoadRequest> FromProto(const v1::LoadStageRequest& message);

void ToProto(const LoadedStage& stage, v1::LoadedStage* message);
LoadedStage FromProto(const v1::LoadedStage& message);

void ToProto(const KvFileRequest& request, v1::KvFileRequest* message);
absl::StatusOr<KvFileRequest> FromProto(const v1::KvFileRequest& message);

void ToProto(const WorkerInfo& info, v1::WorkerInfo* message);
WorkerInfo FromProto(const v1::WorkerInfo& message);

}  // namespace baton::wire
