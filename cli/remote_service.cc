#include "cli/remote_service.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "baton/v1/inference.grpc.pb.h"
#include "cli/answer_source.h"
#include "cli/exit_code.h"
#include "engine/base/steady_time.h"
#include "proto/address.h"
#include "proto/channel_options.h"
#include "proto/status_convert.h"

namespace baton::cli {
namespace {

namespace v1 = ::baton::v1;
using coordinator::ClusterStatus;
using coordinator::FinishReason;
using coordinator::GenerationChunk;
using coordinator::GenerationRequest;
using coordinator::ModelSummary;
using coordinator::ScoreChunk;

constexpr absl::Duration kUnaryTimeout = absl::Seconds(30);
// How long an answer that broke off is tried to be resumed, as when the coordinator restarts: from
// when something of it came last.
constexpr absl::Duration kResumeFor = absl::Seconds(60);
constexpr absl::Duration kAskWhetherUp = absl::Seconds(2);
constexpr absl::Duration kResumeEvery = absl::Milliseconds(200);

// The transport's words for "nobody listens" are long; ours are one line.
absl::Status FromServer(const grpc::Status& status, const std::string& address) {
  const absl::Status converted = wire::FromGrpc(status);
  if (!absl::IsUnavailable(converted) || !status.error_message().starts_with("failed to connect"))
    return converted;
  return WithHint(Unavailable("{}: nobody listens there", address),
                  "baton up -f topology.yaml starts a cluster");
}

v1::GenerationOptions ToMessage(const GenerationRequest& request) {
  v1::GenerationOptions options;
  v1::SamplingOptions& sampling = *options.mutable_sampling();
  sampling.set_temperature(request.sampling.temperature);
  sampling.set_top_k(request.sampling.top_k);
  sampling.set_top_p(request.sampling.top_p);
  sampling.set_min_p(request.sampling.min_p);
  sampling.set_repetition_penalty(request.sampling.repetition_penalty);
  sampling.set_presence_penalty(request.sampling.presence_penalty);
  sampling.set_frequency_penalty(request.sampling.frequency_penalty);
  if (request.has_seed) sampling.set_seed(request.sampling.seed);
  for (const auto& [token, bias] : request.sampling.logit_bias) {
    v1::LogitBias* out = sampling.add_logit_bias();
    out->set_token(token);
    out->set_bias(bias);
  }
  if (request.sampling.top_logprobs >= 0) sampling.set_top_logprobs(request.sampling.top_logprobs);
  if (request.max_tokens) options.set_max_tokens(*request.max_tokens);
  options.mutable_stop()->Add(request.stop.begin(), request.stop.end());
  options.set_ignore_eos(request.ignore_eos);
  options.set_priority(request.priority);
  if (request.speculation) options.set_speculation(*request.speculation);
  options.set_grammar_json_schema(request.grammar_json_schema);
  options.set_session(request.session);
  return options;
}

FinishReason FromMessage(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return FinishReason::kStop;
    case v1::FINISH_REASON_LENGTH:
      return FinishReason::kLength;
    case v1::FINISH_REASON_CANCELLED:
      return FinishReason::kCancelled;
    default:
      return FinishReason::kNone;
  }
}

GenerationChunk FromMessage(const v1::GenerateResponse& from) {
  GenerationChunk chunk;
  chunk.request_id = from.request_id();
  chunk.prompt_tokens.assign(from.prompt_tokens().begin(), from.prompt_tokens().end());
  chunk.text = from.text();
  for (const v1::GeneratedToken& token : from.tokens()) {
    coordinator::GeneratedToken& to = chunk.tokens.emplace_back();
    to.id = token.id();
    to.logprob = token.logprob();
    to.bytes = token.text();
    for (const v1::TokenLogprob& top : token.top()) to.top.push_back({top.token(), top.logprob()});
  }
  chunk.finish = FromMessage(from.finish_reason());
  chunk.stop_string = from.stop_string();
  const v1::Timings& timings = from.timings();
  chunk.timings = {.load_ms = timings.load_ms(),
                   .queue_ms = timings.queue_ms(),
                   .cached_tokens = timings.cached_tokens(),
                   .prefill_tokens = timings.prefill_tokens(),
                   .prefill_ms = timings.prefill_ms(),
                   .decode_tokens = timings.decode_tokens(),
                   .decode_ms = timings.decode_ms()};
  for (const v1::StageInfo& stage : from.stages()) {
    chunk.stages.push_back({stage.worker(), {stage.layer_begin(), stage.layer_end()}});
  }
  return chunk;
}

ModelSummary FromMessage(const v1::ModelInfo& from) {
  ModelSummary to;
  to.name = from.name();
  to.architecture = from.architecture();
  to.fingerprint = from.fingerprint();
  to.num_layers = from.num_layers();
  to.hidden_size = from.hidden_size();
  to.vocab_size = from.vocab_size();
  to.context_length = from.context_length();
  to.trained_context_length = from.trained_context_length();
  to.parameters = from.parameters();
  to.bytes = from.bytes();
  to.bos = from.bos();
  to.eos = from.eos();
  to.has_chat_template = from.has_chat_template();
  to.warnings.assign(from.warnings().begin(), from.warnings().end());
  return to;
}

template <typename State, typename NameOf>
State StateNamed(const std::string& name, std::initializer_list<State> all, NameOf name_of,
                 State unknown) {
  const auto found = std::ranges::find_if(all, [&](State state) { return name_of(state) == name; });
  return found == all.end() ? unknown : *found;
}

coordinator::WorkerSnapshot FromMessage(const v1::ClusterInfo::Worker& from) {
  using coordinator::WorkerState;
  coordinator::WorkerSnapshot to;
  to.name = from.name();
  to.address = from.address();
  to.state = StateNamed(from.state(),
                        {WorkerState::kJoining, WorkerState::kLoading, WorkerState::kReady,
                         WorkerState::kSuspect, WorkerState::kLost, WorkerState::kDraining},
                        coordinator::WorkerStateName, WorkerState::kJoining);
  to.reason = from.reason();
  to.info.pid = from.pid();
  to.info.device = from.device();
  to.info.backend = from.backend();
  to.info.rss_bytes = from.rss_bytes();
  to.info.weight_bytes_received = from.weight_bytes_received();
  to.info.memory_available_bytes = from.memory_available_bytes();
  to.layers = {from.layer_begin(), from.layer_end()};
  to.weights_bytes = from.weights_bytes();
  to.kv_bytes = from.kv_bytes();
  to.load_progress = from.load_progress();
  to.round_trip = absl::Milliseconds(from.round_trip_ms());
  return to;
}

ClusterStatus FromMessage(const v1::ClusterInfo& from) {
  using coordinator::ClusterState;
  ClusterStatus to;
  to.model = FromMessage(from.model());
  to.pid = from.pid();
  to.rss_bytes = from.rss_bytes();
  to.state.state = StateNamed(from.state(),
                              {ClusterState::kLoading, ClusterState::kReady,
                               ClusterState::kRecovering, ClusterState::kFailed},
                              coordinator::ClusterStateName, ClusterState::kFailed);
  to.state.epoch = from.epoch();
  to.state.reason = from.reason();
  coordinator::SchedulerStats& counts = to.pipeline.scheduler;
  counts.running = from.running();
  counts.waiting = from.waiting();
  counts.kv_blocks_total = from.kv_blocks_total();
  counts.kv_blocks_used = from.kv_blocks_used();
  counts.prompt_tokens = from.prompt_tokens();
  counts.cached_tokens = from.cached_tokens();
  counts.new_tokens = from.new_tokens();
  counts.drafted_tokens = from.drafted_tokens();
  counts.accepted_tokens = from.accepted_tokens();
  counts.preemptions = from.preemptions();
  to.pipeline.tokens_per_s = from.tokens_per_s();
  to.bottleneck = from.bottleneck();
  for (const v1::ClusterInfo::Worker& worker : from.workers()) {
    to.workers.push_back(FromMessage(worker));
    if (worker.layer_end() == worker.layer_begin()) continue;
    to.state.placement.push_back({to.workers.size() - 1, to.workers.back().layers});
    to.pipeline.stages.push_back({.steps = worker.steps(),
                                  .queue_us = worker.queue_us(),
                                  .compute_us = worker.compute_us(),
                                  .step_ms = worker.stage_ms(),
                                  .busy_share = worker.busy_share(),
                                  .queue_ms = worker.queue_ms(),
                                  .link_ms = worker.link_ms()});
  }
  return to;
}

class GrpcService : public RemoteService {
 public:
  GrpcService(std::string address, std::string api_key, std::shared_ptr<grpc::Channel> channel)
      : address_(std::move(address)),
        api_key_(std::move(api_key)),
        stub_(v1::Inference::NewStub(std::move(channel))) {}

