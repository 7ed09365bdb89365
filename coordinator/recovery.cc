#include "coordinator/recovery.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/base/steady_time.h"
#include "proto/spec_hash.h"

namespace baton::coordinator {

std::string_view ClusterStateName(ClusterState state) {
  static constexpr std::string_view kNames[] = {"loading", "ready", "recovering", "failed"};
  return kNames[static_cast<size_t>(state)];
}

namespace {

constexpr absl::Duration kFlap = absl::Seconds(5);  // a pipeline that fell so soon after it came up

bool Contains(const std::vector<size_t>& workers, size_t worker) {
  return std::find(workers.begin(), workers.end(), worker) != workers.end();
}

std::vector<size_t> WorkersOf(const std::vector<Placement>& placement) {
  std::vector<size_t> workers;
  for (const Placement& stage : placement) workers.push_back(stage.worker);
  return workers;
}

// Whether all that have a stage are among these.
bool AllAmong(const std::vector<Placement>& placement, const std::vector<size_t>& workers) {
  return std::ranges::all_of(
      placement, [&](const Placement& stage) { return Contains(workers, stage.worker); });
}

absl::Status FirstError(const std::vector<absl::Status>& statuses) {
  // A worker that refuses says more than one that is gone.
  const auto refused = std::find_if(statuses.begin(), statuses.end(), [](const absl::Status& s) {
    return !s.ok() && !absl::IsUnavailable(s);
  });
  if (refused != statuses.end()) return *refused;
  const auto failed =
      std::find_if(statuses.begin(), statuses.end(), [](const auto& s) { return !s.ok(); });
  return failed != statuses.end() ? *failed : absl::OkStatus();
}

// An end of processes and links, not of files that have changed or of numbers that are none.
bool IsClean(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status) || absl::IsAborted(status);
}

// How many of these layers don't go to the worker's device.
int32_t HostLayers(const WorkerEntry& entry, engine::LayerRange layers) {
  if (!entry.gpu_layers) return 0;
  if (*entry.gpu_layers == WorkerEntry::kGpuLayersThatFit) return engine::StageSpec::kAsFewAsFit;
  return std::max(0, layers.size() - *entry.gpu_layers);
}

}  // namespace

Recovery::Recovery(const RecoveryOptions& options, WorkerRegistry* registry, Pipeline* pipeline,
                   Placer* placer)
    : options_(options), registry_(registry), pipeline_(pipeline), placer_(placer) {}

Recovery::~Recovery() { Stop(); }

void Recovery::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Recovery::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status Recovery::WaitReady(absl::Time deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, ToSteadyClock(deadline),
                      [this] { return stopping_ || ever_ready_ || !start_failure_.ok(); });
  if (ever_ready_) return absl::OkStatus();
  if (!start_failure_.ok()) return start_failure_;
  if (stopping_) return Cancelled("start: interrupted");
  return DeadlineExceeded("start: not ready in time: {}", snapshot_.reason);
}

Recovery::Snapshot Recovery::snapshot() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

void Recovery::SetState(ClusterState state, std::string_view reason) {
  {
    const std::lock_guard lock(mutex_);
    snapshot_.state = state;
    snapshot_.reason = reason;
  }
  changed_.notify_all();
}

void Recovery::SetReady(absl::Duration took) {
  {
    const std::lock_guard lock(mutex_);
    if (ever_ready_)
      spdlog::info("ready again after {:.1f} s, epoch {}", absl::ToDoubleSeconds(took),
                   snapshot_.epoch);
    snapshot_.state = ClusterState::kReady;
    snapshot_.reason.clear();
    (ever_ready_ ? snapshot_.last_pause : snapshot_.load_time) = took;
    ever_ready_ = true;
  }
  changed_.notify_all();
}

bool Recovery::Wait(absl::Duration duration) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, absl::ToChronoNanoseconds(duration), [this] { return stopping_.load(); });
  return !stopping_;
}

void Recovery::Run() {
  trouble_since_ = SteadyNow();
  while (!stopping_) {
    BringUp();
    if (!stopping_) Watch();
    pipeline_->Pause();
    registry_->DetachAll();
    NoteFlap();
  }
  EndMove();
}

