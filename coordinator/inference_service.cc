#include "coordinator/inference_service.h"

#include <algorithm>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "engine/base/steady_time.h"
#include "proto/status_convert.h"

namespace baton::coordinator {

using engine::TokenId;

namespace {

constexpr size_t kMaxTokensInMessage = 512;
constexpr size_t kScoreWindowBytes = 32 << 20;  // of logits that may wait for a slow reader
constexpr int32_t kScoreWindowRows = 32;        // at least
constexpr size_t kMaxApart = 64;                // calls that block, each on a thread
constexpr absl::Duration kLongestApart = absl::Minutes(5);

std::string_view Authorization(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find("authorization");
  if (found == context.client_metadata().end()) return "";
  return {found->second.data(), found->second.size()};
}

// "ipv4:10.0.0.1:54321" without the port.
uint64_t AskerOf(const grpc::CallbackServerContext& context) {
  const std::string peer = context.peer();
  return ClientOf(Authorization(context), std::string_view(peer).substr(0, peer.rfind(':')));
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  return SteadyTimeOf(absl::FromChrono(context.deadline()));
}

// How a call ends. Where it may succeed later, a trailer that gRPC's own retry policies read says
// when to come again.
grpc::Status EndOf(grpc::CallbackServerContext* context, const absl::Status& status) {
  if (absl::IsResourceExhausted(status) || absl::IsUnavailable(status)) {
    context->AddTrailingMetadata("grpc-retry-pushback-ms", fmt::format("{}", kComeAgainAfterMs));
  }
  return wire::ToGrpc(status);
}

// Options to values; what is absent keeps its default.
void ReadSampling(const v1::SamplingOptions& from, GenerationRequest* request) {
  engine::SamplingParams& to = request->sampling;
  if (from.has_temperature()) to.temperature = from.temperature();
  if (from.has_top_k()) to.top_k = from.top_k();
  if (from.has_top_p()) to.top_p = from.top_p();
  if (from.has_min_p()) to.min_p = from.min_p();
  if (from.has_repetition_penalty()) to.repetition_penalty = from.repetition_penalty();
  if (from.has_presence_penalty()) to.presence_penalty = from.presence_penalty();
  if (from.has_frequency_penalty()) to.frequency_penalty = from.frequency_penalty();
  if (from.has_top_logprobs()) to.top_logprobs = from.top_logprobs();
  request->has_seed = from.has_seed();
  if (from.has_seed()) to.seed = from.seed();
  for (const v1::LogitBias& bias : from.logit_bias())
    to.logit_bias.emplace_back(bias.token(), bias.bias());
}

void ReadOptions(const v1::GenerationOptions& from, GenerationRequest* to) {
  ReadSampling(from.sampling(), to);
  if (from.has_max_tokens()) to->max_tokens = from.max_tokens();
  to->stop.assign(from.stop().begin(), from.stop().end());
  to->ignore_eos = from.ignore_eos();
  to->priority = from.priority();
  if (from.has_speculation()) to->speculation = from.speculation();
  to->grammar_json_schema = from.grammar_json_schema();
  to->session = from.session();
}

void WriteToken(GeneratedToken token, v1::GeneratedToken* to) {
  to->set_id(token.id);
  to->set_logprob(token.logprob);
  for (const engine::TokenLogprob& top : token.top) {
    v1::TokenLogprob* out = to->add_top();
    out->set_token(top.id);
    out->set_logprob(top.logprob);
  }
  to->set_text(std::move(token.bytes));
}

void WriteTimings(const GenerationTimings& from, v1::Timings* to) {
  to->set_load_ms(from.load_ms);
  to->set_queue_ms(from.queue_ms);
  to->set_cached_tokens(from.cached_tokens);
  to->set_prefill_tokens(from.prefill_tokens);
  to->set_prefill_ms(from.prefill_ms);
  to->set_decode_tokens(from.decode_tokens);
  to->set_decode_ms(from.decode_ms);
}

v1::FinishReason ToMessage(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return v1::FINISH_REASON_STOP;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kCancelled:
      return v1::FINISH_REASON_CANCELLED;
    default:
      return v1::FINISH_REASON_NONE;
  }
}

// Takes what one message may hold out of `from`.
v1::GenerateResponse TakeMessage(GenerationChunk* from) {
  v1::GenerateResponse to;
  to.set_request_id(std::exchange(from->request_id, {}));
  to.mutable_prompt_tokens()->Assign(from->prompt_tokens.begin(), from->prompt_tokens.end());
  from->prompt_tokens.clear();
  const size_t count = std::min(from->tokens.size(), kMaxTokensInMessage);
  for (size_t i = 0; i < count; ++i) WriteToken(std::move(from->tokens[i]), to.add_tokens());
  from->tokens.erase(from->tokens.begin(), from->tokens.begin() + static_cast<ptrdiff_t>(count));
  if (!from->tokens.empty()) return to;
  to.set_text(std::exchange(from->text, {}));
  if (!from->last()) return to;
  to.set_finish_reason(ToMessage(from->finish));
  WriteTimings(from->timings, to.mutable_timings());
  for (const StageOfWorker& stage : from->stages) {
    v1::StageInfo* info = to.add_stages();
    info->set_worker(stage.worker);
    info->set_layer_begin(stage.layers.begin);
    info->set_layer_end(stage.layers.end);
  }
  to.set_stop_string(from->stop_string);
  return to;
}

// One answer on its way to a client. The sink holds it as long as chunks may come, gRPC until
// OnDone.
class GenerateCall : public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  GenerateCall(LlmService* service, grpc::CallbackServerContext* context)
      : service_(service), context_(context) {}