  ~GrpcService() override {
    std::map<uint64_t, std::unique_ptr<StreamCall>>
        calls;  // joined without the lock: readers take it
    const std::lock_guard lock(mutex_);
    for (auto& [id, call] : calls_) call->Cancel();
    calls.swap(calls_);
  }

  absl::StatusOr<uint64_t> Generate(const GenerationRequest& request,
                                    coordinator::GenerationSink sink) override {
    if (const auto* chat = std::get_if<coordinator::ChatPrompt>(&request.prompt)) {
      v1::ChatRequest message;
      message.set_messages_json(chat->messages_json);
      message.set_tools_json(chat->tools_json);
      message.set_template_args_json(chat->template_args_json);
      *message.mutable_options() = ToMessage(request);
      const auto open = [this, message](grpc::ClientContext* c) { return stub_->Chat(c, message); };
      return StartCall(request.deadline, [this, open, sink = std::move(sink)](StreamCall& call) {
        ReadAnswer(call, open, sink);
      });
    }
    v1::GenerateRequest message;
    if (const auto* text = std::get_if<coordinator::TextPrompt>(&request.prompt)) {
      message.set_text(text->text);
      message.set_parse_special(text->parse_special);
    } else {
      const auto& ids = std::get<coordinator::TokenPrompt>(request.prompt).ids;
      message.mutable_tokens()->mutable_ids()->Assign(ids.begin(), ids.end());
    }
    *message.mutable_options() = ToMessage(request);
    const auto open = [this, message](grpc::ClientContext* c) {
      return stub_->Generate(c, message);
    };
    return StartCall(request.deadline, [this, open, sink = std::move(sink)](StreamCall& call) {
      ReadAnswer(call, open, sink);
    });
  }