uint64_t Recovery::LastStageSteps() const {
  const PipelineStats stats = pipeline_->stats();
  return stats.stages.empty() ? 0 : stats.stages.back().steps;
}

// Coming up is not enough: where nothing gets through, requests must not wait for ever.
void Recovery::NoteFlap() {
  if (LastStageSteps() == steps_at_resume_ && SteadyNow() - resumed_at_ < kFlap) {
    ++flaps_;
  } else {
    flaps_ = 0;
    trouble_since_ = SteadyNow();
    loading_excused_ = false;
  }
}

void Recovery::BringUp() {
  const absl::Time begin = SteadyNow();
  absl::Duration delay = options_.first_delay;
  bool gave_up = false;
  if (flaps_ > 0) {
    const absl::Status status = Unavailable("{}", snapshot().reason);
    if (GivesUp(status, begin - trouble_since_)) pipeline_->Refuse(status);
    if (!Wait(std::min(delay * (1 << std::min(flaps_, 10)), options_.longest_delay))) return;
  }
  while (!stopping_) {
    TakeAsk(/*serving=*/false);
    const absl::Status status = TryOnce(SteadyNow() - begin);
    if (status.ok()) {
      resumed_at_ = SteadyNow();
      steps_at_resume_ = LastStageSteps();
      SetReady(SteadyNow() - begin);
      if (asked_ != nullptr && !(degraded_ && asked_->change.replan)) FinishAsk(absl::OkStatus());
      return;
    }
    registry_->DetachAll();
    const bool gives_up = !gave_up && GivesUp(status, SteadyNow() - trouble_since_);
    gave_up = gave_up || gives_up;
    bool ready_before = false;
    {
      const std::lock_guard lock(mutex_);
      ready_before = ever_ready_;
    }
    if (gives_up) {
      const std::lock_guard lock(mutex_);
      const absl::Status failure =
          absl::IsDeadlineExceeded(status) ? Unavailable("{}", Message(status)) : status;
      if (!ever_ready_) start_failure_ = failure;  // DeadlineExceeded would be WaitReady's own
    }
    SetState(gave_up        ? ClusterState::kFailed
             : ready_before ? ClusterState::kRecovering
                            : ClusterState::kLoading,
             Message(status));
    // Whoever is refused and asks for the state finds the failed one.
    if (gives_up) {
      spdlog::warn("requests are refused until it is better: {}", Message(status));
      pipeline_->Refuse(Unavailable("{}", Message(status)));
    }
    if (!Wait(delay)) return;
    delay = std::min(2 * delay, options_.longest_delay);
  }
}

// At the first start what a worker refuses will not get better by itself; later it may, as when a
// file is being restored.
bool Recovery::GivesUp(const absl::Status& status, absl::Duration elapsed) const {
  const std::lock_guard lock(mutex_);
  if (ever_ready_) return elapsed >= options_.limits.recovery;
  return !absl::IsUnavailable(status) || elapsed >= options_.limits.start;
}

// Above the epochs of coordinators before this one: workers know their late work by that.
void Recovery::RaiseEpoch() {
  uint64_t newest = 0;
  for (const size_t worker : registry_->current()) {
    newest = std::max(newest, registry_->info(worker).epoch);
  }
  const std::lock_guard lock(mutex_);
  snapshot_.epoch = std::max(snapshot_.epoch, newest);
}

absl::Status Recovery::TryOnce(absl::Duration elapsed) {
  registry_->Refresh(options_.ask_timeout);
  RaiseEpoch();
  const std::vector<Placement> next = next_;
  ASSIGN_OR_RETURN(std::vector<Placement> placement, Decide(elapsed));
  RETURN_IF_ERROR(LoadAll(placement));
  // Later, and where an earlier coordinator did, nobody should wait for measures.
  const bool first_start = resumed_at_ == absl::Time() && placed_;
  if (first_start && std::ranges::any_of(placement, [this](const Placement& stage) {
        return placer_->WantsMeasure(*registry_, stage.worker);
      })) {
    Measure(placement);
    if (placer_->Learn(registry_, placement)) {
      ASSIGN_OR_RETURN(placement, Decide(elapsed));
      RETURN_IF_ERROR(LoadAll(placement));
    }
  }
  uint64_t epoch = 0;
  {
    const std::lock_guard lock(mutex_);
    epoch = ++snapshot_.epoch;
    snapshot_.placement = placement;
    loss_.reset();
  }
  RETURN_IF_ERROR(AttachAll(placement, epoch));
  placement_ = placement;
  if (placement == next) degraded_ = !next_settles_;
  registry_->NotePlaced(WorkersOf(placement));
  pipeline_->Resume(epoch, static_cast<int32_t>(placement.size()), TakeKv(placement),
                    registry_->link(placement[0].worker));
  return absl::OkStatus();
}

