#include "coordinator/coordinator.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <mutex>
#include <random>
#include <utility>

#include "coordinator/answer.h"
#include "coordinator/answer_grammar.h"
#include "coordinator/bottleneck.h"
#include "coordinator/model_placer.h"
#include "coordinator/open_requests.h"
#include "coordinator/pipeline.h"
#include "coordinator/recovery.h"
#include "coordinator/remote_headers.h"
#include "coordinator/request_check.h"
#include "coordinator/served_model.h"
#include "coordinator/sessions.h"
#include "coordinator/topology_change.h"
#include "coordinator/worker_registry.h"
#include "engine/base/quote.h"
#include "engine/base/steady_time.h"
#include "engine/base/user_folders.h"

namespace baton::coordinator {

using engine::TokenId;

namespace {

uint64_t ResidentBytes() {
  uint64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t DrawSeed() {
  static std::atomic<uint64_t> counter = std::random_device()();
  return (++counter * 0x9E3779B97F4A7C15u) ^ static_cast<uint64_t>(absl::ToUnixNanos(absl::Now()));
}

// Where the journal of a topology file is if it does not say: a folder of its own below the user's
// state.
std::string DefaultJournal(const Topology& topology) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::absolute(topology.file, error);
  const std::string state = engine::StateFolder();
  if (topology.file.empty() || error || state.empty()) return "";
  return (std::filesystem::path(state) /
          fmt::format("{:016x}", std::hash<std::string>()(file.string())))
      .string();
}

// Of saved sessions: their blocks fit this model at this context only.
std::string SessionFolder(const ModelSummary& model) {
  const std::string state = engine::StateFolder();
  if (state.empty()) return "";
  return (std::filesystem::path(state) / "sessions" /
          fmt::format("{}-{}", model.fingerprint, model.context_length))
      .string();
}

// A journal that somebody asked for must work; the default one is a convenience.
absl::StatusOr<std::unique_ptr<OpenRequests>> OpenJournal(const Topology& topology,
                                                          const std::string& fingerprint) {
  OpenRequests::Options options;
  options.fingerprint = fingerprint;
  options.folder = topology.journal.empty() ? DefaultJournal(topology) : topology.journal;
  if (topology.journal == kNoJournal) options.folder.clear();
  auto journal = OpenRequests::Open(options);
  if (journal.ok() || !topology.journal.empty()) return journal;
  spdlog::warn("journal: {}; requests cannot be resumed after a restart of the coordinator",
               Message(journal.status()));
  options.folder.clear();
  return OpenRequests::Open(options);
}

// Rows of a ScoreRequest, one after another.
class ScoreAnswer : public SequenceObserver {
 public:
  explicit ScoreAnswer(ScoreSink sink) : sink_(std::move(sink)) {}
  bool OnResult(int32_t position, const engine::RowResult& result) override {
    ScoreChunk chunk;
    chunk.row = position;
    chunk.logits = result.logits;
    chunk.logprob = result.logprob;
    sink_(std::move(chunk));
    return true;
  }
  void OnEnd(EndReason /*reason*/, const absl::Status& status) override {
    ScoreChunk chunk;
    chunk.done = true;
    chunk.status = status;
    sink_(std::move(chunk));
  }

 private:
  ScoreSink sink_;
};

class ClusterCoordinator : public Coordinator, public LlmService {
 public:
  static absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Create(
      const Topology& as_read, wire::WorkerConnector* connector, TopologySource* source) {
    Topology topology = as_read;
    ASSIGN_OR_RETURN(topology.model, FindModelHeaders(topology, connector));
    ASSIGN_OR_RETURN(std::unique_ptr<ServedModel> model, ServedModel::Open(topology));
    ASSIGN_OR_RETURN(std::unique_ptr<ModelPlacer> placer,
                     ModelPlacer::Create(topology, model.get()));
    ASSIGN_OR_RETURN(std::unique_ptr<OpenRequests> open_requests,
                     OpenJournal(topology, model->summary().fingerprint));
    std::unique_ptr<ClusterCoordinator> made(new ClusterCoordinator(
        topology, connector, std::move(model), std::move(placer), std::move(open_requests)));
    made->topology_ = as_read;
    made->source_ = source;
    return made;
  }
  ~ClusterCoordinator() override { Shutdown(); }

