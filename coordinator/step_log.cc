#include "coordinator/step_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "coordinator/running_mean.h"
#include "engine/base/json.h"

namespace baton::coordinator {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWeightOfNewTrip = 0.1;

double Milliseconds(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

absl::Duration SpentOnStage(const wire::StageTimings& timings) {
  return absl::Microseconds(timings.queue_us + timings.compute_us + timings.send_us);
}

}  // namespace

void StepLog::Opened(Request request) {
  const std::lock_guard lock(mutex_);
  requests_.push_back(std::move(request));
  if (requests_.size() > kMaxRequests) requests_.pop_front();
}

void StepLog::Sent(const engine::MicroBatch& batch, size_t num_stages, absl::Time now) {
  Record record{.id = batch.id, .rows = batch.rows(), .sequences = {}, .sent = now, .stages = {}};
  for (const engine::SequenceRows& rows : batch.sequences) {
    record.sequences.push_back(rows.sequence_id);
  }
  record.stages.resize(num_stages);
  const std::lock_guard lock(mutex_);
  hops_.resize(num_stages);
  records_[batch.id] = std::move(record);
  if (records_.size() > kMaxRecords) records_.erase(records_.begin());
}

void StepLog::StageDone(uint64_t batch_id, size_t stage, const wire::StageTimings& timings,
                        absl::Time now) {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(batch_id);
  if (found == records_.end() || stage >= found->second.stages.size()) return;
  Record& record = found->second;
  record.stages[stage] = {.done = now, .timings = timings};
  if (stage >= hops_.size()) return;
  HopTimes& hop = hops_[stage];
  MixIn(static_cast<double>(timings.queue_us) / 1e3, kWeightOfNewTrip, &hop.queue_ms);
  MixIn(static_cast<double>(timings.send_us) / 1e3, kWeightOfNewTrip, &hop.send_ms);
  NoteLink(record, stage);
  NoteLink(record, stage + 1);  // whose word may have been faster
}

void StepLog::NoteLink(const Record& record, size_t stage) {
  if (stage >= hops_.size() || stage >= record.stages.size()) return;
  const StageRecord& here = record.stages[stage];
  const absl::Time left = stage == 0 ? record.sent : record.stages[stage - 1].done;
  if (std::max(left, here.done) == absl::InfiniteFuture()) return;  // a word is still on the way
  MixIn(Milliseconds(here.done - SpentOnStage(here.timings) - left), kWeightOfNewTrip,
        &hops_[stage].link_ms);
}

void StepLog::Returned(uint64_t batch_id, absl::Time now) {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(batch_id);
  if (found == records_.end()) return;
  found->second.returned = now;
  MixIn(Milliseconds(now - found->second.sent), kWeightOfNewTrip, &trip_ms_);
}

std::vector<HopTimes> StepLog::hops() const {
  const std::lock_guard lock(mutex_);
  return hops_;
}

double StepLog::trip_ms() const {
  const std::lock_guard lock(mutex_);
  return trip_ms_;
}

std::optional<StepLog::Request> StepLog::Find(std::string_view request_id) const {
  const std::lock_guard lock(mutex_);
  for (auto request = requests_.rbegin(); request != requests_.rend(); ++request) {
    if (request_id.empty() || request->id == request_id ||
        (!request->client_id.empty() && request_id.ends_with(request->client_id))) {
      return *request;
    }
  }
  return std::nullopt;
}

std::vector<StepLog::Record> StepLog::RecordsOf(uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  std::vector<Record> records;
  for (const auto& [id, record] : records_) {
    if (std::ranges::find(record.sequences, sequence) != record.sequences.end()) {
      records.push_back(record);
    }
  }
  return records;
}

std::string TraceToJson(const StepLog::Request& request,
                        const std::vector<StepLog::Record>& records,
                        const std::vector<std::string>& workers) {
  Json events = Json::array();
  const auto process = [&](size_t pid, const std::string& name) {
    events.push_back({{"name", "process_name"},
                      {"ph", "M"},
                      {"pid", pid},
                      {"tid", 0},
                      {"args", {{"name", name}}}});
    events.push_back({{"name", "process_sort_index"},
                      {"ph", "M"},
                      {"pid", pid},
                      {"tid", 0},
                      {"args", {{"sort_index", pid}}}});
  };
  const auto span = [&](size_t pid, int row, const std::string& name, absl::Time begin,
                        absl::Time end, const Json& args) {
    if (end == absl::InfiniteFuture() || end < begin) return;
    events.push_back({{"name", name},
                      {"ph", "X"},
                      {"pid", pid},
                      {"tid", row},
                      {"ts", absl::ToInt64Microseconds(begin - request.opened)},
                      {"dur", absl::ToInt64Microseconds(end - begin)},
                      {"args", args}});
  };
  process(0, "coordinator");
  for (size_t i = 0; i < workers.size(); ++i) {
    process(i + 1, fmt::format("stage {}: {}", i, workers[i]));
  }
  absl::Time last = request.opened;
  if (!records.empty()) {
    span(0, 0, "waiting for a place", request.opened, records.front().sent, Json::object());
  }
  for (const StepLog::Record& record : records) {
    const Json args = {
        {"micro_batch", record.id}, {"rows", record.rows}, {"sequences", record.sequences.size()}};
    // Micro-batches overlap on the coordinator, so each second one has another row.
    span(0, 1 + static_cast<int>(record.id % 4), fmt::format("micro-batch {}", record.id),
         record.sent, record.returned, args);
    if (record.returned != absl::InfiniteFuture()) last = std::max(last, record.returned);
    absl::Time left = record.sent;
    for (size_t i = 0; i < record.stages.size(); ++i) {
      const auto& [done, timings] = record.stages[i];
      if (done == absl::InfiniteFuture()) continue;
      const absl::Time sending = done - absl::Microseconds(timings.send_us);
      const absl::Time computing = sending - absl::Microseconds(timings.compute_us);
      const absl::Time queued = computing - absl::Microseconds(timings.queue_us);
      span(i + 1, 0, "on the wire", left, queued, args);
      span(i + 1, 1, "queue", queued, computing, args);
      span(i + 1, 2, "compute", computing, sending, args);
      span(i + 1, 3, "hand on", sending, done, args);
      left = done;
    }
  }
  span(0, 0, fmt::format("request {}", request.id), request.opened, last,
       {{"request_id", request.id}, {"client_id", request.client_id}});
  return engine::JsonText(
      {{"traceEvents", std::move(events)},
       {"displayTimeUnit", "ms"},
       {"otherData", {{"request_id", request.id}, {"client_id", request.client_id}}}});
}

}  // namespace baton::coordinator