Recovery::Workers Recovery::FindWorkers() const {
  Workers workers{.whole = true};
  for (const size_t worker : registry_->current()) {
    const bool usable = registry_->alive(worker) && !registry_->draining(worker);
    const bool regular = !registry_->is_spare(worker);
    if (usable) workers.usable.push_back(worker);
    if (usable && regular) workers.regular.push_back(worker);
    if (!usable && regular && registry_->listed(worker)) workers.whole = false;
  }
  return workers;
}

absl::StatusOr<std::vector<Placement>> Recovery::Decide(absl::Duration elapsed) {
  const auto [usable, regular, whole] = FindWorkers();
  if (const std::vector<Placement> next = std::exchange(next_, {});
      !next.empty() && AllAmong(next, usable)) {
    return next;
  }
  if (placement_.empty()) {
    if (!placed_) {
      if (std::vector<Placement> held = HeldPlacement(usable); !held.empty()) return held;
    }
    RETURN_IF_ERROR(MissingWorkers(usable));  // at the first start all are waited for
    placed_ = true;
    return placer_->Place(*registry_, regular);
  }
  if (AllAmong(placement_, usable)) return placement_;
  const bool draining = std::ranges::any_of(
      placement_, [this](const Placement& stage) { return registry_->draining(stage.worker); });
  const absl::Status missing = MissingWorkers(usable);
  if (draining || elapsed >= options_.wait_for_same) {
    if (auto placement = Substitute(usable); placement.ok()) return placement;
  }
  if (draining || elapsed >= options_.wait_for_spare) {
    auto placement = placer_->Place(*registry_, usable);
    degraded_ = degraded_ || placement.ok();
    if (placement.ok()) return placement;
    if (missing.ok()) return placement.status();
    return Prefixed(missing,
                    fmt::format("{}; the others cannot do it", Message(placement.status())));
  }
  return missing.ok() ? Unavailable("worker: drained") : missing;
}

// Workers that hold the whole model for a coordinator of this topology, as this one loads it: after
// its restart nothing is read again, whatever it would plan with today's measures. Else none.
std::vector<Placement> Recovery::HeldPlacement(const std::vector<size_t>& usable) const {
  std::vector<Placement> held;
  for (const size_t worker : usable) {
    const wire::WorkerInfo info = registry_->info(worker);
    if (!info.loaded || info.stage.topology_hash.empty()) continue;
    const auto request = RequestFor({worker, info.stage.layers});
    if (request.ok() && request->topology_hash == info.stage.topology_hash &&
        wire::SpecHash(request->spec) == info.stage.spec_hash) {
      held.push_back({worker, info.stage.layers});
    }
  }
  std::ranges::sort(held, {}, [](const Placement& stage) { return stage.layers.begin; });
  int32_t layers = 0;
  for (const Placement& stage : held) {
    if (stage.layers.begin != layers) return {};
    layers = stage.layers.end;
  }
  return layers == placer_->num_layers() ? held : std::vector<Placement>{};
}

// The same ranges, with idle workers in place of lost ones.
absl::StatusOr<std::vector<Placement>> Recovery::Substitute(const std::vector<size_t>& usable) {
  std::vector<Placement> placement = placement_;
  std::vector<size_t> idle = usable;
  for (const Placement& stage : placement_) std::erase(idle, stage.worker);
  for (Placement& stage : placement) {
    if (Contains(usable, stage.worker)) continue;
    const auto fits = [&](size_t worker) {
      return placer_->CheckFits(*registry_, {worker, stage.layers}).ok();
    };
    const auto spare = std::find_if(idle.begin(), idle.end(), fits);
    if (spare == idle.end()) return Unavailable("no spare has room for the layers");
    stage.worker = *spare;
    idle.erase(spare);
  }
  return placement;
}

