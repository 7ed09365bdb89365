// How a coordinator talks to a worker: an interface, so that pipeline, scheduler and recovery run
// over gRPC, inside one process, and in tests over a fake.
//
// Owner: the coordinator's worker registry. Calls may come from any thread; events arrive on a
// thread of the transport and must only be queued there.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "engine/arch/layer_range.h"
#include "engine/arch/stage_spec.h"
#include "engine/base/status.h"
#include "engine/runtime/micro_batch.h"
#include "proto/version.h"

namespace baton::wire {

enum class WireType : uint8_t { kF32, kF16, kBF16, kQ8_0 };

// What a worker measures after loading: less than a second each.
enum class Measure : uint8_t {
  kNone,
  kAlone,     // a decode step of one row, and the link to the next worker: others are idle
  kTogether,  // steps of all kinds, while the other workers do the same
};

// How long the loaded layers take, while all workers compute.
struct StageSpeed {
  double one_row_us = 0;    // a decode step of one sequence
  double many_rows_us = 0;  // of `many_rows` sequences
  int32_t many_rows = 0;    // 0: not measured
  double prompt_us = 0;     // a chunk of `prompt_rows` of one prompt
  int32_t prompt_rows = 0;
  double alone_us = 0;  // a decode step of one sequence while the others are idle; 0: not measured

  bool known() const { return many_rows > 0; }
};

struct LinkSpeed {
  double round_trip_us = 0;  // of a message without content; 0: not measured
  double bytes_per_s = 0;
};

struct LoadedStage {
  std::string fingerprint;
  engine::LayerRange layers;
  uint64_t weights_bytes = 0;
  uint64_t kv_bytes = 0;
  std::vector<std::string> warnings = {};
  std::string spec_hash;  // of the StageSpec: equal means that nothing must be loaded again
  std::string topology_hash = {};  // of the last LoadRequest
  StageSpeed speed = {};
  LinkSpeed next_link = {};  // to the worker after this one
};

struct WorkerInfo {
  std::string name;
  std::string build;
  uint32_t protocol_version = 0;
  std::string instance_id;
  int32_t pid = 0;
  std::string device;
  std::string backend;
  int32_t threads = 0;
  uint64_t memory_total_bytes = 0;  // of the device, where it has its own
  uint64_t memory_available_bytes = 0;
  uint64_t memory_budget_bytes = 0;  // 0: none given
  uint64_t rss_bytes = 0;
  std::string host_id;  // of what shares that memory
  bool loaded = false;
  LoadedStage stage;
  uint64_t epoch = 0;  // the newest that the worker has heard of
  uint64_t weight_bytes_received = 0;
  std::vector<engine::PartFile> files = {};  // GGUF files of its models folder; empty: not known
  int64_t clock_unix_ms = 0;                 // there, as it answered; 0: not said
  uint64_t host_memory_available_bytes = 0;  // where the memory above is a device's own
};

// Begins the name of a published model, as a source of parts.
inline constexpr std::string_view kHubPrefix = "hf:";

struct LoadRequest {
  engine::StageSpec spec;
  uint64_t epoch = 0;
  std::string next_address;  // empty at the last stage
  WireType wire_type = WireType::kF32;
  // Workers' addresses, or "hf:ORG/REPO/FILE.gguf", a published set that the parts are of.
  std::vector<std::string> part_sources;
  std::string topology_hash = {};  // of the file that the coordinator was started with
  Measure measure = Measure::kNone;
};

struct StageTimings {
  uint64_t queue_us = 0;
  uint64_t compute_us = 0;
  uint64_t send_us = 0;
};

// KV blocks to a file of the worker's host, or back.
enum class KvAction : uint8_t { kSave, kRestore, kRemove };
struct KvFileRequest {
  KvAction action = KvAction::kSave;
  std::string key;  // 32 hexadecimal digits that stand for the model and the tokens
  uint64_t epoch = 0;
  std::vector<int32_t> blocks = {};  // in order of position
};

// What a worker tells its coordinator while attached.
struct StepResult {
  uint64_t batch_id = 0;
  uint64_t epoch = 0;
  std::vector<engine::RowResult> results;  // of the whole micro-batch
};
struct StepFailed {
  uint64_t batch_id = 0;
  uint64_t epoch = 0;
  absl::Status status;
};
struct StepTimed {
  uint64_t batch_id = 0;
  uint64_t epoch = 0;
  StageTimings timings;
};
struct WorkerHeartbeat {
  uint64_t sequence = 0;
  uint64_t rss_bytes = 0;
  uint64_t memory_available_bytes = 0;
  int32_t queued = 0;
  uint64_t busy_us = 0;
  uint64_t steps = 0;
  uint64_t major_faults = 0;           // of the process: pages that had to come from the disk
  uint64_t mapped_resident_bytes = 0;  // of files: weights that were touched and are still there
  uint64_t sent_bytes = 0;             // of hidden states to the next worker
  uint64_t changed_messages = 0;       // that came otherwise than they were sent
};
struct LinkClosed {  // last event of a link
  absl::Status status;
};
using WorkerEvent = std::variant<StepResult, StepFailed, StepTimed, WorkerHeartbeat, LinkClosed>;

// The coordinator's live attachment to one worker. Destroying it closes the stream; no event comes
// afterwards.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  // Names the worker's KV cache: that of AttachOptions where it is as this coordinator's
  // micro-batches have left it, else a new one. 0: not known.
  virtual uint64_t kv_id() const { return 0; }
  // To the first stage; never blocks, and never calls on_event itself. Ids rise within an epoch:
  // workers refuse one that comes again. A micro-batch that the worker can't take comes back as
  // StepFailed; when the link is gone, LinkClosed speaks for all.
  virtual void Submit(std::shared_ptr<const engine::MicroBatch> batch) = 0;
  virtual void SetEpoch(uint64_t epoch) = 0;
  virtual void Heartbeat(uint64_t sequence) = 0;
};

