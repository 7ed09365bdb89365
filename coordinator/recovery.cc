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
    const absl::Status status = TryOnce(SteadyNow() - begin);
    if (status.ok()) {
      resumed_at_ = SteadyNow();
      steps_at_resume_ = LastStageSteps();
      const absl::Duration took = SteadyNow() - begin;
      const std::lock_guard lock(mutex_);
      if (ever_ready_)
        spdlog::info("ready again after {:.1f} s, epoch {}", absl::ToDoubleSeconds(took),
                     snapshot_.epoch);
      snapshot_.state = ClusterState::kReady;
      snapshot_.reason.clear();
      (ever_ready_ ? snapshot_.last_pause : snapshot_.load_time) = took;
      ever_ready_ = true;
      changed_.notify_all();
      return;
    }
    registry_->DetachAll();
    const bool gives_up = !gave_up && GivesUp(status, SteadyNow() - trouble_since_);
    gave_up = gave_up || gives_up;
    if (gives_up) {
      const std::lock_guard lock(mutex_);
      const absl::Status failure =
          absl::IsDeadlineExceeded(status) ? Unavailable("{}", Message(status)) : status;
      if (!ever_ready_) start_failure_ = failure;  // DeadlineExceeded would be WaitReady's own
    }
    const bool first = snapshot().losses == 0;
    SetState(gave_up ? ClusterState::kFailed
             : first ? ClusterState::kLoading
                     : ClusterState::kRecovering,
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
  for (size_t i = 0; i < registry_->size(); ++i) {
    newest = std::max(newest, registry_->info(i).epoch);
  }
  const std::lock_guard lock(mutex_);
  snapshot_.epoch = std::max(snapshot_.epoch, newest);
}

absl::Status Recovery::TryOnce(absl::Duration elapsed) {
  registry_->Refresh(options_.ask_timeout);
  RaiseEpoch();
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
  pipeline_->Resume(epoch, static_cast<int32_t>(placement.size()),
                    registry_->link(placement[0].worker));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Placement>> Recovery::Decide(absl::Duration elapsed) {
  std::vector<size_t> usable, regular;
  for (size_t i = 0; i < registry_->size(); ++i) {
    if (!registry_->alive(i) || registry_->draining(i)) continue;
    usable.push_back(i);
    if (!registry_->is_spare(i)) regular.push_back(i);
  }
  if (placement_.empty()) {
    if (!placed_) {
      if (std::vector<Placement> held = HeldPlacement(usable); !held.empty()) return held;
    }
    const absl::Status missing = MissingWorkers(usable);
    if (!missing.ok()) {
      // At the first start all are waited for; later, one that came back and went again is not.
      if (degraded_ && elapsed >= options_.wait_for_spare)
        return placer_->Place(*registry_, usable);
      return missing;
    }
    degraded_ = false;
    placed_ = true;
    return placer_->Place(*registry_, regular);
  }
  bool complete = true, draining = false;
  for (const Placement& stage : placement_) {
    complete = complete && Contains(usable, stage.worker);
    draining = draining || registry_->draining(stage.worker);
  }
  if (complete) return placement_;
  const absl::Status missing = MissingWorkers(usable);
  if (draining || elapsed >= options_.wait_for_same) {
    if (auto placement = Substitute(usable); placement.ok()) return placement;
  }
  if (draining || elapsed >= options_.wait_for_spare) {
    auto placement = placer_->Place(*registry_, usable);
    degraded_ = placement.ok();
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
  for (size_t i = 0; i < registry_->size(); ++i) {
    const bool wanted =
        placement_.empty() ? !registry_->is_spare(i)
                           : std::any_of(placement_.begin(), placement_.end(),
                                         [i](const Placement& stage) { return stage.worker == i; });
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
                            wire::Measure measure) {
  const Placement& here = placement[stage];
  ASSIGN_OR_RETURN(wire::LoadRequest request, RequestFor(here));
  request.epoch = snapshot().epoch + 1;
  request.measure = measure;
  if (stage + 1 < placement.size())
    request.next_address = registry_->entry(placement[stage + 1].worker).address;
  return registry_->Load(here.worker, request, options_.limits.load, stopping_);
}

absl::Status Recovery::LoadAll(const std::vector<Placement>& placement) {
  const absl::Time begin = SteadyNow();
  std::vector<absl::Status> statuses(placement.size());
  InParallel(placement.size(),
             [&](size_t i) { statuses[i] = Load(placement, i, wire::Measure::kNone); });
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
      Load(placement, stage, wire::Measure::kAlone).IgnoreError();
  });
  InParallel(placement.size(),
             [&](size_t i) { Load(placement, i, wire::Measure::kTogether).IgnoreError(); });
}

absl::Status Recovery::AttachAll(const std::vector<Placement>& placement, uint64_t epoch) {
  std::vector<absl::Status> statuses(placement.size());
  InParallel(placement.size(), [&](size_t i) {
    const size_t worker = placement[i].worker;
    const wire::WorkerClient::AttachOptions attach = {
        .fingerprint = placer_->fingerprint(), .epoch = epoch, .lease = options_.limits.lease};
    const auto on_event = [this, worker, stage = static_cast<int32_t>(i),
                           epoch](wire::WorkerEvent event) {
      OnEvent(worker, stage, epoch, std::move(event));
    };
    statuses[i] = registry_->Attach(worker, attach, on_event, options_.attach_timeout);
  });
  return FirstError(statuses);
}

void Recovery::OnEvent(size_t worker, int32_t stage, uint64_t epoch, wire::WorkerEvent event) {
  if (const auto* heartbeat = std::get_if<wire::WorkerHeartbeat>(&event)) {
    registry_->OnHeartbeat(worker, *heartbeat);
    pipeline_->OnWorkerEvent(stage, std::move(event));
  } else if (const auto* closed = std::get_if<wire::LinkClosed>(&event)) {
    ReportLoss(epoch, {worker, std::string(Message(closed->status))});
  } else {
    pipeline_->OnWorkerEvent(stage, std::move(event));
  }
}

void Recovery::OnPipelineFailure(const Pipeline::Failure& failure) {
  Loss loss{.why = std::string(Message(failure.status))};
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
    if (!loss_ || !loss_->worker) loss_ = std::move(loss);
  }
  changed_.notify_all();
}