// Those that the placement (at first: the topology) wants.
absl::Status Recovery::MissingWorkers(const std::vector<size_t>& usable) const {
  std::string missing;
  for (const size_t i : registry_->current()) {
    const bool wanted =
        placement_.empty() ? !registry_->is_spare(i) : Contains(WorkersOf(placement_), i);
    if (!wanted || Contains(usable, i) || registry_->draining(i)) continue;
    missing +=
        fmt::format("{}worker {} at {}: {}", missing.empty() ? "" : "; ", registry_->entry(i).name,
                    registry_->entry(i).address, registry_->reason(i));
  }
  return missing.empty() ? absl::OkStatus() : Unavailable("{}", missing);
}

absl::StatusOr<wire::LoadRequest> Recovery::RequestFor(const Placement& stage) const {
  ASSIGN_OR_RETURN(wire::LoadRequest request, placer_->MakeLoadRequest(stage.layers));
  request.spec.host_layers = HostLayers(registry_->entry(stage.worker), stage.layers);
  return request;
}

absl::Status Recovery::Load(const std::vector<Placement>& placement, size_t stage,
                            wire::Measure measure, const std::atomic<bool>& stop) {
  const Placement& here = placement[stage];
  ASSIGN_OR_RETURN(wire::LoadRequest request, RequestFor(here));
  request.epoch = snapshot().epoch + 1;
  request.measure = measure;
  if (stage + 1 < placement.size())
    request.next_address = registry_->entry(placement[stage + 1].worker).address;
  return registry_->Load(here.worker, request, options_.limits.load, stop);
}

absl::Status Recovery::LoadAll(const std::vector<Placement>& placement) {
  const absl::Time begin = SteadyNow();
  std::vector<absl::Status> statuses(placement.size());
  InParallel(placement.size(),
             [&](size_t i) { statuses[i] = Load(placement, i, wire::Measure::kNone, stopping_); });
  // All were there, and loading has a limit of its own: who went meanwhile is waited for as if it
  // had gone now. Once, or one that dies of loading would be waited for for ever.
  if (!std::exchange(loading_excused_, true)) trouble_since_ += SteadyNow() - begin;
  return FirstError(statuses);
}

// Workers of one host share its memory and its cores, so what one can do depends on whether the
// others work: first each alone, as when a single stream goes through the stages, then all at the
// same time, as when the pipeline is full.
void Recovery::Measure(const std::vector<Placement>& placement) {
  std::map<std::string, std::vector<size_t>> stages_of_host;
  for (size_t i = 0; i < placement.size(); ++i) {
    const std::string host = registry_->info(placement[i].worker).host_id;
    stages_of_host[host.empty() ? fmt::format("worker {}", i) : host].push_back(i);
  }
  std::vector<std::vector<size_t>> hosts;
  for (auto& [host, stages] : stages_of_host) hosts.push_back(std::move(stages));
  // What could not be measured stays unknown; what is wrong with a worker is said when it is used.
  InParallel(hosts.size(), [&](size_t host) {
    for (const size_t stage : hosts[host])
      Load(placement, stage, wire::Measure::kAlone, stopping_).IgnoreError();
  });
  InParallel(placement.size(), [&](size_t i) {
    Load(placement, i, wire::Measure::kTogether, stopping_).IgnoreError();
  });
}

absl::Status Recovery::AttachAll(const std::vector<Placement>& placement, uint64_t epoch) {
  std::vector<absl::Status> statuses(placement.size());
  InParallel(placement.size(), [&](size_t i) {
    const size_t worker = placement[i].worker;
    const auto known = kv_ids_.find(worker);
    const wire::WorkerClient::AttachOptions attach = {
        .fingerprint = placer_->fingerprint(),
        .epoch = epoch,
        .lease = options_.limits.lease,
        .kv_id = known != kv_ids_.end() ? known->second : 0};
    const auto on_event = [this, worker, stage = static_cast<int32_t>(i),
                           epoch](wire::WorkerEvent event) {
      OnEvent(worker, stage, epoch, std::move(event));
    };
    statuses[i] = registry_->Attach(worker, attach, on_event, options_.attach_timeout);
  });
  return FirstError(statuses);
}

