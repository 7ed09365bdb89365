// baton.v1.Inference over LlmService: converts messages and moves chunks, nothing else.
//
// A caller shows an API key or the certificate of its connection; either must have the role that a
// call needs. gRPC's threads call it. A client that reads slowly costs one merged chunk; one that
// goes away cancels its request.
#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <list>
#include <mutex>
#include <thread>

#include "baton/v1/inference.grpc.pb.h"
#include "coordinator/api_keys.h"
#include "coordinator/llm_service.h"
#include "proto/peer_role.h"

namespace baton::coordinator {

class InferenceService : public v1::Inference::CallbackService {
 public:
  // `service` and `keys` must outlive this; null: no keys are asked for.
  InferenceService(LlmService* service, ApiKeys* keys) : service_(service), keys_(keys) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::ServerWriteReactor<v1::GenerateResponse>* Chat(grpc::CallbackServerContext* context,
                                                       const v1::ChatRequest* request) override;
  grpc::ServerWriteReactor<v1::GenerateResponse>* Resume(grpc::CallbackServerContext* context,
                                                         const v1::ResumeRequest* request) override;
  grpc::ServerWriteReactor<v1::ScoreResponse>* Score(grpc::CallbackServerContext* context,
                                                     const v1::ScoreRequest* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* RenderChat(grpc::CallbackServerContext* context,
                                       const v1::RenderChatRequest* request,
                                       v1::RenderChatResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::ModelInfo* response) override;
  grpc::ServerUnaryReactor* GetCluster(grpc::CallbackServerContext* context,
                                       const v1::GetClusterRequest* request,
                                       v1::ClusterInfo* response) override;
  grpc::ServerUnaryReactor* GetTrace(grpc::CallbackServerContext* context,
                                     const v1::GetTraceRequest* request,
                                     v1::GetTraceResponse* response) override;
  grpc::ServerUnaryReactor* Session(grpc::CallbackServerContext* context,
                                    const v1::SessionRequest* request,
                                    v1::SessionResponse* response) override;
  grpc::ServerUnaryReactor* DrainWorker(grpc::CallbackServerContext* context,
                                        const v1::DrainWorkerRequest* request,
                                        v1::DrainWorkerResponse* response) override;
  grpc::ServerUnaryReactor* ReloadTopology(grpc::CallbackServerContext* context,
                                           const v1::ReloadTopologyRequest* request,
                                           v1::ReloadTopologyResponse* response) override;

 private:
  absl::Status Allow(const grpc::CallbackServerContext& context,
                     std::initializer_list<wire::Role> roles) const;
  absl::Status MayGenerate(const grpc::CallbackServerContext& context) const;
  // Of Generate and Chat, with the request as it was read.
  grpc::ServerWriteReactor<v1::GenerateResponse>* Begin(grpc::CallbackServerContext* context,
                                                        GenerationRequest request);
  template <typename Work>
  grpc::ServerUnaryReactor* AnswerOnce(grpc::CallbackServerContext* context, Work work) const;

  // A call that blocks, on a thread of its own; `allowed` is the answer where it is an error.
  grpc::ServerUnaryReactor* AnswerApart(grpc::CallbackServerContext* context, absl::Status allowed,
                                        std::function<absl::Status(absl::Time deadline)> work);

  struct Apart {
    std::atomic<bool> done = false;
    std::jthread thread;
  };

  LlmService* const service_;
  ApiKeys* const keys_;
  std::mutex mutex_;
  std::list<Apart> apart_;  // guarded by mutex_; end before the rest
};

}  // namespace baton::coordinator
