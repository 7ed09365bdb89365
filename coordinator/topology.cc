#include "coordinator/topology.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "coordinator/yaml_reader.h"
#include "engine/base/quote.h"
#include "engine/base/units.h"
#include "proto/address.h"
#include "proto/spec_hash.h"

namespace baton::coordinator {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxWorkers = 1024;
constexpr int kMaxNesting = 32;
constexpr int32_t kMaxInt = std::numeric_limits<int32_t>::max();

// Readers of one field each, made by the member they fill.
template <auto member, typename T>
absl::Status ReadString(const YamlValue& value, T* to) {
  ASSIGN_OR_RETURN(to->*member, value.String());
  return absl::OkStatus();
}
template <auto member, typename T>
absl::Status ReadBool(const YamlValue& value, T* to) {
  ASSIGN_OR_RETURN(to->*member, value.Bool());
  return absl::OkStatus();
}
template <auto member, int64_t least, int64_t most, typename T>
absl::Status ReadInt(const YamlValue& value, T* to) {
  ASSIGN_OR_RETURN(const int64_t number, value.Integer(least, most));
  to->*member = static_cast<int32_t>(number);
  return absl::OkStatus();
}
template <auto member, typename T>
absl::Status ReadPositive(const YamlValue& value, T* to) {
  ASSIGN_OR_RETURN(to->*member, value.Number(0, 1e12));
  return absl::OkStatus();
}
template <auto member, typename T>
absl::Status ReadBytes(const YamlValue& value, T* to) {
  ASSIGN_OR_RETURN(const std::string text, value.String());
  const absl::StatusOr<uint64_t> bytes = engine::ParseBytes(text);
  if (!bytes.ok()) return value.Error(bytes.status());
  to->*member = *bytes;
  return absl::OkStatus();
}
template <auto member, typename T>
absl::Status ReadDuration(const YamlValue& value, T* to) {
  ASSIGN_OR_RETURN(const std::string text, value.String());
  const absl::StatusOr<absl::Duration> duration = engine::ParseDuration(text);
  if (!duration.ok()) return value.Error(duration.status());
  to->*member = *duration;
  return absl::OkStatus();
}
template <auto member, const auto& names, typename T>
absl::Status ReadEnum(const YamlValue& value, T* to) {
  ASSIGN_OR_RETURN(const size_t index, value.OneOf(names));
  to->*member = static_cast<std::remove_reference_t<decltype(to->*member)>>(index);
  return absl::OkStatus();
}

absl::Status CheckAddress(const YamlValue& value, const std::string& text) {
  const absl::StatusOr<wire::Address> address = wire::ParseAddress(text);
  return address.ok() ? absl::OkStatus() : value.Error(address.status());
}
template <auto member, typename T>
absl::Status ReadAddress(const YamlValue& value, T* to) {
  ASSIGN_OR_RETURN(to->*member, value.String());
  return CheckAddress(value, to->*member);
}

// auto, 0-14 (inclusive, as people write it), or a number of layers.
absl::Status ReadLayers(const YamlValue& value, WorkerEntry* to) {
  ASSIGN_OR_RETURN(const std::string text, value.String());
  to->layers.reset();
  to->num_layers.reset();
  if (text == "auto") return absl::OkStatus();
  constexpr int64_t kMost = 100000;
  const size_t dash = text.find('-');
  const auto begin = engine::ParseInteger(std::string_view(text).substr(0, dash));
  if (dash == std::string::npos && begin.ok() && *begin >= 1 && *begin <= kMost) {
    to->num_layers = static_cast<int32_t>(*begin);
    return absl::OkStatus();
  }
  if (dash != std::string::npos) {
    const auto last = engine::ParseInteger(std::string_view(text).substr(dash + 1));
    if (begin.ok() && last.ok() && *begin >= 0 && *last >= *begin && *last <= kMost) {
      to->layers =
          engine::LayerRange{static_cast<int32_t>(*begin), static_cast<int32_t>(*last) + 1};
      return absl::OkStatus();
    }
  }
  return value.Error(fmt::format("got {}, expected auto, a range like 0-14 or a number of layers",
                                 engine::Named(text)));
}

absl::Status ReadGpuLayers(const YamlValue& value, WorkerEntry* to) {
  ASSIGN_OR_RETURN(const std::string text, value.String());
  if (text == "auto") {
    to->gpu_layers = WorkerEntry::kGpuLayersThatFit;
    return absl::OkStatus();
  }
  const auto count = engine::ParseInteger(text);
  if (!count.ok() || *count < 0 || *count > 100000) {
    return value.Error(
        fmt::format("got {}, expected auto or a number of layers", engine::Named(text)));
  }
  to->gpu_layers = static_cast<int32_t>(*count);
  return absl::OkStatus();
}

absl::Status ReadName(const YamlValue& value, WorkerEntry* to) {
  ASSIGN_OR_RETURN(to->name, value.String());
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  if (!to->name.empty() && to->name.size() <= 64 &&
      std::all_of(to->name.begin(), to->name.end(), plain)) {
    return absl::OkStatus();
  }
  return value.Error(fmt::format("got {}, expected 1 to 64 letters, digits, '-', '_' or '.'",
                                 engine::Named(to->name)));
}

absl::Status ReadLaunch(const YamlValue& value, WorkerEntry* to) {
  ASSIGN_OR_RETURN(to->launch, value.String());
  if (to->launch == "local" || to->launch == "none" || to->launch.starts_with("ssh://"))
    return absl::OkStatus();
  return value.Error(
      fmt::format("got {}, expected local, none or ssh://user@host", engine::Named(to->launch)));
}

constexpr YamlField<WorkerEntry> kWorkerFields[] = {
    {"name", ReadName},
    {"address", ReadAddress<&WorkerEntry::address>},
    {"layers", ReadLayers},
    {"memory", ReadBytes<&WorkerEntry::memory_bytes>},
    {"threads", ReadInt<&WorkerEntry::threads, 0, 4096>},
    {"device", ReadString<&WorkerEntry::device>},
    {"gpu_layers", ReadGpuLayers},
    {"models", ReadString<&WorkerEntry::models>},
    {"launch", ReadLaunch},
    {"tls", ReadString<&WorkerEntry::tls>},
    {"mlock", ReadBool<&WorkerEntry::mlock>},
    {"weight", ReadPositive<&WorkerEntry::weight>},
    {"memory_gbps", ReadPositive<&WorkerEntry::memory_gbps>},
    {"compute_gflops", ReadPositive<&WorkerEntry::compute_gflops>},
};

absl::Status ReadWorkerList(const YamlValue& value, std::vector<WorkerEntry>* to) {
  ASSIGN_OR_RETURN(const std::vector<YamlValue> list, value.List(kMaxWorkers));
  to->clear();
  for (const YamlValue& item : list) {
    WorkerEntry& worker = to->emplace_back();
    worker.line = item.line();
    RETURN_IF_ERROR(ReadYamlMap<WorkerEntry>(item, kWorkerFields, &worker));
    if (worker.address.empty()) return item.Error("address: missing, expected HOST:PORT");
  }
  return absl::OkStatus();
}
absl::Status ReadWorkers(const YamlValue& value, Topology* to) {
  return ReadWorkerList(value, &to->workers);
}
absl::Status ReadSpares(const YamlValue& value, Topology* to) {
  return ReadWorkerList(value, &to->spares);
}

absl::Status ReadBandwidth(const YamlValue& value, LinkEntry* to) {
  ASSIGN_OR_RETURN(const std::string text, value.String());
  const absl::StatusOr<double> bandwidth = engine::ParseBandwidth(text);
  if (!bandwidth.ok()) return value.Error(bandwidth.status());
  to->bytes_per_s = *bandwidth;
  return absl::OkStatus();
}

constexpr YamlField<LinkEntry> kLinkFields[] = {
    {"from", ReadString<&LinkEntry::from>},
    {"to", ReadString<&LinkEntry::to>},
    {"latency", ReadDuration<&LinkEntry::latency>},
    {"bandwidth", ReadBandwidth},
};

absl::Status ReadLinks(const YamlValue& value, Topology* to) {
  ASSIGN_OR_RETURN(const std::vector<YamlValue> list, value.List(kMaxWorkers));
  for (const YamlValue& item : list) {
    LinkEntry& link = to->links.emplace_back();
    link.line = item.line();
    RETURN_IF_ERROR(ReadYamlMap<LinkEntry>(item, kLinkFields, &link));
    if (link.from.empty() || link.to.empty())
      return item.Error("expected from and to, names of workers or coordinator");
  }
  return absl::OkStatus();
}

constexpr YamlField<Topology> kListenFields[] = {
    {"grpc", ReadAddress<&Topology::grpc_address>},
    {"http", ReadAddress<&Topology::http_address>},
};
absl::Status ReadListen(const YamlValue& value, Topology* to) {
  return ReadYamlMap<Topology>(value, kListenFields, to);
}

constexpr YamlField<TlsFiles> kTlsFields[] = {
    {"ca", ReadString<&TlsFiles::ca>},
    {"cert", ReadString<&TlsFiles::cert>},
    {"key", ReadString<&TlsFiles::key>},
};
absl::Status ReadTls(const YamlValue& value, Topology* to) {
  to->tls.emplace();
  RETURN_IF_ERROR(ReadYamlMap<TlsFiles>(value, kTlsFields, &*to->tls));
  if (!to->tls->ca.empty() && !to->tls->cert.empty() && !to->tls->key.empty())
    return absl::OkStatus();
  return value.Error("expected three files: ca, cert and key");
}

// A time that must be long enough for what it limits.
template <auto member, int64_t least_ms>
absl::Status ReadTimeLimit(const YamlValue& value, Limits* to) {
  RETURN_IF_ERROR((ReadDuration<member>(value, to)));
  if (to->*member >= absl::Milliseconds(least_ms)) return absl::OkStatus();
  return value.Error(fmt::format("got {}, expected at least {}", absl::FormatDuration(to->*member),
                                 absl::FormatDuration(absl::Milliseconds(least_ms))));
}

absl::Status ReadMessageBytes(const YamlValue& value, Limits* to) {
  constexpr uint64_t kLeast = uint64_t{64} << 10, kMost = uint64_t{1} << 30;
  ASSIGN_OR_RETURN(const std::string text, value.String());
  const absl::StatusOr<uint64_t> bytes = engine::ParseBytes(text);
  if (!bytes.ok()) return value.Error(bytes.status());
  if (*bytes < kLeast || *bytes > kMost)
    return value.Error(fmt::format("got {}, expected 64KiB to 1GiB", engine::Named(text)));
  to->message_bytes = static_cast<int32_t>(*bytes);
  return absl::OkStatus();
}

constexpr YamlField<Limits> kLimitFields[] = {
    {"queue", ReadInt<&Limits::queue, 1, 1000000>},
    {"batch_rows", ReadInt<&Limits::batch_rows, 1, 65536>},
    {"chunk_rows", ReadInt<&Limits::chunk_rows, 0, 65536>},
    {"kv_blocks", ReadInt<&Limits::kv_blocks, 0, kMaxInt>},
    {"message", ReadMessageBytes},
    {"body", ReadBytes<&Limits::body_bytes>},
    {"connections", ReadInt<&Limits::connections, 1, 1000000>},
    {"start", ReadTimeLimit<&Limits::start, 100>},
    {"load", ReadTimeLimit<&Limits::load, 100>},
    {"lease", ReadTimeLimit<&Limits::lease, 1000>},  // two heartbeats
    {"step", ReadTimeLimit<&Limits::step, 1000>},
    {"recovery", ReadTimeLimit<&Limits::recovery, 100>},
};
absl::Status ReadLimits(const YamlValue& value, Topology* to) {
  return ReadYamlMap<Limits>(value, kLimitFields, &to->limits);
}

constexpr std::array<std::string_view, 2> kObjectiveNames = {"throughput", "latency"};
constexpr std::array<std::string_view, 2> kOrderNames = {"given", "any"};
constexpr std::array<std::string_view, 4> kWireNames = {"f32", "f16", "bf16", "q8_0"};
constexpr std::array<std::string_view, 3> kKvTypeNames = {"f16", "f32", "q8_0"};

constexpr YamlField<Topology> kTopologyFields[] = {
    {"model", ReadString<&Topology::model>},
    {"context", ReadInt<&Topology::context, 1, kMaxInt>},
    {"sequences", ReadInt<&Topology::sequences, 1, 65536>},
    {"listen", ReadListen},
    {"workers", ReadWorkers},
    {"spares", ReadSpares},
    {"links", ReadLinks},
    {"objective", ReadEnum<&Topology::objective, kObjectiveNames>},
    {"order", ReadEnum<&Topology::any_order, kOrderNames>},
    {"wire", ReadEnum<&Topology::wire, kWireNames>},
    {"kv_type", ReadEnum<&Topology::kv_type, kKvTypeNames>},
    {"tls", ReadTls},
    {"insecure", ReadBool<&Topology::insecure>},
    {"api_keys", ReadString<&Topology::api_keys>},
    {"prefix_cache", ReadBool<&Topology::prefix_cache>},
    {"speculation", ReadBool<&Topology::speculation>},
    {"fetch_parts", ReadBool<&Topology::fetch_parts>},
    {"measure", ReadBool<&Topology::measure>},
    {"journal", ReadString<&Topology::journal>},
    {"limits", ReadLimits},
};

absl::Status CheckWorkers(const Topology& topology) {
  std::set<std::string> names = {"coordinator"}, addresses;
  for (const auto* list : {&topology.workers, &topology.spares}) {
    for (const WorkerEntry& worker : *list) {
      const auto error = [&](std::string_view what) {
        return InvalidArgument("{}:{}: {}", topology.file, worker.line, what);
      };
      if (!names.insert(worker.name).second)
        return error(fmt::format("name: {} is taken", worker.name));
      const bool any_port = worker.address.ends_with(":0");
      if (!any_port && !addresses.insert(worker.address).second) {
        return error(fmt::format("address: {} is that of another worker", worker.address));
      }
    }
  }
  return absl::OkStatus();
}

void NameWorkers(std::vector<WorkerEntry>* workers, std::string_view prefix) {
  for (size_t i = 0; i < workers->size(); ++i) {
    if ((*workers)[i].name.empty()) (*workers)[i].name = fmt::format("{}{}", prefix, i);
  }
}

void ResolvePaths(const std::filesystem::path& folder, Topology* topology) {
  const auto resolve = [&](std::string* path) {
    if (!path->empty() && std::filesystem::path(*path).is_relative())
      *path = (folder / *path).lexically_normal().string();
  };
  // A bare name stands for a model in the cache.
  const std::string& model = topology->model;
  const bool is_path = !model.starts_with(wire::kHubPrefix) && !model.starts_with("ollama:") &&
                       (model.find('/') != std::string::npos || model.ends_with(".gguf"));
  if (is_path) resolve(&topology->model);
  if (topology->tls) {
    for (std::string* file : {&topology->tls->ca, &topology->tls->cert, &topology->tls->key})
      resolve(file);
  }
  resolve(&topology->api_keys);
  if (topology->journal != kNoJournal) resolve(&topology->journal);
  for (auto* list : {&topology->workers, &topology->spares}) {
    for (WorkerEntry& worker : *list) {
      if (worker.launch != "local") continue;
      resolve(&worker.models);
      resolve(&worker.tls);
    }
  }
}

// yaml-cpp recurses into nested collections.
bool NestsTooDeep(std::string_view yaml) {
  int depth = 0;
  for (size_t at = 0; at < yaml.size(); ++at) {
    if (yaml[at] == '[' || yaml[at] == '{') depth += 1;
    if ((yaml[at] == ']' || yaml[at] == '}') && depth > 0) depth -= 1;
    if (depth > kMaxNesting) return true;
    const bool line_begins = at == 0 || yaml[at - 1] == '\n';
    if (!line_begins) continue;
    // "- - - -" and indentation nest too.
    size_t dashes = 0;
    for (size_t i = at; i < yaml.size() && (yaml[i] == ' ' || yaml[i] == '-' || yaml[i] == '?');
         ++i) {
      dashes += yaml[i] != ' ';
    }
    if (dashes > kMaxNesting) return true;
  }
  return false;
}

absl::StatusOr<YAML::Node> ParseYaml(std::string_view yaml, const std::string& file) {
  if (yaml.size() > kMaxFileBytes) {
    return InvalidArgument("{}: {} bytes, expected at most {}", file, yaml.size(), kMaxFileBytes);
  }
  if (NestsTooDeep(yaml)) return InvalidArgument("{}: nested deeper than {}", file, kMaxNesting);
  try {
    return YAML::Load(std::string(yaml));
  } catch (const YAML::ParserException& e) {
    return InvalidArgument("{}:{}: {}", file, e.mark.line + 1, e.msg);
  } catch (const YAML::Exception& e) {
    return InvalidArgument("{}: {}", file, e.what());
  }
}

}  // namespace