// The first layer from which on all KV is where the pipeline left it: a worker that has gone on
// with the same stage, and with nobody else's work, still names its cache as it did. (One that had
// a stage before the last pipeline is not among kv_ids_, whatever it kept.)
int32_t Recovery::TakeKv(const std::vector<Placement>& placement) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(doubtful_, false)) kv_ids_.clear();
  }
  int32_t lost_layers = 0;
  std::map<size_t, uint64_t> taken;
  for (const Placement& stage : placement) {
    const uint64_t kv_id = registry_->link(stage.worker)->kv_id();
    const auto known = kv_ids_.find(stage.worker);
    if (kv_id == 0 || known == kv_ids_.end() || known->second != kv_id)
      lost_layers = stage.layers.end;
    taken[stage.worker] = kv_id;
  }
  kv_ids_ = std::move(taken);
  return lost_layers == placer_->num_layers() ? Scheduler::kAllLayers : lost_layers;
}

void Recovery::OnEvent(size_t worker, int32_t stage, uint64_t epoch, wire::WorkerEvent event) {
  if (const auto* heartbeat = std::get_if<wire::WorkerHeartbeat>(&event)) {
    registry_->OnHeartbeat(worker, *heartbeat);
    pipeline_->OnWorkerEvent(stage, std::move(event));
  } else if (const auto* closed = std::get_if<wire::LinkClosed>(&event)) {
    ReportLoss(epoch, {worker, std::string(Message(closed->status)), IsClean(closed->status)});
  } else {
    pipeline_->OnWorkerEvent(stage, std::move(event));
  }
}

void Recovery::OnPipelineFailure(const Pipeline::Failure& failure) {
  Loss loss{.why = std::string(Message(failure.status)), .clean = IsClean(failure.status)};
  {
    const std::lock_guard lock(mutex_);
    const bool known =
        failure.stage >= 0 && failure.stage < static_cast<int32_t>(snapshot_.placement.size());
    // A stage that cannot hand on is not the lost one: the link of that one will say so.
    if (known && absl::IsDeadlineExceeded(failure.status)) {
      loss.worker = snapshot_.placement[failure.stage].worker;
    }
  }
  ReportLoss(failure.epoch, std::move(loss));
}

void Recovery::ReportLoss(uint64_t epoch, Loss loss) {
  {
    const std::lock_guard lock(mutex_);
    if (epoch != snapshot_.epoch) return;  // of a pipeline that is gone already
    doubtful_ = doubtful_ || !loss.clean;
    if (!loss_ || !loss_->worker) loss_ = std::move(loss);
  }
  changed_.notify_all();
}

// Until a worker is lost or layers are to move.
void Recovery::Watch() {
  while (!stopping_) {
    std::optional<Loss> loss;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, absl::ToChronoNanoseconds(options_.heartbeat), [this] {
        const bool asked = ask_ != nullptr && asked_ == nullptr;
        const bool moves = move_ != nullptr && move_->hurry && move_->ready;
        return stopping_ || loss_.has_value() || asked || moves;
      });
      loss = loss_;
    }
    if (!loss) {
      TakeAsk(/*serving=*/true);
      const std::vector<size_t> silent = registry_->Beat(SteadyNow(), options_.limits.lease);
      if (silent.empty()) LookForIdle(SteadyNow());
      if (silent.empty() && MovesNow(SteadyNow())) {
        SetState(ClusterState::kRecovering, "layers move");
        return;
      }
      if (silent.empty()) continue;
      loss = Loss{silent[0],
                  fmt::format("silent for {}", absl::FormatDuration(options_.limits.lease))};
    }
    pipeline_->Pause();
    EndMove();
    whole_since_ = absl::InfiniteFuture();
    if (loss->worker) {
      registry_->MarkLost(*loss->worker, loss->why);
      spdlog::warn("worker {} is lost: {}", registry_->entry(*loss->worker).name, loss->why);
    } else {
      spdlog::warn("the pipeline is built anew: {}", loss->why);
    }
    {
      const std::lock_guard lock(mutex_);
      ++snapshot_.losses;
    }
    SetState(ClusterState::kRecovering, loss->why);
    return;
  }
}