class WorkerClient {
 public:
  virtual ~WorkerClient() = default;
  virtual absl::StatusOr<WorkerInfo> GetInfo(absl::Duration timeout) = 0;
  // Blocks until the stage is loaded, however long that takes, but no longer than `patience`
  // without a byte of progress. `progress` is called now and then, on any thread.
  virtual absl::StatusOr<LoadedStage> LoadStage(const LoadRequest& request,
                                                const engine::LoadProgress& progress,
                                                absl::Duration patience) = 0;
  virtual absl::Status UnloadStage(absl::Duration timeout) = 0;
  struct AttachOptions {
    std::string fingerprint;
    // Epochs of a coordinator are above those of all coordinators before it (milliseconds of the
    // clock will do): late work of the old ones is known by that.
    uint64_t epoch = 0;
    absl::Duration lease = absl::Seconds(10);
    uint64_t kv_id = 0;  // of the link before this one; 0: there was none
  };
  virtual absl::StatusOr<std::unique_ptr<WorkerLink>> Attach(
      const AttachOptions& options, std::function<void(WorkerEvent)> on_event,
      absl::Duration timeout) = 0;
  // The header of a part, from a worker that has it.
  virtual absl::StatusOr<std::string> ReadHeader(const std::string& file_name,
                                                 absl::Duration timeout) = 0;
  // The file's bytes. Only while no micro-batch that uses these blocks is on its way.
  virtual absl::StatusOr<uint64_t> KvFile(const KvFileRequest& /*request*/,
                                          absl::Duration /*timeout*/) {
    return Unimplemented("KV files: not by this client");
  }
  // Until `payload_bytes` are there and a word of it is back.
  virtual absl::StatusOr<absl::Duration> Probe(size_t payload_bytes, absl::Duration timeout) = 0;
};

// Makes clients by address: gRPC channels, or the workers of this process.
class WorkerConnector {
 public:
  virtual ~WorkerConnector() = default;
  virtual std::unique_ptr<WorkerClient> Connect(const std::string& address) = 0;
};

}  // namespace baton::wire