  // `begin` hands the sink to the service.
  static GenerateCall* Start(LlmService* service, grpc::CallbackServerContext* context,
                             const std::function<absl::StatusOr<uint64_t>(GenerationSink)>& begin) {
    const auto call = std::make_shared<GenerateCall>(service, context);
    call->self_ = call;
    const absl::StatusOr<uint64_t> id =
        begin([call](GenerationChunk chunk) { call->Push(std::move(chunk)); });
    if (!id.ok()) {
      call->Finish(EndOf(context, id.status()));
      return call.get();
    }
    bool cancelled = false;
    {
      const std::lock_guard lock(call->mutex_);
      call->id_ = *id;
      cancelled = call->cancelled_;
    }
    if (cancelled) service->Cancel(*id);
    return call.get();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) OnCancel();
    const std::lock_guard lock(mutex_);
    writing_ = false;
    WriteNext();
  }
  void OnCancel() override {
    uint64_t id = 0;
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
      id = id_;
    }
    if (id != 0) service_->Cancel(id);
  }
  void OnDone() override { const std::shared_ptr<GenerateCall> last = std::move(self_); }

 private:
  void Push(GenerationChunk chunk) {
    const std::lock_guard lock(mutex_);
    if (pending_) {
      Append(std::move(chunk), &*pending_);
    } else {
      pending_ = std::move(chunk);
    }
    WriteNext();
  }

  void WriteNext() {
    if (writing_ || finished_ || !pending_) return;
    message_ = TakeMessage(&*pending_);
    const bool more = !pending_->tokens.empty();
    const bool last = pending_->last() && !more;
    const absl::Status status = pending_->status;
    if (!more) pending_.reset();
    if (last) {
      finished_ = true;
      StartWriteAndFinish(&message_, grpc::WriteOptions(), EndOf(context_, status));
      return;
    }
    writing_ = true;
    StartWrite(&message_);
  }

  LlmService* const service_;
  grpc::CallbackServerContext* const context_;  // gRPC's, until OnDone
  std::shared_ptr<GenerateCall> self_;
  std::mutex mutex_;
  std::optional<GenerationChunk> pending_;  // guarded by mutex_, as the rest
  v1::GenerateResponse message_;
  uint64_t id_ = 0;
  bool writing_ = false;
  bool finished_ = false;
  bool cancelled_ = false;
};

// Scores window by window, so that no more than one waits for a slow reader. Windows after the
// first find their beginning in the prefix cache.
class ScoreCall : public grpc::ServerWriteReactor<v1::ScoreResponse> {
 public:
  ScoreCall(LlmService* service, grpc::CallbackServerContext* context,
            const v1::ScoreRequest& request)
      : service_(service),
        context_(context),
        logits_(request.logits()),
        deadline_(DeadlineOf(*context)) {
    tokens_.assign(request.tokens().begin(), request.tokens().end());
    last_ = request.last();
  }

