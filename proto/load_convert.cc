#include "proto/load_convert.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/quote.h"
#include "kernels/quant_types.h"
#include "proto/address.h"
#include "proto/tensor_convert.h"

namespace baton::wire {
namespace {

constexpr int kMaxTensorDims = 4;

struct IntegerField {
  const char* name;
  int64_t value;
  int64_t least;
  int64_t most;
};

absl::Status CheckRange(const IntegerField& field) {
  if (field.value >= field.least && field.value <= field.most) return absl::OkStatus();
  return InvalidArgument("load request: {}: got {}, expected {} to {}", field.name, field.value,
                         field.least, field.most);
}

constexpr size_t kMaxHashDigits = 64;

absl::Status CheckNumbers(const v1::LoadStageRequest& message) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const IntegerField fields[] = {
      {"layer_begin", message.layer_begin(), 0, kMost - 1},
      {"layer_end", message.layer_end(), int64_t{message.layer_begin()} + 1, kMost},
      {"context_length", message.context_length(), 1, kMost},
      {"num_kv_blocks", message.num_kv_blocks(), 1, kMost / engine::kKvBlockPositions},
      {"max_rows", message.max_rows(), 1, 1 << 20},
      {"kv_type", message.kv_type(), 0, v1::KV_TYPE_Q8_0},
      {"host_layers", message.host_layers(), engine::StageSpec::kAsFewAsFit, kMost},
      {"measure", message.measure(), 0, v1::MEASURE_TOGETHER},
  };
  for (const IntegerField& field : fields) RETURN_IF_ERROR(CheckRange(field));
  return absl::OkStatus();
}

// A measurement that is no number, or a negative one, is none.
double Measured(double value) { return std::isfinite(value) && value > 0 ? value : 0; }

// A worker looks parts up in its own folder: a name must not lead out of it.
bool IsFileName(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

absl::StatusOr<engine::TensorPlacement> TensorFromProto(
    const v1::TensorPlacement& message, const std::vector<engine::PartFile>& parts) {
  const std::string name = engine::Named(message.name());
  if (!kernels::IsDefinedQuantType(message.type())) {
    return InvalidArgument("load request: tensor {}: type: got {}, which is not defined", name,
                           message.type());
  }
  if (message.ne_size() < 1 || message.ne_size() > kMaxTensorDims) {
    return InvalidArgument("load request: tensor {}: dimensions: got {}, expected 1 to {}", name,
                           message.ne_size(), kMaxTensorDims);
  }
  for (const int64_t size : message.ne()) {
    if (size < 1)
      return InvalidArgument("load request: tensor {}: dimension of size {}", name, size);
  }
  if (message.part() >= parts.size()) {
    return InvalidArgument("load request: tensor {}: part: got {}, expected below {}", name,
                           message.part(), parts.size());
  }
  const engine::PartFile& part = parts[message.part()];
  if (message.file_offset() > part.bytes || message.bytes() > part.bytes - message.file_offset()) {
    return InvalidArgument("load request: tensor {}: bytes {} at {}, beyond the {} of {}", name,
                           message.bytes(), message.file_offset(), part.bytes,
                           engine::Named(part.file_name));
  }
  return engine::TensorPlacement{.name = message.name(),
                                 .type = static_cast<kernels::QuantType>(message.type()),
                                 .ne = {message.ne().begin(), message.ne().end()},
                                 .part = message.part(),
                                 .file_offset = message.file_offset(),
                                 .bytes = message.bytes()};
}

}  // namespace

void SpecToProto(const engine::StageSpec& spec, v1::LoadStageRequest* message) {
  message->set_fingerprint(spec.fingerprint);
  message->set_model_header(spec.model_header);
  message->set_layer_begin(spec.layers.begin);
  message->set_layer_end(spec.layers.end);
  for (const engine::PartFile& part : spec.parts) {
    v1::Part* entry = message->add_parts();
    entry->set_file_name(part.file_name);
    entry->set_bytes(part.bytes);
  }
  for (const engine::TensorPlacement& tensor : spec.tensors) {
    v1::TensorPlacement* entry = message->add_tensors();
    entry->set_name(tensor.name);
    entry->set_type(static_cast<uint32_t>(tensor.type));
    entry->mutable_ne()->Add(tensor.ne.begin(), tensor.ne.end());
    entry->set_part(tensor.part);
    entry->set_file_offset(tensor.file_offset);
    entry->set_bytes(tensor.bytes);
  }
  message->set_context_length(spec.context_length);
  message->set_num_kv_blocks(spec.num_kv_blocks);
  message->set_max_rows(spec.max_rows);
  message->set_kv_type(static_cast<v1::KvType>(spec.kv_type));
  message->set_host_layers(spec.host_layers);
}

void ToProto(const LoadRequest& request, v1::LoadStageRequest* message) {
  SpecToProto(request.spec, message);
  message->set_protocol_version(kProtocolVersion);
  message->set_build(std::string(BuildId()));
  message->set_epoch(request.epoch);
  message->set_next_address(request.next_address);
  message->set_wire_type(ToProto(request.wire_type));
  for (const std::string& source : request.part_sources) message->add_part_sources(source);
  message->set_measure(static_cast<v1::Measure>(request.measure));
  message->set_topology_hash(request.topology_hash);
}

absl::StatusOr<LoadRequest> FromProto(const v1::LoadStageRequest& message) {
  RETURN_IF_ERROR(CheckNumbers(message));
  LoadRequest request;
  request.epoch = message.epoch();
  request.next_address = message.next_address();
  if (!request.next_address.empty()) RETURN_IF_ERROR(ParseAddress(request.next_address).status());
  ASSIGN_OR_RETURN(request.wire_type, FromProto(message.wire_type()));
  for (const std::string& source : message.part_sources()) {
    if (!source.starts_with(kHubPrefix)) RETURN_IF_ERROR(ParseAddress(source).status());
    request.part_sources.push_back(source);
  }
  request.measure = static_cast<Measure>(message.measure());
  request.topology_hash = message.topology_hash();
  if (request.topology_hash.size() > kMaxHashDigits) {  // it is kept, and said to whoever asks
    return InvalidArgument("load request: topology_hash: {} digits, expected at most {}",
                           request.topology_hash.size(), kMaxHashDigits);
  }

  engine::StageSpec& spec = request.spec;
  spec.model_header = message.model_header();
  spec.fingerprint = message.fingerprint();
  spec.layers = {message.layer_begin(), message.layer_end()};
  spec.context_length = message.context_length();
  spec.num_kv_blocks = message.num_kv_blocks();
  spec.max_rows = message.max_rows();
  spec.kv_type = static_cast<engine::KvType>(message.kv_type());
  spec.host_layers = message.host_layers();
  for (const v1::Part& part : message.parts()) {
    if (!IsFileName(part.file_name())) {
      return InvalidArgument(
          "load request: part: got \"{}\", expected a file name without a folder",
          engine::Named(part.file_name()));
    }
    spec.parts.push_back({part.file_name(), part.bytes()});
  }
  for (const v1::TensorPlacement& tensor : message.tensors()) {
    ASSIGN_OR_RETURN(engine::TensorPlacement placement, TensorFromProto(tensor, spec.parts));
    spec.tensors.push_back(std::move(placement));
  }
  return request;
}

void ToProto(const LoadedStage& stage, v1::LoadedStage* message) {
  message->set_fingerprint(stage.fingerprint);
  message->set_layer_begin(stage.layers.begin);
  message->set_layer_end(stage.layers.end);
  message->set_weights_bytes(stage.weights_bytes);
  message->set_kv_bytes(stage.kv_bytes);
  for (const std::string& warning : stage.warnings) message->add_warnings(warning);
  message->set_spec_hash(stage.spec_hash);
  message->set_topology_hash(stage.topology_hash);
  if (stage.speed.known() || stage.speed.alone_us > 0) {
    v1::StageSpeed& speed = *message->mutable_speed();
    speed.set_one_row_us(stage.speed.one_row_us);
    speed.set_many_rows_us(stage.speed.many_rows_us);
    speed.set_many_rows(stage.speed.many_rows);
    speed.set_prompt_us(stage.speed.prompt_us);
    speed.set_prompt_rows(stage.speed.prompt_rows);
    speed.set_alone_us(stage.speed.alone_us);
  }
  if (stage.next_link.round_trip_us > 0) {
    message->mutable_next_link()->set_round_trip_us(stage.next_link.round_trip_us);
    message->mutable_next_link()->set_bytes_per_s(stage.next_link.bytes_per_s);
  }
}

LoadedStage FromProto(const v1::LoadedStage& message) {
  return {.fingerprint = message.fingerprint(),
          .layers = {message.layer_begin(), message.layer_end()},
          .weights_bytes = message.weights_bytes(),
          .kv_bytes = message.kv_bytes(),
          .warnings = {message.warnings().begin(), message.warnings().end()},
          .spec_hash = message.spec_hash(),
          .topology_hash = message.topology_hash(),
          .speed = {.one_row_us = Measured(message.speed().one_row_us()),
                    .many_rows_us = Measured(message.speed().many_rows_us()),
                    .many_rows = std::max(message.speed().many_rows(), 0),
                    .prompt_us = Measured(message.speed().prompt_us()),
                    .prompt_rows = std::max(message.speed().prompt_rows(), 0),
                    .alone_us = Measured(message.speed().alone_us())},
          .next_link = {.round_trip_us = Measured(message.next_link().round_trip_us()),
                        .bytes_per_s = Measured(message.next_link().bytes_per_s())}};
}

void ToProto(const WorkerInfo& info, v1::WorkerInfo* message) {
  message->set_name(info.name);
  message->set_build(info.build);
  message->set_protocol_version(info.protocol_version);
  message->set_instance_id(info.instance_id);
  message->set_pid(info.pid);
  message->set_device(info.device);
  message->set_backend(info.backend);
  message->set_threads(info.threads);
  message->set_memory_total_bytes(info.memory_total_bytes);
  message->set_memory_available_bytes(info.memory_available_bytes);
  message->set_memory_budget_bytes(info.memory_budget_bytes);
  message->set_rss_bytes(info.rss_bytes);
  message->set_host_id(info.host_id);
  if (info.loaded) ToProto(info.stage, message->mutable_stage());
  message->set_epoch(info.epoch);
  message->set_weight_bytes_received(info.weight_bytes_received);
  for (const engine::PartFile& file : info.files) {
    v1::Part* entry = message->add_files();
    entry->set_file_name(file.file_name);
    entry->set_bytes(file.bytes);
  }
  message->set_clock_unix_ms(info.clock_unix_ms);
  message->set_host_memory_available_bytes(info.host_memory_available_bytes);
}

WorkerInfo FromProto(const v1::WorkerInfo& message) {
  std::vector<engine::PartFile> files;
  for (const v1::Part& file : message.files()) files.push_back({file.file_name(), file.bytes()});
  return {.name = message.name(),
          .build = message.build(),
          .protocol_version = message.protocol_version(),
          .instance_id = message.instance_id(),
          .pid = message.pid(),
          .device = message.device(),
          .backend = message.backend(),
          .threads = message.threads(),
          .memory_total_bytes = message.memory_total_bytes(),
          .memory_available_bytes = message.memory_available_bytes(),
          .memory_budget_bytes = message.memory_budget_bytes(),
          .rss_bytes = message.rss_bytes(),
          .host_id = message.host_id(),
          .loaded = message.has_stage(),
          .stage = FromProto(message.stage()),
          .epoch = message.epoch(),
          .weight_bytes_received = message.weight_bytes_received(),
          .files = std::move(files),
          .clock_unix_ms = message.clock_unix_ms(),
          .host_memory_available_bytes = message.host_memory_available_bytes()};
}

void ToProto(const KvFileRequest& request, v1::KvFileRequest* message) {
  message->set_action(static_cast<v1::KvFileAction>(request.action));
  message->set_key(request.key);
  message->set_epoch(request.epoch);
  message->mutable_blocks()->Assign(request.blocks.begin(), request.blocks.end());
}

absl::StatusOr<KvFileRequest> FromProto(const v1::KvFileRequest& message) {
  if (!v1::KvFileAction_IsValid(message.action())) {
    return InvalidArgument("KvFile: action: got {}, expected 0 to {}",
                           static_cast<int>(message.action()),
                           static_cast<int>(v1::KvFileAction_MAX));
  }
  return KvFileRequest{.action = static_cast<KvAction>(message.action()),
                       .key = message.key(),
                       .epoch = message.epoch(),
                       .blocks = {message.blocks().begin(), message.blocks().end()}};
}

}  // namespace baton::wire