absl::StatusOr<Topology> ParseTopology(std::string_view yaml, const std::string& file) {
  ASSIGN_OR_RETURN(const YAML::Node root, ParseYaml(yaml, file));
  Topology topology;
  topology.file = file;
  topology.text_hash = wire::TextHash(yaml);
  topology.measure = true;
  try {
    RETURN_IF_ERROR(
        ReadYamlMap<Topology>(YamlValue(&file, "", root, 1), kTopologyFields, &topology));
  } catch (const YAML::Exception& e) {
    return InvalidArgument("{}:{}: {}", file, e.mark.line + 1, e.msg);
  }
  if (topology.model.empty()) return InvalidArgument("{}: model: missing, expected a path", file);
  if (topology.workers.empty())
    return InvalidArgument("{}: workers: missing, expected at least one", file);
  NameWorkers(&topology.workers, "worker");
  NameWorkers(&topology.spares, "spare");
  RETURN_IF_ERROR(CheckWorkers(topology));
  ResolvePaths(std::filesystem::path(file).parent_path(), &topology);
  return topology;
}

absl::StatusOr<Topology> LoadTopology(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return InvalidArgument("{}: a folder, expected a topology file", path);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return NotFound("{}: cannot be read", path);
  std::string text(kMaxFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  return ParseTopology(text, path);
}

}  // namespace baton::coordinator
