#include "coordinator/speed_book.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/base/pending_file.h"

namespace baton::coordinator {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxEntries = 4096;  // the oldest go first
// Of the time of one row, what further rows cost at least: below, it is noise.
constexpr double kLeastRowShare = 0.002;

double Positive(const Json& entry, const char* key) {
  const auto value = entry.find(key);
  return value != entry.end() && value->is_number() ? std::max(value->get<double>(), 0.0) : 0.0;
}

std::string Text(const Json& entry, const char* key) {
  const auto value = entry.find(key);
  return value != entry.end() && value->is_string() ? value->get<std::string>() : std::string();
}

template <typename Entry>
void KeepNewest(std::vector<Entry>* entries) {
  if (entries->size() > kMaxEntries) entries->erase(entries->begin(), entries->end() - kMaxEntries);
}

}  // namespace

std::optional<WorkerSpeed> SpeedOf(const engine::StageCost& cost,
                                   const wire::StageSpeed& measured) {
  if (!measured.known() || measured.one_row_us <= 0 || cost.read_bytes_per_token == 0)
    return std::nullopt;
  const double flops = static_cast<double>(cost.flops_per_token);
  const double one_s = measured.one_row_us / 1e6;
  WorkerSpeed speed;
  double row_s = 0;
  if (measured.many_rows > 1) {
    row_s = (measured.many_rows_us / 1e6 - one_s) / (measured.many_rows - 1);
    row_s = std::clamp(row_s, one_s * kLeastRowShare, one_s / 2);
    speed.flops_per_s = flops / row_s;
  }
  speed.read_bytes_per_s = static_cast<double>(cost.read_bytes_per_token) / (one_s - row_s);
  if (measured.alone_us > 0) {
    const double alone_s = std::max(measured.alone_us / 1e6 - row_s, measured.alone_us / 2e6);
    speed.alone_read_bytes_per_s = static_cast<double>(cost.read_bytes_per_token) / alone_s;
  }
  if (measured.prompt_us > 0)
    speed.prompt_flops_per_s = flops * measured.prompt_rows / (measured.prompt_us / 1e6);
  return speed;
}

SpeedBook SpeedBook::Open(const std::string& folder, const std::string& fingerprint) {
  SpeedBook book;
  if (folder.empty()) return book;
  book.path_ = (std::filesystem::path(folder) / "speeds" / (fingerprint + ".json")).string();
  book.Read();
  return book;
}

void SpeedBook::Read() {
  std::ifstream file(path_);
  if (!file) return;
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  for (const Json& entry : json.value("workers", Json::array())) {
    if (!entry.is_object()) continue;
    workers_.push_back(
        {Text(entry, "worker"),
         Text(entry, "backend"),
         {Positive(entry, "read_bytes_per_s"), Positive(entry, "flops_per_s"),
          Positive(entry, "prompt_flops_per_s"), Positive(entry, "alone_read_bytes_per_s")}});
  }
  for (const Json& entry : json.value("links", Json::array())) {
    if (!entry.is_object()) continue;
    links_.push_back({Text(entry, "from"),
                      Text(entry, "to"),
                      {Positive(entry, "latency_s"), Positive(entry, "bytes_per_s")}});
  }
  KeepNewest(&workers_);
  KeepNewest(&links_);
}

std::optional<WorkerSpeed> SpeedBook::Find(std::string_view worker,
                                           std::string_view backend) const {
  for (auto entry = workers_.rbegin(); entry != workers_.rend(); ++entry) {
    if (entry->worker != worker || entry->speed.read_bytes_per_s <= 0) continue;
    if (backend.empty() || entry->backend == backend) return entry->speed;
  }
  return std::nullopt;
}

std::optional<PlanLink> SpeedBook::FindLink(std::string_view from, std::string_view to) const {
  for (auto entry = links_.rbegin(); entry != links_.rend(); ++entry) {
    if ((entry->from == from && entry->to == to) || (entry->from == to && entry->to == from))
      return entry->link;
  }
  return std::nullopt;
}

void SpeedBook::Note(std::string_view worker, std::string_view backend, const WorkerSpeed& speed) {
  std::erase_if(workers_,
                [&](const Entry& e) { return e.worker == worker && e.backend == backend; });
  workers_.push_back({std::string(worker), std::string(backend), speed});
  KeepNewest(&workers_);
}

void SpeedBook::NoteLink(std::string_view from, std::string_view to, const PlanLink& link) {
  std::erase_if(links_, [&](const LinkEntry& e) { return e.from == from && e.to == to; });
  links_.push_back({std::string(from), std::string(to), link});
  KeepNewest(&links_);
}

absl::Status SpeedBook::Save() const {
  if (path_.empty()) return absl::OkStatus();
  Json json = {{"workers", Json::array()}, {"links", Json::array()}};
  for (const Entry& entry : workers_) {
    json["workers"].push_back({{"worker", entry.worker},
                               {"backend", entry.backend},
                               {"read_bytes_per_s", entry.speed.read_bytes_per_s},
                               {"flops_per_s", entry.speed.flops_per_s},
                               {"prompt_flops_per_s", entry.speed.prompt_flops_per_s},
                               {"alone_read_bytes_per_s", entry.speed.alone_read_bytes_per_s}});
  }
  for (const LinkEntry& entry : links_) {
    json["links"].push_back({{"from", entry.from},
                             {"to", entry.to},
                             {"latency_s", entry.link.latency_s},
                             {"bytes_per_s", entry.link.bytes_per_s}});
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  ASSIGN_OR_RETURN(const auto file, engine::PendingFile::Create(path_));
  file->stream() << json.dump(1, ' ', false, Json::error_handler_t::replace);
  return file->Commit();
}

}  // namespace baton::coordinator