  static ScoreCall* Start(LlmService* service, grpc::CallbackServerContext* context,
                          const absl::Status& allowed, const v1::ScoreRequest& request) {
    const auto call = std::make_shared<ScoreCall>(service, context, request);
    call->self_ = call;
    const int32_t rows = static_cast<int32_t>(call->tokens_.size()) - (call->logits_ ? 0 : 1);
    call->next_row_ = call->last_ > 0 ? std::max(rows - call->last_, 0) : 0;
    call->end_row_ = rows;
    const size_t row_bytes =
        sizeof(float) * static_cast<size_t>(std::max(service->model().vocab_size, 1));
    call->window_ =
        call->logits_ ? std::max<int32_t>(kScoreWindowRows, kScoreWindowBytes / row_bytes) : rows;
    if (call->last_ < 0 || call->last_ > std::max(rows, 0)) {
      call->Finish(wire::ToGrpc(
          InvalidArgument("last: {}, expected 0 to {}", call->last_, std::max(rows, 0))));
      return call.get();
    }
    const absl::Status status = allowed.ok() ? call->StartWindow() : allowed;
    if (!status.ok()) call->Finish(EndOf(context, status));
    return call.get();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) OnCancel();
    absl::Status next;
    {
      const std::lock_guard lock(mutex_);
      rows_.erase(rows_.begin());
      writing_ = false;
      WriteNext();
      if (!wants_window_) return;
      wants_window_ = false;
    }
    next = StartWindow();
    if (!next.ok()) End(next);
  }
  void OnCancel() override {
    uint64_t id = 0;
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
      id = id_;
    }
    if (id != 0) service_->Cancel(id);
  }
  void OnDone() override { const std::shared_ptr<ScoreCall> last = std::move(self_); }

 private:
  absl::Status StartWindow() {
    ScoreRequest request;
    {
      const std::lock_guard lock(mutex_);
      const int32_t end = std::min(end_row_, next_row_ + window_);
      const int32_t count = end + (logits_ ? 0 : 1);
      request.tokens.assign(tokens_.begin(), tokens_.begin() + std::max(count, 0));
      request.last = end - next_row_;
      request.logits = logits_;
      request.deadline = deadline_;
      next_row_ = end;
      window_done_ = false;
    }
    const auto self = self_;
    ASSIGN_OR_RETURN(const uint64_t id, service_->Score(request, [self](ScoreChunk chunk) {
      self->Push(std::move(chunk));
    }));
    bool cancelled = false;
    {
      const std::lock_guard lock(mutex_);
      id_ = id;
      cancelled = cancelled_;
    }
    if (cancelled) service_->Cancel(id);
    return absl::OkStatus();
  }

  void Push(ScoreChunk chunk) {
    bool next_window = false;
    {
      const std::lock_guard lock(mutex_);
      if (!chunk.done) {
        v1::ScoreResponse row;
        row.set_first_row(chunk.row);
        row.set_vocab_size(static_cast<int32_t>(chunk.logits.size()));
        if (logits_) {
          row.set_logits(chunk.logits.data(), chunk.logits.size() * sizeof(float));
        } else {
          row.add_logprobs(chunk.logprob);
        }
        rows_.push_back(std::move(row));
      } else {
        window_done_ = true;
        status_ = chunk.status;
      }
      WriteNext();
      next_window = std::exchange(wants_window_, false);
    }
    if (!next_window) return;
    if (const absl::Status status = StartWindow(); !status.ok()) End(status);
  }

  void WriteNext() {
    if (writing_ || finished_) return;
    if (!rows_.empty()) {
      writing_ = true;
      StartWrite(&rows_.front());
    } else if (window_done_ && (!status_.ok() || next_row_ >= end_row_)) {
      finished_ = true;
      Finish(EndOf(context_, status_));
    } else if (window_done_) {
      wants_window_ = true;
    }
  }

  void End(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(finished_, true)) return;
    Finish(EndOf(context_, status));
  }

  LlmService* const service_;
  grpc::CallbackServerContext* const context_;  // gRPC's, until OnDone
  const bool logits_;
  const absl::Time deadline_;
  std::vector<TokenId> tokens_;
  int32_t last_ = 0;
  int32_t window_ = 0;
  std::shared_ptr<ScoreCall> self_;
  std::mutex mutex_;
  std::list<v1::ScoreResponse>
      rows_;  // guarded by mutex_, as the rest; the front one is being written
  absl::Status status_;
  int32_t next_row_ = 0;
  int32_t end_row_ = 0;
  uint64_t id_ = 0;
  bool writing_ = false;
  bool window_done_ = false;
  bool wants_window_ = false;
  bool finished_ = false;
  bool cancelled_ = false;
};

