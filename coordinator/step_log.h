// What became of the micro-batches of late, all on the coordinator's clock: where the time of a
// token goes, and traces of single requests.
//
// Workers only measure durations, so no clocks need to agree: a stage's word that it is done, minus
// what it spent, says when the micro-batch reached it. The pipeline writes; any thread reads.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/runtime/micro_batch.h"
#include "proto/worker_client.h"

namespace baton::coordinator {

// Means over recent micro-batches.
struct HopTimes {
  double queue_ms = 0;
  double send_ms = 0;
  // From where the micro-batch was before into this stage's queue, by when words of both arrived:
  // below 0 where the earlier one's word took longer (see CorrectLinkTimes).
  double link_ms = 0;
};

class StepLog {
 public:
  struct StageRecord {
    absl::Time done = absl::InfiniteFuture();  // when its word arrived; never: no word yet
    wire::StageTimings timings;
  };
  struct Record {
    uint64_t id = 0;
    int32_t rows = 0;
    std::vector<uint64_t> sequences;
    absl::Time sent;
    absl::Time returned = absl::InfiniteFuture();
    std::vector<StageRecord> stages;
  };
  struct Request {
    std::string id;         // the coordinator's
    std::string client_id;  // the client's own; may be empty
    uint64_t sequence = 0;
    absl::Time opened;
  };

  void Opened(Request request);
  void Sent(const engine::MicroBatch& batch, size_t num_stages, absl::Time now);
  void StageDone(uint64_t batch_id, size_t stage, const wire::StageTimings& timings,
                 absl::Time now);
  void Returned(uint64_t batch_id, absl::Time now);

  std::vector<HopTimes> hops() const;
  double trip_ms() const;  // from sending a micro-batch to its result

  // By either id; "": the latest. nullopt: none, or too long ago.
  std::optional<Request> Find(std::string_view request_id) const;
  // Those that had rows of the sequence, oldest first.
  std::vector<Record> RecordsOf(uint64_t sequence) const;

 private:
  void NoteLink(const Record& record, size_t stage);  // under mutex_

  static constexpr size_t kMaxRecords = 8192;
  static constexpr size_t kMaxRequests = 1024;

  mutable std::mutex mutex_;  // guards all below
  std::map<uint64_t, Record> records_;
  std::deque<Request> requests_;
  std::vector<HopTimes> hops_;
  double trip_ms_ = 0;
};

// The request as a trace that Chrome and Perfetto show: a process for the coordinator and one for
// each worker. `workers`: names, stage by stage.
std::string TraceToJson(const StepLog::Request& request,
                        const std::vector<StepLog::Record>& records,
                        const std::vector<std::string>& workers);

}  // namespace baton::coordinator
