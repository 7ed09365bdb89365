#include "coordinator/metered_service.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>
#include <utility>

#include "engine/base/steady_time.h"
#include "proto/checksum.h"

namespace baton::coordinator {
namespace {

using prometheus::ClientMetric;
using prometheus::Counter;
using prometheus::Histogram;
using prometheus::MetricFamily;
using prometheus::MetricType;

const Histogram::BucketBoundaries kFirstTokenBuckets = {.005, .01, .025, .05, .1, .25, .5,
                                                        1,    2.5, 5,    10,  30, 60};
const Histogram::BucketBoundaries kNextTokenBuckets = {.001, .0025, .005, .01, .02, .03, .05,
                                                       .075, .1,    .25,  .5,  1,   5};

// A figure of the whole cluster, read from its status.
struct ClusterRow {
  const char* name;
  MetricType type;
  const char* help;
  double (*read)(const ClusterStatus&);
};
const ClusterRow kClusterRows[] = {
    {"baton_epoch", MetricType::Gauge, "Epoch of the pipeline; it rises with each recovery.",
     [](const ClusterStatus& s) { return double(s.state.epoch); }},
    {"baton_ready", MetricType::Gauge, "1 while the pipeline serves requests.",
     [](const ClusterStatus& s) { return s.state.state == ClusterState::kReady ? 1.0 : 0.0; }},
    {"baton_worker_losses_total", MetricType::Counter, "Workers that were lost.",
     [](const ClusterStatus& s) { return double(s.state.losses); }},
    {"baton_sequences_running", MetricType::Gauge, "Sequences that hold KV blocks.",
     [](const ClusterStatus& s) { return double(s.pipeline.scheduler.running); }},
    {"baton_sequences_waiting", MetricType::Gauge, "Sequences in the queue.",
     [](const ClusterStatus& s) { return double(s.pipeline.scheduler.waiting); }},
    {"baton_kv_blocks", MetricType::Gauge, "KV blocks of each stage.",
     [](const ClusterStatus& s) { return double(s.pipeline.scheduler.kv_blocks_total); }},
    {"baton_kv_blocks_used", MetricType::Gauge, "KV blocks that sequences hold.",
     [](const ClusterStatus& s) { return double(s.pipeline.scheduler.kv_blocks_used); }},
    {"baton_kv_blocks_cached", MetricType::Gauge, "KV blocks kept for prompts that begin alike.",
     [](const ClusterStatus& s) { return double(s.pipeline.scheduler.kv_blocks_cached); }},
    {"baton_prompt_tokens_total", MetricType::Counter, "Prompt tokens computed.",
     [](const ClusterStatus& s) { return double(s.pipeline.scheduler.prompt_tokens); }},
    {"baton_cached_tokens_total", MetricType::Counter, "Prompt tokens whose KV was there already.",
     [](const ClusterStatus& s) { return double(s.pipeline.scheduler.cached_tokens); }},
    {"baton_new_tokens_total", MetricType::Counter, "Tokens generated.",
     [](const ClusterStatus& s) { return double(s.pipeline.scheduler.new_tokens); }},
    {"baton_micro_batches_total", MetricType::Counter, "Micro-batches through the pipeline.",
     [](const ClusterStatus& s) { return double(s.pipeline.scheduler.micro_batches); }},
    {"baton_preemptions_total", MetricType::Counter,
     "Sequences that gave up their KV blocks to older ones.",
     [](const ClusterStatus& s) { return double(s.pipeline.scheduler.preemptions); }},
    {"baton_replays_total", MetricType::Counter,
     "Times that all sequences were replayed after a loss.",
     [](const ClusterStatus& s) { return double(s.pipeline.scheduler.restarts); }},
    {"baton_replayed_tokens_total", MetricType::Counter,
     "Tokens computed again by the stages that had lost them.",
     [](const ClusterStatus& s) { return double(s.pipeline.scheduler.replayed_tokens); }},
    {"baton_drafted_tokens_total", MetricType::Counter, "Tokens guessed by prompt lookup.",
     [](const ClusterStatus& s) { return double(s.pipeline.scheduler.drafted_tokens); }},
    {"baton_accepted_tokens_total", MetricType::Counter, "Guessed tokens that were right.",
     [](const ClusterStatus& s) { return double(s.pipeline.scheduler.accepted_tokens); }},
    {"baton_tokens_per_second", MetricType::Gauge, "New tokens, in the last seconds.",
     [](const ClusterStatus& s) { return s.pipeline.tokens_per_s; }},
    {"baton_trip_seconds", MetricType::Gauge,
     "Recent mean time of a micro-batch's way through all stages and back.",
     [](const ClusterStatus& s) { return s.pipeline.trip_ms * 1e-3; }},
    {"baton_in_flight", MetricType::Gauge, "Micro-batches on their way through the stages.",
     [](const ClusterStatus& s) { return double(s.pipeline.in_flight); }},
    {"baton_changed_messages_total", MetricType::Counter,
     "Messages of workers that reached the coordinator otherwise than they were sent.",
     [](const ClusterStatus&) { return double(wire::ChangedMessages()); }},
    {"baton_coordinator_rss_bytes", MetricType::Gauge, "Resident memory of the coordinator.",
     [](const ClusterStatus& s) { return double(s.rss_bytes); }},
};

// A figure of one stage, labelled with its worker.
struct StageRow {
  const char* name;
  MetricType type;
  const char* help;
  double (*read)(const StageStats&, const WorkerSnapshot&);
};
const StageRow kStageRows[] = {
    {"baton_stage_steps_total", MetricType::Counter, "Micro-batches computed.",
     [](const StageStats& s, const WorkerSnapshot&) { return double(s.steps); }},
    {"baton_stage_compute_seconds_total", MetricType::Counter, "Time spent computing.",
     [](const StageStats& s, const WorkerSnapshot&) { return double(s.compute_us) * 1e-6; }},
    {"baton_stage_queue_seconds_total", MetricType::Counter,
     "Time that micro-batches waited for the stage.",
     [](const StageStats& s, const WorkerSnapshot&) { return double(s.queue_us) * 1e-6; }},
    {"baton_stage_send_seconds_total", MetricType::Counter, "Time spent handing on.",
     [](const StageStats& s, const WorkerSnapshot&) { return double(s.send_us) * 1e-6; }},
    {"baton_stage_queue_seconds", MetricType::Gauge,
     "Recent mean time that a micro-batch waits for the stage.",
     [](const StageStats& s, const WorkerSnapshot&) { return s.queue_ms * 1e-3; }},
    {"baton_stage_compute_seconds", MetricType::Gauge,
     "Recent mean time that the stage computes a micro-batch.",
     [](const StageStats& s, const WorkerSnapshot&) { return s.step_ms * 1e-3; }},
    {"baton_stage_link_seconds", MetricType::Gauge,
     "Recent mean time from the stage before, or the coordinator, into the stage's queue.",
     [](const StageStats& s, const WorkerSnapshot&) { return s.link_ms * 1e-3; }},
    {"baton_stage_bubble_share", MetricType::Gauge,
     "Share of the last seconds in which the stage had nothing to compute.",
     [](const StageStats& s, const WorkerSnapshot&) { return 1 - s.busy_share; }},
    {"baton_stage_busy_share", MetricType::Gauge,
     "Share of the last seconds spent computing; the rest are bubbles.",
     [](const StageStats& s, const WorkerSnapshot&) { return s.busy_share; }},
    {"baton_worker_rss_bytes", MetricType::Gauge, "Resident memory of the worker.",
     [](const StageStats&, const WorkerSnapshot& w) { return double(w.info.rss_bytes); }},
    {"baton_worker_weights_bytes", MetricType::Gauge, "Bytes of the weights that the worker maps.",
     [](const StageStats&, const WorkerSnapshot& w) { return double(w.weights_bytes); }},
    {"baton_worker_kv_bytes", MetricType::Gauge, "Bytes of the worker's KV cache.",
     [](const StageStats&, const WorkerSnapshot& w) { return double(w.kv_bytes); }},
    {"baton_worker_weight_bytes_received_total", MetricType::Counter,
     "Weight bytes that came over the network.",
     [](const StageStats&, const WorkerSnapshot& w) {
       return double(w.info.weight_bytes_received);
     }},
    {"baton_worker_page_faults_total", MetricType::Counter,
     "Pages that had to come from the disk while the worker waited.",
     [](const StageStats&, const WorkerSnapshot& w) { return double(w.beat.major_faults); }},
    {"baton_worker_mapped_resident_bytes", MetricType::Gauge,
     "Resident bytes of mapped files: weights that were touched and are still in memory.",
     [](const StageStats&, const WorkerSnapshot& w) {
       return double(w.beat.mapped_resident_bytes);
     }},
    {"baton_stage_weight_bytes_total", MetricType::Counter,
     "Quantized weight bytes that micro-batches went through; of experts all are counted.",
     [](const StageStats& s, const WorkerSnapshot& w) {
       return double(s.steps) * double(w.weights_bytes);
     }},
    {"baton_link_bytes_total", MetricType::Counter,
     "Bytes of hidden states that went to the next worker.",
     [](const StageStats&, const WorkerSnapshot& w) { return double(w.beat.sent_bytes); }},
    {"baton_worker_changed_messages_total", MetricType::Counter,
     "Messages that reached the worker otherwise than they were sent: its links flip bits.",
     [](const StageStats&, const WorkerSnapshot& w) { return double(w.beat.changed_messages); }},
    {"baton_worker_round_trip_seconds", MetricType::Gauge, "Round trip of the last heartbeat.",
     [](const StageStats&, const WorkerSnapshot& w) {
       return absl::ToDoubleSeconds(w.round_trip);
     }},
    {"baton_worker_up", MetricType::Gauge, "1 while the worker is ready.",
     [](const StageStats&, const WorkerSnapshot& w) {
       return w.state == WorkerState::kReady ? 1.0 : 0.0;
     }},
};

ClientMetric Figure(MetricType type, double value) {
  ClientMetric metric;
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return metric;
}

void AddClusterFamilies(const ClusterStatus& status, std::vector<MetricFamily>* families) {
  for (const ClusterRow& row : kClusterRows) {
    families->push_back({row.name, row.help, row.type, {Figure(row.type, row.read(status))}});
  }
}

void AddStageFamilies(const ClusterStatus& status, std::vector<MetricFamily>* families) {
  const auto& placement = status.state.placement;
  for (const StageRow& row : kStageRows) {
    MetricFamily family{row.name, row.help, row.type, {}};
    for (size_t stage = 0; stage < placement.size() && stage < status.pipeline.stages.size();
         ++stage) {
      const WorkerSnapshot& worker = status.workers[placement[stage].worker];
      ClientMetric metric = Figure(row.type, row.read(status.pipeline.stages[stage], worker));
      metric.label = {{"worker", worker.name}, {"stage", std::to_string(stage)}};
      family.metric.push_back(std::move(metric));
    }
    families->push_back(std::move(family));
  }
}

class Metered : public MeteredService {
 public:
  explicit Metered(LlmService* inner) : inner_(inner) {}