void WriteModel(const ModelSummary& from, v1::ModelInfo* to) {
  to->set_name(from.name);
  to->set_architecture(from.architecture);
  to->set_fingerprint(from.fingerprint);
  to->set_num_layers(from.num_layers);
  to->set_hidden_size(from.hidden_size);
  to->set_vocab_size(from.vocab_size);
  to->set_context_length(from.context_length);
  to->set_trained_context_length(from.trained_context_length);
  to->set_parameters(from.parameters);
  to->set_bytes(from.bytes);
  to->set_bos(from.bos);
  to->set_eos(from.eos);
  to->set_has_chat_template(from.has_chat_template);
  for (const std::string& warning : from.warnings) to->add_warnings(warning);
}

void WriteWorker(const WorkerSnapshot& from, v1::ClusterInfo::Worker* to) {
  to->set_name(from.name);
  to->set_address(from.address);
  to->set_pid(from.info.pid);
  to->set_state(std::string(WorkerStateName(from.state)));
  to->set_layer_begin(from.layers.begin);
  to->set_layer_end(from.layers.end);
  to->set_device(from.info.device);
  to->set_backend(from.info.backend);
  to->set_weights_bytes(from.weights_bytes);
  to->set_kv_bytes(from.kv_bytes);
  to->set_rss_bytes(from.info.rss_bytes);
  to->set_weight_bytes_received(from.info.weight_bytes_received);
  to->set_load_progress(from.load_progress);
  to->set_round_trip_ms(absl::ToDoubleMilliseconds(from.round_trip));
  to->set_reason(from.reason);
  to->set_memory_available_bytes(from.info.memory_available_bytes);
}

void WriteCounts(const SchedulerStats& from, v1::ClusterInfo* to) {
  to->set_running(from.running);
  to->set_waiting(from.waiting);
  to->set_kv_blocks_total(from.kv_blocks_total);
  to->set_kv_blocks_used(from.kv_blocks_used);
  to->set_prompt_tokens(from.prompt_tokens);
  to->set_cached_tokens(from.cached_tokens);
  to->set_new_tokens(from.new_tokens);
  to->set_drafted_tokens(from.drafted_tokens);
  to->set_accepted_tokens(from.accepted_tokens);
  to->set_preemptions(from.preemptions);
}

void WriteCluster(const ClusterStatus& from, v1::ClusterInfo* to) {
  to->set_state(std::string(ClusterStateName(from.state.state)));
  to->set_epoch(from.state.epoch);
  to->set_reason(from.state.reason);
  WriteModel(from.model, to->mutable_model());
  to->set_pid(from.pid);
  to->set_rss_bytes(from.rss_bytes);
  to->set_tokens_per_s(from.pipeline.tokens_per_s);
  WriteCounts(from.pipeline.scheduler, to);
  to->set_bottleneck(from.bottleneck);
  for (const WorkerSnapshot& worker : from.workers) WriteWorker(worker, to->add_workers());
  const size_t stages = std::min(from.state.placement.size(), from.pipeline.stages.size());
  for (size_t i = 0; i < stages; ++i) {
    v1::ClusterInfo::Worker* worker =
        to->mutable_workers(static_cast<int>(from.state.placement[i].worker));
    worker->set_stage_ms(from.pipeline.stages[i].step_ms);
    worker->set_busy_share(from.pipeline.stages[i].busy_share);
    worker->set_steps(from.pipeline.stages[i].steps);
    worker->set_compute_us(from.pipeline.stages[i].compute_us);
    worker->set_queue_us(from.pipeline.stages[i].queue_us);
    worker->set_queue_ms(from.pipeline.stages[i].queue_ms);
    worker->set_link_ms(from.pipeline.stages[i].link_ms);
  }
}

}  // namespace