  void Start() override { recovery_->Start(); }
  absl::Status WaitReady(absl::Time deadline) override { return recovery_->WaitReady(deadline); }
  void Shutdown() override {
    recovery_->Stop();
    pipeline_->Stop();
  }
  LlmService* service() override { return this; }

  absl::StatusOr<uint64_t> Generate(const GenerationRequest& request, GenerationSink sink) override;
  absl::StatusOr<uint64_t> Score(const ScoreRequest& request, ScoreSink sink) override;
  absl::StatusOr<uint64_t> Resume(std::string_view request_id, int32_t from_token,
                                  absl::Time deadline, GenerationSink sink) override;
  void Cancel(uint64_t id) override { pipeline_->Cancel(id); }
  absl::StatusOr<std::vector<TokenId>> Tokenize(std::string_view text, bool parse_special,
                                                bool add_special) override {
    return model_->tokenizer().Encode(text,
                                      {.parse_special = parse_special, .add_special = add_special});
  }
  absl::StatusOr<std::string> Detokenize(std::span<const TokenId> ids, bool special) override {
    RETURN_IF_ERROR(CheckTokenIds(ids, model_->hyperparams().vocab_size));
    return model_->tokenizer().Decode(ids, special);
  }
  absl::StatusOr<RenderedChat> RenderChat(const ChatPrompt& prompt) override {
    ASSIGN_OR_RETURN(const engine::PromptText rendered, model_->RenderChat(prompt));
    return RenderedChat{rendered.text, model_->tokenizer().EncodePrompt(rendered)};
  }
  ModelSummary model() const override { return model_->summary(); }
  ClusterStatus cluster() const override;
  absl::StatusOr<std::string> Trace(std::string_view request_id) override;
  absl::StatusOr<std::vector<SessionInfo>> Session(const SessionCommand& command) override;
  absl::Status DrainWorker(std::string_view name, absl::Time deadline) override {
    return recovery_->Drain(name, deadline);
  }
  absl::StatusOr<TopologyChange> ReloadTopology(absl::Time deadline) override;

 private:
  ClusterCoordinator(const Topology& topology, wire::WorkerConnector* connector,
                     std::unique_ptr<ServedModel> model, std::unique_ptr<ModelPlacer> placer,
                     std::unique_ptr<OpenRequests> open_requests);

  // With reload_mutex_ held.
  absl::StatusOr<TopologyChange> TakeTopology(const Topology& wanted, absl::Time deadline);
  absl::StatusOr<uint64_t> GenerateInSession(const GenerationRequest& request, GenerationSink sink);
  absl::Status CheckReady() const;
  std::vector<StageOfWorker> Stages() const;
  // Null where the request has no schema.
  absl::StatusOr<std::shared_ptr<AnswerGrammar>> MakeGrammar(const OpenRequest& open);
  struct Asked {
    std::string request_id;
    std::string client_id = {};
    uint64_t client = 0;
  };
  uint64_t Launch(const Asked& asked, OpenRequest open, std::shared_ptr<AnswerGrammar> grammar,
                  int32_t first_token, absl::Time deadline, GenerationSink sink);