  absl::StatusOr<uint64_t> Score(const coordinator::ScoreRequest& request,
                                 coordinator::ScoreSink sink) override {
    v1::ScoreRequest message;
    message.mutable_tokens()->Assign(request.tokens.begin(), request.tokens.end());
    message.set_last(request.last);
    message.set_logits(request.logits);
    return StartCall(request.deadline, [this, message, sink = std::move(sink)](StreamCall& call) {
      ReadScores(stub_->Score(call.context.get(), message), sink);
    });
  }

  void Cancel(uint64_t id) override {
    const std::lock_guard lock(mutex_);
    if (const auto call = calls_.find(id); call != calls_.end()) call->second->Cancel();
  }

  absl::StatusOr<std::vector<engine::TokenId>> Tokenize(std::string_view text, bool parse_special,
                                                        bool add_special) override {
    v1::TokenizeRequest request;
    request.set_text(std::string(text));
    request.set_parse_special(parse_special);
    request.set_add_special(add_special);
    ASSIGN_OR_RETURN(
        const v1::TokenizeResponse response,
        Ask<v1::TokenizeResponse>(&v1::Inference::Stub::Tokenize, request, kUnaryTimeout));
    return std::vector<engine::TokenId>(response.ids().begin(), response.ids().end());
  }

  absl::StatusOr<std::string> Detokenize(std::span<const engine::TokenId> ids,
                                         bool special) override {
    v1::DetokenizeRequest request;
    request.mutable_ids()->Assign(ids.begin(), ids.end());
    request.set_special(special);
    ASSIGN_OR_RETURN(
        v1::DetokenizeResponse response,
        Ask<v1::DetokenizeResponse>(&v1::Inference::Stub::Detokenize, request, kUnaryTimeout));
    return std::move(*response.mutable_text());
  }