absl::Status InferenceService::Allow(const grpc::CallbackServerContext& context,
                                     std::initializer_list<wire::Role> roles) const {
  const auto peer = context.auth_context();
  const std::string_view authorization = Authorization(context);
  const bool by_key = keys_ != nullptr && (!authorization.empty() || !wire::HasCertificate(*peer));
  return by_key ? keys_->Check(authorization, roles) : wire::CheckPeerRole(*peer, roles);
}

absl::Status InferenceService::MayGenerate(const grpc::CallbackServerContext& context) const {
  return Allow(context, {wire::Role::kGenerate, wire::Role::kAdmin});
}

// A call with one answer: `work` fills it in, if the caller may.
template <typename Work>
grpc::ServerUnaryReactor* InferenceService::AnswerOnce(grpc::CallbackServerContext* context,
                                                       Work work) const {
  absl::Status status = MayGenerate(*context);
  if (status.ok()) status = work();
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(EndOf(context, status));
  return reactor;
}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Begin(
    grpc::CallbackServerContext* context, GenerationRequest request) {
  request.deadline = DeadlineOf(*context);
  request.client = AskerOf(*context);
  const auto begin = [&](GenerationSink sink) -> absl::StatusOr<uint64_t> {
    RETURN_IF_ERROR(MayGenerate(*context));
    return service_->Generate(request, std::move(sink));
  };
  return GenerateCall::Start(service_, context, begin);
}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* message) {
  GenerationRequest request;
  if (message->has_text()) {
    request.prompt = TextPrompt{message->text(), message->parse_special()};
  } else {  // absent: no tokens, which is refused
    const auto& ids = message->tokens().ids();
    request.prompt = TokenPrompt{std::vector<TokenId>(ids.begin(), ids.end())};
  }
  ReadOptions(message->options(), &request);
  return Begin(context, std::move(request));
}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Chat(
    grpc::CallbackServerContext* context, const v1::ChatRequest* message) {
  GenerationRequest request;
  request.prompt =
      ChatPrompt{message->messages_json(), message->tools_json(), message->template_args_json()};
  ReadOptions(message->options(), &request);
  return Begin(context, std::move(request));
}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Resume(
    grpc::CallbackServerContext* context, const v1::ResumeRequest* message) {
  const auto from = static_cast<int32_t>(std::min<uint32_t>(message->from_token(), 1u << 30));
  return GenerateCall::Start(
      service_, context, [&](GenerationSink sink) -> absl::StatusOr<uint64_t> {
        RETURN_IF_ERROR(MayGenerate(*context));
        return service_->Resume(message->request_id(), from, DeadlineOf(*context), std::move(sink));
      });
}