// Until a worker is lost.
void Recovery::Watch() {
  while (!stopping_) {
    std::optional<Loss> loss;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, absl::ToChronoNanoseconds(options_.heartbeat),
                        [this] { return stopping_ || loss_.has_value(); });
      loss = loss_;
    }
    if (!loss) {
      const std::vector<size_t> silent = registry_->Beat(SteadyNow(), options_.limits.lease);
      if (silent.empty()) LookForIdle(SteadyNow());
      if (silent.empty() && WholeAgain(SteadyNow())) {
        placement_.clear();  // all anew
        SetState(ClusterState::kRecovering, "a lost worker is back");
        return;
      }
      if (silent.empty()) continue;
      loss = Loss{silent[0],
                  fmt::format("silent for {}", absl::FormatDuration(options_.limits.lease))};
    }
    pipeline_->Pause();
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

// Workers that were lost or drained, and run again, stand ready to take over.
void Recovery::LookForIdle(absl::Time now) {
  if (now < next_look_) return;
  next_look_ = now + options_.look_for_lost;
  registry_->RefreshLost(options_.ask_idle);
}

// The workers of the topology are all back after survivors had to share. Taking them back costs a
// pause, so it waits, but not for ever, until nobody wants an answer.
bool Recovery::WholeAgain(absl::Time now) {
  if (!degraded_) return false;
  for (size_t i = 0; i < registry_->size(); ++i) {
    if (registry_->is_spare(i) || (registry_->alive(i) && !registry_->draining(i))) continue;
    whole_since_ = absl::InfiniteFuture();
    return false;
  }
  whole_since_ = std::min(whole_since_, now);
  const SchedulerStats stats = pipeline_->stats().scheduler;
  const bool busy = stats.running + stats.waiting > 0;
  if (busy && now - whole_since_ < options_.wait_for_pause) return false;
  whole_since_ = absl::InfiniteFuture();
  return true;
}

absl::Status Recovery::Drain(std::string_view name, absl::Time deadline) {
  const size_t worker = registry_->Find(name);
  if (worker == registry_->size()) return NotFound("worker {}: there is none of that name", name);
  registry_->SetDraining(worker, true);
  std::unique_lock lock(mutex_);
  const auto has_it = [&] {
    return std::any_of(snapshot_.placement.begin(), snapshot_.placement.end(),
                       [worker](const Placement& stage) { return stage.worker == worker; });
  };
  if (!has_it()) return absl::OkStatus();
  if (!loss_) loss_ = Loss{.why = fmt::format("worker {} is being drained", name)};
  changed_.notify_all();
  const bool done = changed_.wait_until(lock, ToSteadyClock(deadline), [&] {
    return stopping_ || (snapshot_.state == ClusterState::kReady && !has_it());
  });
  if (done && !stopping_) return absl::OkStatus();
  lock.unlock();
  registry_->SetDraining(worker, false);
  return FailedPrecondition("worker {}: cannot be drained: {}", name, snapshot().reason);
}

}  // namespace baton::coordinator