  const std::unique_ptr<ServedModel> model_;
  const std::unique_ptr<ModelPlacer> placer_;
  GrammarCompiler grammars_;
  const absl::Time started_ = SteadyNow();
  const std::string instance_ = fmt::format("{:08x}", DrawSeed() & 0xFFFFFFFF);
  std::atomic<uint64_t> last_id_ = 0;
  std::atomic<uint64_t> last_request_ = 0;
  const std::unique_ptr<OpenRequests> open_requests_;
  WorkerRegistry registry_;
  std::unique_ptr<Recovery>
      recovery_;  // stopped first (Shutdown), but there for the pipeline's last words
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<Sessions> sessions_;
  std::mutex reload_mutex_;  // held by one reload from its beginning to its end
  Topology topology_;        // as last read; guarded by reload_mutex_
  TopologySource* source_ = nullptr;
};

PipelineOptions MakePipelineOptions(const Topology& topology, const ServedModel& model,
                                    int32_t num_kv_blocks) {
  PipelineOptions options;
  options.scheduler.num_stages = static_cast<int32_t>(topology.workers.size());
  options.scheduler.vocab_size = model.hyperparams().vocab_size;
  options.scheduler.context_length = model.summary().context_length;
  options.scheduler.num_kv_blocks = num_kv_blocks;
  options.scheduler.max_rows = topology.limits.batch_rows;
  options.scheduler.max_sequences = topology.sequences;
  options.scheduler.max_waiting = topology.limits.queue;
  options.scheduler.chunk_rows = topology.limits.chunk_rows;
  options.scheduler.prefix_cache = topology.prefix_cache;
  options.scheduler.speculation = topology.speculation;
  options.step_deadline = topology.limits.step;
  return options;
}

ClusterCoordinator::ClusterCoordinator(const Topology& topology, wire::WorkerConnector* connector,
                                       std::unique_ptr<ServedModel> model,
                                       std::unique_ptr<ModelPlacer> placer,
                                       std::unique_ptr<OpenRequests> open_requests)
    : model_(std::move(model)),
      placer_(std::move(placer)),
      grammars_(&model_->tokenizer()),
      open_requests_(std::move(open_requests)),
      registry_(topology.workers, topology.spares, connector) {
  pipeline_ = std::make_unique<Pipeline>(
      MakePipelineOptions(topology, *model_, placer_->num_kv_blocks()),
      [this](const Pipeline::Failure& failure) { recovery_->OnPipelineFailure(failure); });
  RecoveryOptions options;
  options.limits = topology.limits;
  recovery_ = std::make_unique<Recovery>(options, &registry_, pipeline_.get(), placer_.get());
  const ModelSummary summary = model_->summary();
  sessions_ =
      std::make_unique<Sessions>(Sessions::Options{.folder = SessionFolder(summary),
                                                   .fingerprint = summary.fingerprint,
                                                   .context_length = summary.context_length},
                                 pipeline_.get(), &registry_, recovery_.get());
}

// Requests wait while a lost worker is replaced, but not for a cluster that has never been up or
// has given up.
absl::Status ClusterCoordinator::CheckReady() const {
  const Recovery::Snapshot snapshot = recovery_->snapshot();
  if (snapshot.state == ClusterState::kLoading) {
    return Unavailable("cluster: it is still loading{}{}", snapshot.reason.empty() ? "" : ": ",
                       snapshot.reason);
  }
  if (snapshot.state == ClusterState::kFailed) return Unavailable("cluster: {}", snapshot.reason);
  return absl::OkStatus();
}

std::vector<StageOfWorker> ClusterCoordinator::Stages() const {
  std::vector<StageOfWorker> stages;
  for (const Placement& stage : recovery_->snapshot().placement) {
    stages.push_back({registry_.entry(stage.worker).name, stage.layers});
  }
  return stages;
}

absl::StatusOr<uint64_t> ClusterCoordinator::GenerateInSession(const GenerationRequest& request,
                                                               GenerationSink sink) {
  const std::string name = request.session;
  ASSIGN_OR_RETURN(const Dialogue before, sessions_->Begin(name));
  const auto tokenize = [this](const TextPrompt& text) {
    return Tokenize(text.text, text.parse_special, /*add_special=*/false);
  };
  const absl::StatusOr<GenerationRequest> turn = NextTurn(before, request, tokenize);
  if (!turn.ok()) {
    sessions_->End(name, std::nullopt);
    return turn.status();
  }
  struct Said {
    std::vector<TokenId> tokens;
    std::string answer;
  };
  const auto on_chunk = [this, name, turn = *turn, said = std::make_shared<Said>(),
                         sink = std::move(sink)](GenerationChunk chunk) {
    said->tokens.insert(said->tokens.end(), chunk.prompt_tokens.begin(), chunk.prompt_tokens.end());
    for (const GeneratedToken& token : chunk.tokens) said->tokens.push_back(token.id);
    said->answer += chunk.text;
    if (chunk.last()) {
      std::optional<Dialogue> after;
      if (chunk.status.ok()) after = AfterTurn(turn, std::move(said->tokens), said->answer);
      sessions_->End(name, std::move(after));
    }
    sink(std::move(chunk));
  };
  const absl::StatusOr<uint64_t> id = Generate(*turn, on_chunk);
  if (!id.ok()) sessions_->End(name, std::nullopt);
  return id;
}

absl::StatusOr<std::vector<SessionInfo>> ClusterCoordinator::Session(
    const SessionCommand& command) {
  const auto one =
      [](absl::StatusOr<SessionInfo> info) -> absl::StatusOr<std::vector<SessionInfo>> {
    RETURN_IF_ERROR(info.status());
    return std::vector{*std::move(info)};
  };
  switch (command.action) {
    case SessionAction::kList:
      return sessions_->List();
    case SessionAction::kFork:
      return one(sessions_->Fork(command.name, command.to));
    case SessionAction::kSave:
      return one(sessions_->Save(command.name, command.deadline));
    case SessionAction::kRestore:
      return one(sessions_->Restore(command.name, command.deadline));
    case SessionAction::kRemove:
      RETURN_IF_ERROR(sessions_->Remove(command.name, command.deadline));
      return std::vector<SessionInfo>();
  }
  return Internal("session: unknown action");
}

absl::StatusOr<uint64_t> ClusterCoordinator::Generate(const GenerationRequest& request,
                                                      GenerationSink sink) {
  if (!request.session.empty()) return GenerateInSession(request, std::move(sink));
  RETURN_IF_ERROR(CheckGenerationRequest(request, model_->hyperparams().vocab_size));
  ASSIGN_OR_RETURN(std::vector<TokenId> tokens, model_->Encode(request));
  const int32_t context = model_->summary().context_length;
  const int32_t length =
      static_cast<int32_t>(std::min<size_t>(tokens.size(), std::numeric_limits<int32_t>::max()));
  const int32_t wanted = request.max_tokens.value_or(std::numeric_limits<int32_t>::max());
  if (length > context || (length == context && wanted > 0)) {
    return InvalidArgument(
        "prompt: {} tokens leave no room in the context of {}; shorten it or raise `context`",
        length, context);
  }
  RETURN_IF_ERROR(CheckReady());

  OpenRequest open;
  open.prompt = std::move(tokens);
  open.sampling = request.sampling;
  if (!request.has_seed) open.sampling.seed = DrawSeed();
  open.stop = request.stop;
  open.ignore_eos = request.ignore_eos;
  open.max_tokens = wanted;
  open.priority = request.priority;
  open.speculation = request.speculation.value_or(true);
  open.grammar_json_schema = request.grammar_json_schema;
  ASSIGN_OR_RETURN(std::shared_ptr<AnswerGrammar> grammar, MakeGrammar(open));
  const std::string request_id = fmt::format("{}-{}", instance_, ++last_request_);
  open_requests_->Opened(request_id, open);
  return Launch(
      {.request_id = request_id, .client_id = request.client_id, .client = request.client},
      std::move(open), std::move(grammar), /*first_token=*/0, request.deadline, std::move(sink));
}

absl::StatusOr<uint64_t> ClusterCoordinator::Resume(std::string_view request_id, int32_t from_token,
                                                    absl::Time deadline, GenerationSink sink) {
  if (from_token < 0) return InvalidArgument("from_token: {}, expected at least 0", from_token);
  RETURN_IF_ERROR(CheckReady());
  std::optional<OpenRequest> open = open_requests_->Take(std::string(request_id));
  if (!open)
    return NotFound("request_id: {}: no such request waits to be resumed",
                    engine::Named(request_id));
  RETURN_IF_ERROR(CheckTokenIds(open->prompt, model_->hyperparams().vocab_size));
  RETURN_IF_ERROR(CheckTokenIds(open->answer, model_->hyperparams().vocab_size));
  ASSIGN_OR_RETURN(std::shared_ptr<AnswerGrammar> grammar, MakeGrammar(*open));
  return Launch({.request_id = std::string(request_id)}, *std::move(open), std::move(grammar),
                from_token, deadline, std::move(sink));
}

absl::StatusOr<std::shared_ptr<AnswerGrammar>> ClusterCoordinator::MakeGrammar(
    const OpenRequest& open) {
  if (open.grammar_json_schema.empty()) return nullptr;
  auto compiled = grammars_.Compile(open.grammar_json_schema);
  if (!compiled.ok()) return Prefixed(compiled.status(), "grammar_json_schema");
  auto grammar = std::make_shared<AnswerGrammar>(*std::move(compiled), &model_->tokenizer());
  RETURN_IF_ERROR(grammar->CheckStart());
  for (const TokenId token : open.answer) RETURN_IF_ERROR(grammar->Accept(token));
  return grammar;
}

// Begins an answer, or goes on with what is known of it.
uint64_t ClusterCoordinator::Launch(const Asked& asked, OpenRequest open,
                                    std::shared_ptr<AnswerGrammar> grammar, int32_t first_token,
                                    absl::Time deadline, GenerationSink sink) {
  const int32_t context = model_->summary().context_length;
  SequenceRequest sequence;
  sequence.id = ++last_id_;
  pipeline_->log().Opened({.id = asked.request_id,
                           .client_id = asked.client_id,
                           .sequence = sequence.id,
                           .opened = SteadyNow()});
  AnswerOptions options;
  options.request_id = asked.request_id;
  options.prompt = open.prompt;
  options.stop = open.stop;
  options.ignore_eos = open.ignore_eos;
  options.first_token = first_token;
  options.record = open_requests_.get();
  options.load_ms = absl::ToDoubleMilliseconds(recovery_->snapshot().load_time);
  options.tokenizer = &model_->tokenizer();
  options.stages = [this] { return Stages(); };
  options.sink = std::move(sink);
  const auto answer = std::make_shared<Answer>(std::move(options));
  const bool goes_on = answer->Restore(open.answer);
  sequence.tokens = std::move(open.prompt);
  sequence.tokens.insert(sequence.tokens.end(), open.answer.begin(), open.answer.end());
  sequence.num_answered = static_cast<int32_t>(open.answer.size());
  const uint64_t id = sequence.id;
  if (!goes_on || sequence.num_answered >= open.max_tokens ||
      static_cast<int64_t>(sequence.tokens.size()) >= context) {
    answer->OnEnd(goes_on ? EndReason::kLength : EndReason::kStopped, absl::OkStatus());
    return id;
  }
  sequence.grammar = std::move(grammar);
  sequence.observer = answer;
  sequence.max_new_tokens = open.max_tokens;
  sequence.sampling = std::move(open.sampling);
  sequence.priority = open.priority;
  sequence.client = asked.client;
  sequence.speculation = open.speculation;
  sequence.deadline = deadline;
  pipeline_->Submit(std::move(sequence));
  return id;
}

absl::StatusOr<std::string> ClusterCoordinator::Trace(std::string_view request_id) {
  const auto request = pipeline_->log().Find(request_id);
  if (!request) {
    return NotFound("request_id: {}: no such request, or it is too long ago",
                    request_id.empty() ? "none yet" : engine::Named(request_id));
  }
  std::vector<std::string> workers;
  for (const StageOfWorker& stage : Stages()) workers.push_back(stage.worker);
  return TraceToJson(*request, pipeline_->log().RecordsOf(request->sequence), workers);
}

absl::StatusOr<uint64_t> ClusterCoordinator::Score(const ScoreRequest& request, ScoreSink sink) {
  const std::vector<TokenId>& tokens = request.tokens;
  RETURN_IF_ERROR(CheckTokenIds(tokens, model_->hyperparams().vocab_size));
  const int32_t context = model_->summary().context_length;
  const int32_t needed = request.logits ? 1 : 2;
  if (tokens.size() < static_cast<size_t>(needed)) {
    return InvalidArgument("tokens: {}, expected at least {}", tokens.size(), needed);
  }
  if (tokens.size() > static_cast<size_t>(context)) {
    return InvalidArgument("tokens: {}, but the context holds {}", tokens.size(), context);
  }
  // A log-probability is that of the token after a row, so the last token gives no row.
  const int32_t rows = static_cast<int32_t>(tokens.size()) - (request.logits ? 0 : 1);
  if (request.last < 0 || request.last > rows) {
    return InvalidArgument("last: {}, expected 0 to {}", request.last, rows);
  }
  RETURN_IF_ERROR(CheckReady());
  SequenceRequest sequence;
  sequence.id = ++last_id_;
  sequence.tokens.assign(tokens.begin(), tokens.begin() + rows);
  sequence.kind = request.logits ? engine::OutputKind::kLogits : engine::OutputKind::kScore;
  sequence.first_output = request.last > 0 ? rows - request.last : 0;
  sequence.final_target = tokens.back();
  sequence.deadline = request.deadline;
  sequence.observer = std::make_shared<ScoreAnswer>(std::move(sink));
  const uint64_t id = sequence.id;
  pipeline_->Submit(std::move(sequence));
  return id;
}

absl::StatusOr<TopologyChange> ClusterCoordinator::ReloadTopology(absl::Time deadline) {
  if (source_ == nullptr)
    return FailedPrecondition("reload: this coordinator was started without a topology file");
  const std::unique_lock lock(reload_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return Unavailable("reload: another one is under way; try again");
  ASSIGN_OR_RETURN(const Topology wanted, source_->Read(deadline));
  auto change = TakeTopology(wanted, deadline);
  source_->OnTaken(change.status());
  if (change.ok()) spdlog::info("topology: {}", Describe(*change));
  return change;
}

absl::StatusOr<TopologyChange> ClusterCoordinator::TakeTopology(const Topology& wanted,
                                                                absl::Time deadline) {
  ASSIGN_OR_RETURN(TopologyChange change, CompareTopologies(topology_, wanted));
  const auto take = [this](const Topology& topology) -> absl::Status {
    RETURN_IF_ERROR(placer_->SetTopology(topology));
    registry_.SetWorkers(topology.workers, topology.spares);
    return absl::OkStatus();
  };
  const absl::Status status =
      recovery_->Rearrange({.apply = [take, wanted] { return take(wanted); },
                            .undo = [take, before = topology_] { take(before).IgnoreError(); },
                            .replan = change.replan},
                           deadline);
  if (!status.ok() && !absl::IsDeadlineExceeded(status))
    return Prefixed(status, "reload: nothing was changed");
  topology_ = wanted;
  RETURN_IF_ERROR(Prefixed(status, "reload"));
  return change;
}

ClusterStatus ClusterCoordinator::cluster() const {
  ClusterStatus status;
  status.model = model_->summary();
  status.pid = getpid();
  status.rss_bytes = ResidentBytes();
  status.uptime_s = absl::ToDoubleSeconds(SteadyNow() - started_);
  status.workers = registry_.Snapshot();
  status.state = recovery_->snapshot();
  for (Placement& stage : status.state.placement) {
    const auto shown = std::ranges::find(status.workers, stage.worker, &WorkerSnapshot::worker);
    if (shown == status.workers.end()) {  // layers are moving just now
      status.state.placement.clear();
      break;
    }
    stage.worker = shown - status.workers.begin();
  }
  status.pipeline = pipeline_->stats();
  CorrectLinkTimes(&status);
  status.bottleneck = FindBottleneck(status).text;
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Create(const Topology& topology,
                                                                 wire::WorkerConnector* connector,
                                                                 TopologySource* source) {
  return ClusterCoordinator::Create(topology, connector, source);
}

}  // namespace baton::coordinator
