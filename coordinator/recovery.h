// Brings the pipeline up, and up again whenever a worker is lost: bringing it up is recovering from
// nothing.
//
// One thread. A try: ask who is there, decide who has which layers, load what is not loaded
// (workers that have it say so at once), attach with a new epoch, resume the pipeline, which
// replays its sequences through the stages up to the last one that has lost its KV cache. A lost
// worker is waited for shortly, then a spare takes its place, then the survivors share the layers
// anew. Requests that wait for longer than Limits::recovery end with the reason; trying goes on.
//
// Layers also move because somebody wants it (another topology, a drain) or because a lost worker
// is back. Then whoever is not in the pipeline yet loads its layers first, on a second thread,
// while the old pipeline goes on.
#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "coordinator/pipeline.h"
#include "coordinator/worker_registry.h"
#include "engine/arch/layer_range.h"
#include "engine/base/status.h"

namespace baton::coordinator {

// One stage and the worker (index in the registry) that has it.
struct Placement {
  size_t worker = 0;
  engine::LayerRange layers;
  bool operator==(const Placement&) const = default;
};

// The model's side of recovery. Called on recovery's threads.
class Placer {
 public:
  virtual ~Placer() = default;
  // Divides all layers among these workers, in pipeline order; it may leave some out.
  virtual absl::StatusOr<std::vector<Placement>> Place(const WorkerRegistry& registry,
                                                       const std::vector<size_t>& workers) = 0;
  // Whether a worker has room for these layers.
  virtual absl::Status CheckFits(const WorkerRegistry& registry, const Placement& placement) = 0;
  virtual std::string fingerprint() const = 0;  // of the model
  virtual int32_t num_layers() const = 0;       // of the model
  // Without epoch and next_address.
  virtual absl::StatusOr<wire::LoadRequest> MakeLoadRequest(engine::LayerRange layers) = 0;
  // Whether a worker's speed is worth a second of measuring.
  virtual bool WantsMeasure(const WorkerRegistry& /*registry*/, size_t /*worker*/) { return false; }
  // Notes what loading has measured. True: Place may now find a better division.
  virtual bool Learn(WorkerRegistry* /*registry*/, const std::vector<Placement>& /*loaded*/) {
    return false;
  }
};

enum class ClusterState : uint8_t { kLoading, kReady, kRecovering, kFailed };
std::string_view ClusterStateName(ClusterState state);  // "loading", …

struct RecoveryOptions {
  absl::Duration ask_timeout = absl::Seconds(2);
  absl::Duration attach_timeout = absl::Seconds(10);
  absl::Duration wait_for_same = absl::Milliseconds(1500);  // before a spare takes over
  absl::Duration wait_for_spare = absl::Seconds(5);         // before the survivors share
  absl::Duration heartbeat = absl::Milliseconds(500);
  absl::Duration look_for_idle = absl::Seconds(2);      // between looks who has come, or gone
  absl::Duration ask_idle = absl::Milliseconds(250);    // how long such a look may take
  absl::Duration wait_for_pause = absl::Seconds(15);    // with taking one back, while there is work
  absl::Duration first_delay = absl::Milliseconds(50);  // between tries; doubles up to
  absl::Duration longest_delay = absl::Seconds(1);
  Limits limits;
};

class Recovery {
 public:
  struct Snapshot {
    ClusterState state = ClusterState::kLoading;
    uint64_t epoch = 0;
    std::string reason;  // why it is not ready
    std::vector<Placement> placement;
    uint64_t losses = 0;
    absl::Duration load_time;  // of the first start
    absl::Duration last_pause;
  };

  Recovery(const RecoveryOptions& options, WorkerRegistry* registry, Pipeline* pipeline,
           Placer* placer);
  ~Recovery();  // stops
  Recovery(const Recovery&) = delete;
  Recovery& operator=(const Recovery&) = delete;

  void Start();
  void Stop();
  // Until the pipeline is up for the first time or cannot come up.
  absl::Status WaitReady(absl::Time deadline);
  Snapshot snapshot() const;

  // Any thread; never blocks.
  void OnPipelineFailure(const Pipeline::Failure& failure);
  // Moves the worker's layers elsewhere; requests go on. Blocks until done.
  absl::Status Drain(std::string_view name, absl::Time deadline);

  // Another list of workers, or other wishes for them.
  struct Change {
    std::function<absl::Status()> apply;  // to registry and placer, on recovery's threads
    std::function<void()> undo;           // of what was applied
    bool replan = false;                  // for all workers, or only where one with layers leaves
  };
  // Workers that are new join, those that leave give up their layers first, and layers move where
  // the placer finds a better division; requests go on. Blocks until that is done, but not for
  // those that do not answer yet: they are taken in when they do. An error but DeadlineExceeded: it
  // cannot be done, and nothing has changed.
  absl::Status Rearrange(Change change, absl::Time deadline);