  absl::StatusOr<uint64_t> Generate(const GenerationRequest& request,
                                    GenerationSink sink) override {
    auto watch = std::make_shared<Watch>();
    auto id =
        inner_->Generate(request, [this, watch, sink = std::move(sink)](GenerationChunk chunk) {
          Count(watch.get(), chunk);
          sink(std::move(chunk));
        });
    if (!id.ok())
      refused_.Add({{"code", absl::StatusCodeToString(id.status().code())}}).Increment();
    return id;
  }
  absl::StatusOr<uint64_t> Resume(std::string_view request_id, int32_t from_token,
                                  absl::Time deadline, GenerationSink sink) override {
    return inner_->Resume(request_id, from_token, deadline, std::move(sink));
  }
  absl::StatusOr<uint64_t> Score(const ScoreRequest& request, ScoreSink sink) override {
    return inner_->Score(request, std::move(sink));
  }
  void Cancel(uint64_t id) override { inner_->Cancel(id); }
  absl::StatusOr<std::vector<engine::TokenId>> Tokenize(std::string_view text, bool parse_special,
                                                        bool add_special) override {
    return inner_->Tokenize(text, parse_special, add_special);
  }
  absl::StatusOr<std::string> Detokenize(std::span<const engine::TokenId> ids,
                                         bool special) override {
    return inner_->Detokenize(ids, special);
  }
  absl::StatusOr<RenderedChat> RenderChat(const ChatPrompt& prompt) override {
    return inner_->RenderChat(prompt);
  }
  absl::StatusOr<std::string> Trace(std::string_view request_id) override {
    return inner_->Trace(request_id);
  }
  absl::StatusOr<std::vector<SessionInfo>> Session(const SessionCommand& command) override {
    return inner_->Session(command);
  }
  ModelSummary model() const override { return inner_->model(); }
  ClusterStatus cluster() const override { return inner_->cluster(); }
  absl::Status DrainWorker(std::string_view name, absl::Time deadline) override {
    return inner_->DrainWorker(name, deadline);
  }
  absl::StatusOr<TopologyChange> ReloadTopology(absl::Time deadline) override {
    return inner_->ReloadTopology(deadline);
  }