  absl::StatusOr<RenderedChat> RenderChat(const coordinator::ChatPrompt& prompt) override {
    v1::RenderChatRequest request;
    request.set_messages_json(prompt.messages_json);
    request.set_tools_json(prompt.tools_json);
    request.set_template_args_json(prompt.template_args_json);
    ASSIGN_OR_RETURN(
        const v1::RenderChatResponse response,
        Ask<v1::RenderChatResponse>(&v1::Inference::Stub::RenderChat, request, kUnaryTimeout));
    return RenderedChat{.text = response.text(),
                        .ids = {response.ids().begin(), response.ids().end()}};
  }

  absl::StatusOr<ModelSummary> FetchModel(absl::Duration timeout) override {
    ASSIGN_OR_RETURN(const v1::ModelInfo info, Ask<v1::ModelInfo>(&v1::Inference::Stub::GetModel,
                                                                  v1::GetModelRequest(), timeout));
    return FromMessage(info);
  }
  absl::StatusOr<ClusterStatus> FetchCluster(absl::Duration timeout) override {
    ASSIGN_OR_RETURN(
        const v1::ClusterInfo info,
        Ask<v1::ClusterInfo>(&v1::Inference::Stub::GetCluster, v1::GetClusterRequest(), timeout));
    pid_ = info.pid();
    return FromMessage(info);
  }
  ModelSummary model() const override {
    return const_cast<GrpcService*>(this)->FetchModel(kUnaryTimeout).value_or(ModelSummary());
  }
  ClusterStatus cluster() const override {
    return const_cast<GrpcService*>(this)->FetchCluster(kUnaryTimeout).value_or(ClusterStatus());
  }

  absl::StatusOr<std::string> Trace(std::string_view request_id) override {
    v1::GetTraceRequest request;
    request.set_request_id(std::string(request_id));
    ASSIGN_OR_RETURN(
        v1::GetTraceResponse response,
        Ask<v1::GetTraceResponse>(&v1::Inference::Stub::GetTrace, request, kUnaryTimeout));
    return std::move(*response.mutable_chrome_json());
  }
  absl::StatusOr<std::vector<coordinator::SessionInfo>> Session(
      const coordinator::SessionCommand& command) override {
    v1::SessionRequest request;
    request.set_action(static_cast<v1::SessionAction>(command.action));
    request.set_name(command.name);
    request.set_to(command.to);
    ASSIGN_OR_RETURN(const v1::SessionResponse response,
                     Call<v1::SessionResponse>(&v1::Inference::Stub::Session, request,
                                               command.deadline - SteadyNow()));
    std::vector<coordinator::SessionInfo> sessions;
    for (const v1::SessionInfo& from : response.sessions()) {
      sessions.push_back({.name = from.name(),
                          .tokens = from.tokens(),
                          .saved_tokens = from.saved_tokens(),
                          .blocks_tokens = from.blocks_tokens(),
                          .note = from.note()});
    }
    return sessions;
  }
  absl::Status DrainWorker(std::string_view name, absl::Time deadline) override {
    v1::DrainWorkerRequest request;
    request.set_name(std::string(name));
    return Call<v1::DrainWorkerResponse>(&v1::Inference::Stub::DrainWorker, request,
                                         deadline - SteadyNow())
        .status();
  }
  absl::StatusOr<coordinator::TopologyChange> ReloadTopology(absl::Time deadline) override {
    ASSIGN_OR_RETURN(
        const v1::ReloadTopologyResponse response,
        Call<v1::ReloadTopologyResponse>(&v1::Inference::Stub::ReloadTopology,
                                         v1::ReloadTopologyRequest(), deadline - SteadyNow()));
    coordinator::TopologyChange change;
    change.joined.assign(response.joined().begin(), response.joined().end());
    change.left.assign(response.left().begin(), response.left().end());
    return change;
  }

 private:
  struct StreamCall {
    void Cancel() {  // with mutex_ held
      cancelled = true;
      context->TryCancel();
    }

    absl::Time deadline;
    std::unique_ptr<grpc::ClientContext> context;  // of the latest attempt; replaced under mutex_
    bool cancelled = false;                        // guarded by mutex_
    std::atomic<bool> ended = false;               // the reader's last word
    std::jthread reader;
  };

  void Prepare(grpc::ClientContext& context, absl::Time deadline) const {
    if (deadline != absl::InfiniteFuture())
      context.set_deadline(absl::ToChronoTime(DateOf(deadline)));
    if (!api_key_.empty()) context.AddMetadata("authorization", "Bearer " + api_key_);
  }

