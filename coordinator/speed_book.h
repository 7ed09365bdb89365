// What was measured of workers and of the links between them with one model, kept in a file by the
// model's fingerprint: later starts plan with it, and `baton plan` needs no workers for it.
//
// Owner: a model placer; recovery's thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/planner.h"
#include "engine/base/status.h"

namespace baton::coordinator {

struct WorkerSpeed {
  double read_bytes_per_s = 0;        // of weights, in decode
  double flops_per_s = 0;             // of further rows of a decode step
  double prompt_flops_per_s = 0;      // of a prompt's rows
  double alone_read_bytes_per_s = 0;  // while the other workers are idle; 0: not known
};

// Speeds that follow from how long a stage of that cost took. Nothing where it was not measured.
std::optional<WorkerSpeed> SpeedOf(const engine::StageCost& cost, const wire::StageSpeed& measured);

class SpeedBook {
 public:
  // In memory alone where `folder` is empty. A file that cannot be read is as good as none.
  static SpeedBook Open(const std::string& folder, const std::string& fingerprint);

  // `backend` as the worker names it; empty: any, the newest.
  std::optional<WorkerSpeed> Find(std::string_view worker, std::string_view backend) const;
  std::optional<PlanLink> FindLink(std::string_view from, std::string_view to) const;
  void Note(std::string_view worker, std::string_view backend, const WorkerSpeed& speed);
  void NoteLink(std::string_view from, std::string_view to, const PlanLink& link);
  absl::Status Save() const;

 private:
  struct Entry {
    std::string worker;
    std::string backend;
    WorkerSpeed speed;
  };
  struct LinkEntry {
    std::string from;
    std::string to;
    PlanLink link;
  };

  void Read();

  std::string path_;  // empty: no file
  std::vector<Entry> workers_;
  std::vector<LinkEntry> links_;
};

}  // namespace baton::coordinator