// Workers that were lost or drained, and run again, stand ready to take over; those that stand ready
// may go, too.
void Recovery::LookForIdle(absl::Time now) {
  if (now < next_look_) return;
  next_look_ = now + options_.look_for_idle;
  AskIdle(options_.ask_idle);
}

void Recovery::AskIdle(absl::Duration timeout) {
  for (const size_t worker : registry_->RefreshIdle(timeout, options_.limits.lease)) {
    spdlog::warn("worker {} is lost, no layers were on it: {}", registry_->entry(worker).name,
                 registry_->reason(worker));
  }
}

// ---- Layers move while nobody is lost

void Recovery::TakeAsk(bool serving) {
  std::shared_ptr<Ask> ask;
  {
    const std::lock_guard lock(mutex_);
    if (serving && asked_ != nullptr) return;
    ask = std::exchange(ask_, nullptr);
  }
  if (ask == nullptr) return;
  EndMove();  // nobody asked for that one
  if (asked_ != nullptr) FinishAsk(Cancelled("another change came before this one was done"));
  asked_ = std::move(ask);
  degraded_before_ = degraded_;
  if (const absl::Status status = asked_->change.apply(); !status.ok()) return FinishAsk(status);
  if (serving) {
    if (const absl::Status status = Follow(asked_->change); !status.ok()) return UndoAsk(status);
    if (move_ == nullptr) return FinishAsk(absl::OkStatus());
  }
  degraded_ = degraded_ || (asked_->change.replan && !placement_.empty());
}

// Begins the move that a change needs, if it needs one.
absl::Status Recovery::Follow(const Change& change) {
  AskIdle(options_.ask_timeout);
  const Workers workers = FindWorkers();
  std::vector<Placement> placement = placement_;
  bool settles = !degraded_ && !change.replan;
  if (change.replan && workers.whole) {
    ASSIGN_OR_RETURN(placement, placer_->Place(*registry_, workers.regular));
    settles = true;
  } else if (!AllAmong(placement_, workers.usable)) {
    if (auto same = Substitute(workers.usable); same.ok()) {
      placement = *std::move(same);
    } else {
      ASSIGN_OR_RETURN(placement, placer_->Place(*registry_, workers.usable));
      settles = false;
    }
  }
  if (placement != placement_) {
    BeginMove(std::move(placement), /*hurry=*/true, settles);
    return absl::OkStatus();
  }
  degraded_ = !settles;
  registry_->NotePlaced(WorkersOf(placement_));
  return absl::OkStatus();
}

void Recovery::UndoAsk(const absl::Status& status) {
  asked_->change.undo();
  degraded_ = degraded_before_;
  registry_->NotePlaced(WorkersOf(placement_));
  FinishAsk(status);
}

void Recovery::FinishAsk(const absl::Status& status) {
  if (asked_ == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    asked_->status = status;
    asked_->done = true;
  }
  asked_ = nullptr;
  changed_.notify_all();
}

void Recovery::BeginMove(std::vector<Placement> placement, bool hurry, bool settles) {
  move_ = std::make_unique<Move>();
  move_->placement = std::move(placement);
  move_->hurry = hurry;
  move_->settles = settles;
  move_->thread = std::thread([this, move = move_.get()] { Prepare(move); });
}