  template <typename Response, typename Request>
  using Method = grpc::Status (v1::Inference::Stub::*)(grpc::ClientContext*, const Request&,
                                                       Response*);

  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(Method<Response, Request> method, const Request& request,
                                absl::Duration timeout) {
    grpc::ClientContext context;
    Prepare(context, SteadyNow() + timeout);
    Response response;
    const grpc::Status status = ((*stub_).*method)(&context, request, &response);
    if (status.error_code() == grpc::StatusCode::CANCELLED)  // not by us: the server ends
      return Unavailable("{}: it ended the call: {}", address_, status.error_message());
    if (!status.ok()) return FromServer(status, address_);
    return response;
  }

  // A call that changes nothing. A connection that breaks says that the server went, not what holds
  // now: asked once more, there is an answer, or nobody who listens.
  template <typename Response, typename Request>
  absl::StatusOr<Response> Ask(Method<Response, Request> method, const Request& request,
                               absl::Duration timeout) {
    absl::StatusOr<Response> response = Call<Response>(method, request, timeout);
    if (!absl::IsUnavailable(response.status())) return response;
    return Call<Response>(method, request, timeout);
  }

  // Reads a stream on a thread of its own.
  uint64_t StartCall(absl::Time deadline, std::function<void(StreamCall&)> read) {
    ForgetEnded();
    auto call = std::make_unique<StreamCall>();
    call->deadline = deadline;
    RenewContext(*call);
    call->reader = std::jthread([c = call.get(), read = std::move(read)] {
      read(*c);
      c->ended = true;
    });
    const std::lock_guard lock(mutex_);
    calls_.emplace(++last_id_, std::move(call));
    return last_id_;
  }

  void ForgetEnded() {
    std::vector<std::unique_ptr<StreamCall>> ended;  // joined without the lock
    const std::lock_guard lock(mutex_);
    for (auto call = calls_.begin(); call != calls_.end();) {
      if (!call->second->ended) {
        ++call;
        continue;
      }
      ended.push_back(std::move(call->second));
      call = calls_.erase(call);
    }
  }

  // False: cancelled meanwhile.
  bool RenewContext(StreamCall& call) {
    auto context = std::make_unique<grpc::ClientContext>();
    Prepare(*context, call.deadline);
    const std::lock_guard lock(mutex_);
    call.context.swap(context);
    return !call.cancelled;
  }

  using AnswerStream = std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>;
  using OpenStream = std::function<AnswerStream(grpc::ClientContext*)>;

  // What has come of an answer.
  struct Progress {
    std::string request_id;
    uint32_t tokens = 0;
    bool ended = false;
  };

  grpc::Status ReadChunks(AnswerStream stream, const coordinator::GenerationSink& sink,
                          Progress* progress) {
    v1::GenerateResponse message;
    while (stream->Read(&message)) {
      GenerationChunk chunk = FromMessage(message);
      if (!chunk.request_id.empty()) progress->request_id = chunk.request_id;
      progress->tokens += static_cast<uint32_t>(chunk.tokens.size());
      progress->ended = progress->ended || chunk.last();
      sink(std::move(chunk));
    }
    return stream->Finish();
  }

  bool CoordinatorWent() {
    const int32_t known = pid_;
    const auto cluster = FetchCluster(kUnaryTimeout);
    return !cluster.ok() || cluster->pid != known;
  }

  // It refuses requests until it is better: what it says now is the answer.
  bool ClusterHasGivenUp() {
    const auto cluster = FetchCluster(kAskWhetherUp);
    return cluster.ok() && cluster->state.state == coordinator::ClusterState::kFailed;
  }

  // Goes on where it stopped, or from the beginning where nothing has come.
  AnswerStream Reopen(const OpenStream& open, StreamCall& call, const Progress& progress) {
    if (progress.request_id.empty()) return open(call.context.get());
    v1::ResumeRequest resume;
    resume.set_request_id(progress.request_id);
    resume.set_from_token(progress.tokens);
    return stub_->Resume(call.context.get(), resume);
  }