  std::string MetricsText() const override {
    std::vector<MetricFamily> families = registry_.Collect();
    const ClusterStatus status = inner_->cluster();
    AddClusterFamilies(status, &families);
    AddStageFamilies(status, &families);
    return prometheus::TextSerializer().Serialize(families);
  }

 private:
  struct Watch {  // of one request; chunks come one after another
    absl::Time last = SteadyNow();
    bool begun = false;
  };

  void Count(Watch* watch, const GenerationChunk& chunk) {
    const absl::Time now = SteadyNow();
    const double waited_s = absl::ToDoubleSeconds(now - watch->last);
    if (!chunk.tokens.empty()) {
      if (std::exchange(watch->begun, true)) {
        const double each = waited_s / static_cast<double>(chunk.tokens.size());
        for (size_t i = 0; i < chunk.tokens.size(); ++i) next_token_.Observe(each);
      } else {
        first_token_.Observe(waited_s);
      }
      watch->last = now;
    }
    if (chunk.last())
      finished_.Add({{"reason", std::string(FinishReasonName(chunk.finish))}}).Increment();
  }

  LlmService* const inner_;
  mutable prometheus::Registry registry_;
  Histogram& first_token_ = prometheus::BuildHistogram()
                                .Name("baton_time_to_first_token_seconds")
                                .Help("From a request's arrival to its first token.")
                                .Register(registry_)
                                .Add({}, kFirstTokenBuckets);
  Histogram& next_token_ = prometheus::BuildHistogram()
                               .Name("baton_time_between_tokens_seconds")
                               .Help("Between the tokens of one answer.")
                               .Register(registry_)
                               .Add({}, kNextTokenBuckets);
  prometheus::Family<Counter>& finished_ = prometheus::BuildCounter()
                                               .Name("baton_requests_finished_total")
                                               .Help("Requests that ended, by how.")
                                               .Register(registry_);
  prometheus::Family<Counter>& refused_ = prometheus::BuildCounter()
                                              .Name("baton_requests_refused_total")
                                              .Help("Requests that were not begun, by status.")
                                              .Register(registry_);
};

}  // namespace

std::unique_ptr<MeteredService> MeteredService::Create(LlmService* inner) {
  return std::make_unique<Metered>(inner);
}

}  // namespace baton::coordinator