 private:
  struct Loss {
    std::optional<size_t> worker = std::nullopt;  // not known whose fault it was
    std::string why;
    bool clean = true;  // somebody went; nobody has computed what is wrong
  };

  // A change on its way.
  struct Ask {
    Change change;
    bool done = false;    // guarded by mutex_
    absl::Status status;  // guarded by mutex_
  };
  struct Workers {
    std::vector<size_t> usable = {}, regular = {};  // alive and not draining; `regular`: no spares
    bool whole = false;                             // all regular ones of the topology are usable
  };
  // A placement that its newcomers get ready for.
  struct Move {
    std::vector<Placement> placement;
    bool hurry = false;    // does not wait until nobody wants an answer
    bool settles = false;  // it is what the topology wants
    std::atomic<bool> stop = false;
    std::atomic<bool> ready = false;
    absl::Status status;   // once ready
    bool learned = false;  // once ready: measures of newcomers
    std::thread thread = {};
  };

  void Run();
  void BringUp();
  void NoteFlap();
  uint64_t LastStageSteps() const;
  absl::Status TryOnce(absl::Duration elapsed);
  void RaiseEpoch();
  absl::StatusOr<std::vector<Placement>> Decide(absl::Duration elapsed);
  absl::StatusOr<wire::LoadRequest> RequestFor(const Placement& stage) const;
  Workers FindWorkers() const;
  std::vector<Placement> HeldPlacement(const std::vector<size_t>& usable) const;
  absl::StatusOr<std::vector<Placement>> Substitute(const std::vector<size_t>& usable);
  absl::Status MissingWorkers(const std::vector<size_t>& usable) const;
  absl::Status LoadAll(const std::vector<Placement>& placement);
  absl::Status Load(const std::vector<Placement>& placement, size_t stage, wire::Measure measure,
                    const std::atomic<bool>& stop);
  void Measure(const std::vector<Placement>& placement);
  absl::Status AttachAll(const std::vector<Placement>& placement, uint64_t epoch);
  int32_t TakeKv(const std::vector<Placement>& placement);
  void OnEvent(size_t worker, int32_t stage, uint64_t epoch, wire::WorkerEvent event);
  void Watch();
  void LookForIdle(absl::Time now);
  void AskIdle(absl::Duration timeout);
  void TakeAsk(bool serving);
  absl::Status Follow(const Change& change);
  void UndoAsk(const absl::Status& status);
  void FinishAsk(const absl::Status& status);
  void BeginMove(std::vector<Placement> placement, bool hurry, bool settles);
  void Prepare(Move* move);
  void EndMove();
  bool MovesNow(absl::Time now);
  void ReportLoss(uint64_t epoch, Loss loss);
  bool Wait(absl::Duration duration);  // false: stopping
  void SetState(ClusterState state, std::string_view reason);
  void SetReady(absl::Duration took);
  bool GivesUp(const absl::Status& status, absl::Duration elapsed) const;

  const RecoveryOptions options_;
  WorkerRegistry* const registry_;
  Pipeline* const pipeline_;
  Placer* const placer_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Snapshot snapshot_;           // guarded by mutex_
  std::optional<Loss> loss_;    // guarded by mutex_
  bool doubtful_ = false;       // guarded by mutex_; some stage's work was wrong
  std::shared_ptr<Ask> ask_;    // guarded by mutex_; nobody has looked at it yet
  absl::Status start_failure_;  // guarded by mutex_
  bool ever_ready_ = false;     // guarded by mutex_
  std::atomic<bool> stopping_ = false;

  // Recovery's thread only.
  std::vector<Placement> placement_;
  std::map<size_t, uint64_t> kv_ids_;  // of the workers that the pipeline last ran on
  bool placed_ = false;                // by this coordinator, not one before it
  absl::Time trouble_since_;  // the first loss since the pipeline last worked; loading not counted
  bool loading_excused_ = false;  // since then
  absl::Time resumed_at_;
  uint64_t steps_at_resume_ = 0;                     // of the last stage
  int32_t flaps_ = 0;                                // losses without a step between them
  bool degraded_ = false;                            // placement_ is not what the topology wants
  absl::Time next_look_;                             // for workers that are lost or drained
  absl::Time whole_since_ = absl::InfiniteFuture();  // degraded, but all are there
  bool degraded_before_ = false;                     // asked_
  std::unique_ptr<Move> move_;
  std::vector<Placement> next_;  // to be taken at the next try
  bool next_settles_ = false;    // it is what the topology wants
  std::shared_ptr<Ask> asked_;   // that move_ or those after it answer
  std::thread thread_;
};

}  // namespace baton::coordinator