  void ReadAnswer(StreamCall& call, const OpenStream& open,
                  const coordinator::GenerationSink& sink) {
    Progress progress;
    grpc::Status status = ReadChunks(open(call.context.get()), sink, &progress);
    absl::Time give_up = SteadyNow() + kResumeFor;
    const grpc::Status broke = status;
    // A coordinator that is still there means what it says; one that went comes back.
    const bool went = !progress.ended && status.error_code() == grpc::StatusCode::UNAVAILABLE &&
                      (!progress.request_id.empty() || CoordinatorWent());
    while (went && !progress.ended && status.error_code() == grpc::StatusCode::UNAVAILABLE &&
           SteadyNow() < give_up && !ClusterHasGivenUp()) {
      absl::SleepFor(kResumeEvery);
      if (!RenewContext(call)) break;
      const uint32_t tokens = progress.tokens;
      status = ReadChunks(Reopen(open, call, progress), sink, &progress);
      if (progress.tokens > tokens) give_up = SteadyNow() + kResumeFor;
    }
    if (progress.ended) return;
    // "No such request" says less than why it broke off.
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) status = broke;
    GenerationChunk last;
    last.status = status.ok() ? Internal("{}: the answer has no end", address_)
                              : FromServer(status, address_);
    last.finish = absl::IsCancelled(last.status) ? FinishReason::kCancelled : FinishReason::kError;
    sink(std::move(last));
  }

  void ReadScores(std::unique_ptr<grpc::ClientReader<v1::ScoreResponse>> stream,
                  const coordinator::ScoreSink& sink) {
    v1::ScoreResponse message;
    while (stream->Read(&message)) {
      const size_t row_bytes = static_cast<size_t>(message.vocab_size()) * sizeof(float);
      const size_t rows = row_bytes == 0 ? 0 : message.logits().size() / row_bytes;
      for (size_t i = 0; i < rows; ++i) {
        ScoreChunk chunk;
        chunk.row = message.first_row() + static_cast<int32_t>(i);
        chunk.logits.resize(row_bytes / sizeof(float));
        std::copy_n(message.logits().data() + i * row_bytes, row_bytes,
                    reinterpret_cast<char*>(chunk.logits.data()));
        sink(std::move(chunk));
      }
      for (int i = 0; i < message.logprobs_size(); ++i) {
        ScoreChunk chunk;
        chunk.row = message.first_row() + i;
        chunk.logprob = message.logprobs(i);
        sink(std::move(chunk));
      }
    }
    const grpc::Status status = stream->Finish();
    ScoreChunk last;
    last.done = true;
    if (!status.ok()) last.status = FromServer(status, address_);
    sink(std::move(last));
  }

  const std::string address_;
  const std::string api_key_;  // "": none
  const std::unique_ptr<v1::Inference::Stub> stub_;
  std::atomic<int32_t> pid_ = 0;  // of the coordinator that was last heard of
  std::mutex mutex_;
  uint64_t last_id_ = 0;                                   // guarded by mutex_
  std::map<uint64_t, std::unique_ptr<StreamCall>> calls_;  // guarded by mutex_
};

class Server : public AnswerSource {
 public:
  explicit Server(std::unique_ptr<RemoteService> service) : service_(std::move(service)) {}
  coordinator::LlmService* service() override { return service_.get(); }

 private:
  const std::unique_ptr<RemoteService> service_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RemoteService>> RemoteService::Make(const ServerFlags& flags) {
  const auto parsed = wire::ParseAddress(flags.address);
  if (!parsed.ok()) return WithExitCode(Prefixed(parsed.status(), "--server"), kUsage);
  ASSIGN_OR_RETURN(const wire::Security security, SecurityOf(flags.tls));
  ASSIGN_OR_RETURN(std::string api_key, ApiKeyOf(flags));
  ASSIGN_OR_RETURN(auto channel, wire::MakeChannel(parsed->ToString(), security));
  return std::make_unique<GrpcService>(flags.address, std::move(api_key), std::move(channel));
}

absl::StatusOr<std::unique_ptr<AnswerSource>> ConnectToServer(const ServerFlags& flags) {
  ASSIGN_OR_RETURN(auto service, RemoteService::Make(flags));
  // Says at once where nobody listens, and in one way for all requests.
  RETURN_IF_ERROR(service->FetchCluster(kUnaryTimeout).status());
  return std::make_unique<Server>(std::move(service));
}

}  // namespace baton::cli