// On a thread of its own; recovery's thread leaves placer and placement alone meanwhile.
void Recovery::Prepare(Move* move) {
  std::vector<size_t> newcomers;  // stages
  for (size_t i = 0; i < move->placement.size(); ++i) {
    if (!Contains(WorkersOf(placement_), move->placement[i].worker)) newcomers.push_back(i);
  }
  std::vector<absl::Status> statuses(newcomers.size());
  InParallel(newcomers.size(), [&](size_t i) {
    statuses[i] = Load(move->placement, newcomers[i], wire::Measure::kNone, move->stop);
  });
  move->status = FirstError(statuses);
  for (const size_t stage : newcomers) {
    const Placement& newcomer = move->placement[stage];
    if (!move->settles || !move->status.ok() || move->stop) break;
    if (!placer_->WantsMeasure(*registry_, newcomer.worker)) continue;
    for (const wire::Measure measure : {wire::Measure::kAlone, wire::Measure::kTogether})
      Load(move->placement, stage, measure, move->stop).IgnoreError();
    move->learned = placer_->Learn(registry_, {newcomer}) || move->learned;
  }
  {
    const std::lock_guard lock(mutex_);
    move->ready = true;
  }
  changed_.notify_all();
}

void Recovery::EndMove() {
  if (move_ == nullptr) return;
  move_->stop = true;
  move_->thread.join();
  move_.reset();
}

// Whether to go over to next_. Moving costs a pause: unless somebody asked for it, it waits until
// nobody wants an answer, but not for ever.
bool Recovery::MovesNow(absl::Time now) {
  if (move_ == nullptr) {
    if (!degraded_) return false;
    const Workers workers = FindWorkers();
    if (!workers.whole) {
      whole_since_ = absl::InfiniteFuture();
      FinishAsk(absl::OkStatus());
      return false;
    }
    auto placement = placer_->Place(*registry_, workers.regular);
    if (placement.ok() && *placement != placement_) {
      BeginMove(*std::move(placement), /*hurry=*/asked_ != nullptr, /*settles=*/true);
      return false;
    }
    if (placement.ok()) {
      degraded_ = false;
      FinishAsk(absl::OkStatus());
    } else if (asked_ != nullptr) {
      UndoAsk(placement.status());
    }
    return false;
  }
  if (!move_->ready) return false;
  if (!move_->status.ok()) {
    const absl::Status status = move_->status;
    EndMove();
    if (asked_ == nullptr) {
      spdlog::warn("layers do not move: {}", Message(status));
      return false;
    }
    UndoAsk(status);
    return false;
  }
  if (move_->learned) {  // the division may be another now
    EndMove();
    degraded_ = true;
    return false;
  }
  whole_since_ = std::min(whole_since_, now);
  const SchedulerStats stats = pipeline_->stats().scheduler;
  const bool busy = stats.running + stats.waiting > 0;
  if (busy && !move_->hurry && now - whole_since_ < options_.wait_for_pause) return false;
  whole_since_ = absl::InfiniteFuture();
  next_ = move_->placement;
  next_settles_ = move_->settles;
  EndMove();
  return true;
}

absl::Status Recovery::Rearrange(Change change, absl::Time deadline) {
  const auto ask = std::make_shared<Ask>();
  ask->change = std::move(change);
  std::unique_lock lock(mutex_);
  if (ask_ != nullptr) return Unavailable("another change of the workers waits to be made");
  ask_ = ask;
  changed_.notify_all();
  changed_.wait_until(lock, ToSteadyClock(deadline), [&] { return stopping_ || ask->done; });
  if (ask->done) return ask->status;
  if (ask_ == ask) ask_ = nullptr;
  if (stopping_) return Cancelled("the coordinator is shutting down");
  return DeadlineExceeded("not done in time: {}",
                          snapshot_.reason.empty() ? "layers are being loaded" : snapshot_.reason);
}

absl::Status Recovery::Drain(std::string_view name, absl::Time deadline) {
  const auto worker = registry_->Find(name);
  if (!worker) return NotFound("worker {}: there is none of that name", name);
  const auto set = [registry = registry_, worker = *worker](bool draining) {
    registry->SetDraining(worker, draining);
  };
  const absl::Status status = Rearrange({.apply =
                                             [set] {
                                               set(true);
                                               return absl::OkStatus();
                                             },
                                         .undo = [set] { set(false); }},
                                        deadline);
  if (status.ok()) return absl::OkStatus();
  set(false);
  return FailedPrecondition("worker {}: cannot be drained: {}", name, Message(status));
}

}  // namespace baton::coordinator
