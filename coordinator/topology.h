// What the operator wants, as the topology file says it: model, workers, limits. A value.
//
// The file is hostile input: an error names file, line and key; an unknown key also the nearest
// known one.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/arch/layer_range.h"
#include "engine/arch/stage_spec.h"
#include "engine/base/status.h"
#include "proto/worker_client.h"

namespace baton::coordinator {

struct WorkerEntry {
  std::string name;
  std::string address;
  std::optional<engine::LayerRange> layers;  // absent: auto
  std::optional<int32_t> num_layers;         // so many, wherever they begin ("layers: 12 layers")
  uint64_t memory_bytes = 0;                 // budget; 0: what the host has free
  int32_t threads = 0;                       // 0: all
  std::string device = "auto";
  std::optional<int32_t> gpu_layers;  // at most so many of its layers on the device; absent: all
  static constexpr int32_t kGpuLayersThatFit = -1;
  std::string models;           // folder on that host; empty: where the model lies
  std::string launch = "none";  // local | none | ssh://user@host
  std::string tls;              // folder of its certificate there; empty: the topology's files
  bool mlock = false;
  double weight = 0;          // share of the layers' work, relative; 0: by speeds or memory
  double memory_gbps = 0;     // measured: weights read, GB/s; 0: not known
  double compute_gflops = 0;  // measured: matrix products; 0: not known
  int32_t line = 0;           // in the file
};

struct LinkEntry {
  std::string from;  // worker names; "coordinator" is one too
  std::string to;
  absl::Duration latency;  // one way
  double bytes_per_s = 0;  // 0: not known
  int32_t line = 0;

  bool operator==(const LinkEntry& other) const {  // wherever it stands
    return from == other.from && to == other.to && latency == other.latency &&
           bytes_per_s == other.bytes_per_s;
  }
};

enum class Objective : uint8_t { kThroughput, kLatency };

struct TlsFiles {
  std::string ca;
  std::string cert;
  std::string key;
  bool operator==(const TlsFiles&) const = default;
};

struct Limits {
  int32_t queue = 1024;             // requests that wait
  int32_t batch_rows = 512;         // of a micro-batch
  int32_t chunk_rows = 0;           // prompt rows of a micro-batch; 0: chosen by measurement
  int32_t kv_blocks = 0;            // 0: those of `sequences` full contexts
  int32_t message_bytes = 4 << 20;  // of a client's gRPC message
  uint64_t body_bytes = 16u << 20;  // of an HTTP request
  int32_t connections = 2048;
  absl::Duration start = absl::Seconds(60);     // until all workers are there
  absl::Duration load = absl::Minutes(30);      // of a stage, without any progress
  absl::Duration lease = absl::Seconds(10);     // a worker that is silent for longer is lost
  absl::Duration step = absl::Seconds(60);      // without any progress
  absl::Duration recovery = absl::Seconds(30);  // how long requests wait for a lost worker
  bool operator==(const Limits&) const = default;
};

inline constexpr std::string_view kNoJournal = "off";

struct Topology {
  std::string file;       // "" where it was made by flags
  std::string text_hash;  // of what the file says; "" likewise
  std::string model;
  std::string hub = {};  // "hf:ORG/REPO/FILE": workers fetch from it what they lack; not in a file
  int32_t context =
      0;  // positions per sequence; 0: 4096, or less where the model was trained with less
  int32_t sequences = 8;
  std::string grpc_address = "127.0.0.1:7070";
  std::string http_address;          // empty: no gateway
  std::vector<WorkerEntry> workers;  // in pipeline order
  std::vector<WorkerEntry> spares;
  std::vector<LinkEntry> links;
  Objective objective = Objective::kThroughput;
  bool any_order = false;  // of workers: the planner chooses
  wire::WireType wire = wire::WireType::kF32;
  engine::KvType kv_type = engine::KvType::kF16;
  std::optional<TlsFiles> tls;
  bool insecure = false;
  std::string api_keys;  // file
  bool prefix_cache = true;
  bool speculation = true;   // by prompt lookup, where a request does not say otherwise
  bool fetch_parts = false;  // workers may ask others for bytes they lack
  bool measure = false;      // workers' speeds that are not known, at the first start
  std::string journal;       // folder; empty: one below the user's state folder; kNoJournal: none
  Limits limits;
};

absl::StatusOr<Topology> LoadTopology(const std::string& path);
// `file` stands in errors; relative paths are taken from its folder.
absl::StatusOr<Topology> ParseTopology(std::string_view yaml, const std::string& file);

}  // namespace baton::coordinator