grpc::ServerWriteReactor<v1::ScoreResponse>* InferenceService::Score(
    grpc::CallbackServerContext* context, const v1::ScoreRequest* request) {
  return ScoreCall::Start(service_, context, MayGenerate(*context), *request);
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(grpc::CallbackServerContext* context,
                                                     const v1::TokenizeRequest* request,
                                                     v1::TokenizeResponse* response) {
  return AnswerOnce(context, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(
        const std::vector<TokenId> ids,
        service_->Tokenize(request->text(), request->parse_special(), request->add_special()));
    response->mutable_ids()->Assign(ids.begin(), ids.end());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(grpc::CallbackServerContext* context,
                                                       const v1::DetokenizeRequest* request,
                                                       v1::DetokenizeResponse* response) {
  return AnswerOnce(context, [&]() -> absl::Status {
    const std::vector<TokenId> ids(request->ids().begin(), request->ids().end());
    ASSIGN_OR_RETURN(*response->mutable_text(),
                     service_->Detokenize(ids, !request->has_special() || request->special()));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* InferenceService::RenderChat(grpc::CallbackServerContext* context,
                                                       const v1::RenderChatRequest* request,
                                                       v1::RenderChatResponse* response) {
  return AnswerOnce(context, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const LlmService::RenderedChat rendered,
                     service_->RenderChat({request->messages_json(), request->tools_json(),
                                           request->template_args_json()}));
    response->set_text(rendered.text);
    response->mutable_ids()->Assign(rendered.ids.begin(), rendered.ids.end());
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* InferenceService::GetModel(grpc::CallbackServerContext* context,
                                                     const v1::GetModelRequest* /*request*/,
                                                     v1::ModelInfo* response) {
  return AnswerOnce(context, [&] {
    WriteModel(service_->model(), response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* InferenceService::GetCluster(grpc::CallbackServerContext* context,
                                                       const v1::GetClusterRequest* /*request*/,
                                                       v1::ClusterInfo* response) {
  return AnswerOnce(context, [&] {
    WriteCluster(service_->cluster(), response);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* InferenceService::GetTrace(grpc::CallbackServerContext* context,
                                                     const v1::GetTraceRequest* request,
                                                     v1::GetTraceResponse* response) {
  return AnswerOnce(context, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(*response->mutable_chrome_json(), service_->Trace(request->request_id()));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* InferenceService::AnswerApart(
    grpc::CallbackServerContext* context, absl::Status allowed,
    std::function<absl::Status(absl::Time deadline)> work) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const std::lock_guard lock(mutex_);
  apart_.remove_if([](const Apart& call) { return call.done.load(); });
  if (allowed.ok() && apart_.size() >= kMaxApart)
    allowed = ResourceExhausted("{} calls of this kind are running already", kMaxApart);
  if (!allowed.ok()) {
    reactor->Finish(EndOf(context, allowed));
    return reactor;
  }
  const absl::Time deadline = std::min(DeadlineOf(*context), SteadyNow() + kLongestApart);
  Apart& call = apart_.emplace_back();
  call.thread = std::jthread([&call, context, reactor, deadline, work = std::move(work)] {
    reactor->Finish(EndOf(context, work(deadline)));
    call.done = true;
  });
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::Session(grpc::CallbackServerContext* context,
                                                    const v1::SessionRequest* request,
                                                    v1::SessionResponse* response) {
  absl::Status allowed = MayGenerate(*context);
  if (allowed.ok() && !v1::SessionAction_IsValid(request->action()))
    allowed = InvalidArgument("action: got {}", static_cast<int>(request->action()));
  return AnswerApart(
      context, allowed, [this, request, response](absl::Time deadline) -> absl::Status {
        ASSIGN_OR_RETURN(const std::vector<SessionInfo> sessions,
                         service_->Session({.action = static_cast<SessionAction>(request->action()),
                                            .name = request->name(),
                                            .to = request->to(),
                                            .deadline = deadline}));
        for (const SessionInfo& from : sessions) {
          v1::SessionInfo* to = response->add_sessions();
          to->set_name(from.name);
          to->set_tokens(from.tokens);
          to->set_saved_tokens(from.saved_tokens);
          to->set_blocks_tokens(from.blocks_tokens);
          to->set_note(from.note);
        }
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* InferenceService::DrainWorker(grpc::CallbackServerContext* context,
                                                        const v1::DrainWorkerRequest* request,
                                                        v1::DrainWorkerResponse* /*response*/) {
  return AnswerApart(context, Allow(*context, {wire::Role::kAdmin}),
                     [this, name = request->name()](absl::Time deadline) {
                       return service_->DrainWorker(name, deadline);
                     });
}

grpc::ServerUnaryReactor* InferenceService::ReloadTopology(
    grpc::CallbackServerContext* context, const v1::ReloadTopologyRequest* /*request*/,
    v1::ReloadTopologyResponse* response) {
  return AnswerApart(context, Allow(*context, {wire::Role::kAdmin}),
                     [this, response](absl::Time deadline) -> absl::Status {
                       ASSIGN_OR_RETURN(const TopologyChange change,
                                        service_->ReloadTopology(deadline));
                       for (const std::string& name : change.joined) response->add_joined(name);
                       for (const std::string& name : change.left) response->add_left(name);
                       return absl::OkStatus();
                     });
}

}  // namespace baton::coordinator
