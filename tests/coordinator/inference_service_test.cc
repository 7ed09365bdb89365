#include "coordinator/inference_service.h"

#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "coordinator/inference_server.h"
#include "engine/base/steady_time.h"

namespace baton::coordinator {
namespace {

using engine::TokenId;

constexpr char kComeAgain[] = "grpc-retry-pushback-ms";

// Answers by a thread a request: token 0, 1, 2, … each spelled by its number.
class CountingService : public LlmService {
 public:
  absl::StatusOr<uint64_t> Generate(const GenerationRequest& request,
                                    GenerationSink sink) override {
    last_request = request;
    if (request.max_tokens.value_or(0) < 0)
      return InvalidArgument("max_tokens: {}, expected at least 0", *request.max_tokens);
    const uint64_t id = ++last_id_;
    threads_.emplace_back(
        [this, sink, count = request.max_tokens.value_or(1 << 30)](std::stop_token stop) {
          GenerationChunk first;
          first.request_id = "r1";
          first.prompt_tokens = {7, 8};
          sink(first);
          for (int i = 0; i < count && !cancelled && !stop.stop_requested(); ++i) {
            GenerationChunk chunk;
            chunk.text = fmt::format("{} ", i);
            chunk.tokens.emplace_back().id = i;
            sink(chunk);
            if (count > 100000) absl::SleepFor(absl::Milliseconds(1));
          }
          GenerationChunk last;
          last.finish = cancelled   ? FinishReason::kCancelled
                        : fail.ok() ? FinishReason::kLength
                                    : FinishReason::kError;
          last.status = cancelled ? Cancelled("gone") : fail;
          sink(last);
          ended = true;
        });
    return id;
  }
  absl::StatusOr<uint64_t> Score(const ScoreRequest& request, ScoreSink sink) override {
    ++windows;
    threads_.emplace_back([request, sink] {
      const int32_t rows = static_cast<int32_t>(request.tokens.size()) - (request.logits ? 0 : 1);
      for (int32_t row = rows - request.last; row < rows; ++row) {
        ScoreChunk chunk;
        chunk.row = row;
        if (request.logits) chunk.logits.assign(500000, static_cast<float>(row));
        chunk.logprob = -static_cast<float>(row);
        sink(chunk);
      }
      ScoreChunk done;
      done.done = true;
      sink(done);
    });
    return ++last_id_;
  }
  void Cancel(uint64_t) override { cancelled = true; }
  absl::StatusOr<std::vector<TokenId>> Tokenize(std::string_view text, bool, bool) override {
    return std::vector<TokenId>{static_cast<TokenId>(text.size())};
  }
  absl::StatusOr<std::string> Detokenize(std::span<const TokenId> ids, bool special) override {
    return fmt::format("{} {}", ids.size(), special);
  }
  absl::StatusOr<RenderedChat> RenderChat(const ChatPrompt&) override {
    return InvalidArgument("messages: the model has no chat template");
  }
  ModelSummary model() const override {
    ModelSummary model;
    model.name = "counter";
    model.vocab_size = 500000;
    return model;
  }
  ClusterStatus cluster() const override {
    ClusterStatus status;
    status.state.state = ClusterState::kReady;
    status.workers.emplace_back().name = "w0";
    return status;
  }
  absl::Status DrainWorker(std::string_view name, absl::Time) override {
    ++draining;
    while (hold) absl::SleepFor(absl::Milliseconds(1));
    return NotFound("worker {}", name);
  }

  GenerationRequest last_request;
  absl::Status fail;
  std::atomic<bool> cancelled = false, ended = false;
  std::atomic<int> windows = 0, draining = 0;
  std::atomic<bool> hold = false;  // DrainWorker

 private:
  std::atomic<uint64_t> last_id_ = 0;
  std::vector<std::jthread> threads_;
};

class InferenceServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Topology topology;
    topology.grpc_address = "127.0.0.1:0";
    auto server = InferenceServer::Start(topology, &service_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = Connect();
  }

  // A client with a connection of its own.
  std::unique_ptr<v1::Inference::Stub> Connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(4 << 20);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return v1::Inference::NewStub(grpc::CreateCustomChannel(
        server_->address(), grpc::InsecureChannelCredentials(), arguments));
  }

  CountingService service_;
  std::unique_ptr<InferenceServer> server_;
  std::unique_ptr<v1::Inference::Stub> stub_;
};

TEST_F(InferenceServiceTest, StreamsAnAnswer) {
  grpc::ClientContext context;
  v1::GenerateRequest request;
  request.set_text("Hello");
  request.mutable_options()->set_max_tokens(2000);
  request.mutable_options()->mutable_sampling()->set_temperature(0);
  request.mutable_options()->add_stop("x");
  auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse message;
  std::vector<int32_t> tokens;
  std::string text;
  while (reader->Read(&message)) {
    for (const auto& token : message.tokens()) tokens.push_back(token.id());
    text += message.text();
    if (message.request_id() == "r1") {
      EXPECT_EQ(message.prompt_tokens_size(), 2);
    }
  }
  EXPECT_TRUE(reader->Finish().ok());
  ASSERT_EQ(tokens.size(), 2000u);
  EXPECT_EQ(tokens.back(), 1999);
  EXPECT_TRUE(text.ends_with(" 1999 "));
  EXPECT_EQ(message.finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(service_.last_request.sampling.temperature, 0);
  EXPECT_EQ(service_.last_request.sampling.top_k, 40);
  EXPECT_FALSE(service_.last_request.has_seed);
}

TEST_F(InferenceServiceTest, ErrorsKeepTheirCodeAndTheTextBeforeThem) {
  grpc::ClientContext context;
  v1::GenerateRequest request;
  request.mutable_options()->set_max_tokens(-5);
  auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse message;
  EXPECT_FALSE(reader->Read(&message));
  const grpc::Status refused = reader->Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.error_message(), "max_tokens: -5, expected at least 0");
  EXPECT_EQ(context.GetServerTrailingMetadata().count(kComeAgain), 0u);

  service_.fail = Unavailable("worker w1: lost");
  grpc::ClientContext second;
  request.mutable_options()->set_max_tokens(3);
  reader = stub_->Generate(&second, request);
  int tokens = 0;
  while (reader->Read(&message)) tokens += message.tokens_size();
  EXPECT_EQ(tokens, 3);
  const grpc::Status lost = reader->Finish();
  EXPECT_EQ(lost.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(lost.error_message(), "worker w1: lost");
  EXPECT_EQ(second.GetServerTrailingMetadata().count(kComeAgain), 1u);
}

TEST_F(InferenceServiceTest, ClientThatGoesAwayCancels) {
  v1::GenerateRequest request;
  request.mutable_options()->set_max_tokens(1 << 30);
  {
    grpc::ClientContext context;
    auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse message;
    ASSERT_TRUE(reader->Read(&message));
    context.TryCancel();
    while (reader->Read(&message)) {
    }
    EXPECT_FALSE(reader->Finish().ok());
  }
  for (int i = 0; i < 1000 && !service_.ended; ++i) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_TRUE(service_.cancelled);
}

TEST_F(InferenceServiceTest, ScoresInWindowsBelowTheMessageLimit) {
  grpc::ClientContext context;
  v1::ScoreRequest request;
  for (int i = 0; i < 70; ++i) request.add_tokens(i);
  request.set_logits(true);
  auto reader = stub_->Score(&context, request);
  v1::ScoreResponse message;
  int rows = 0;
  while (reader->Read(&message)) {
    EXPECT_EQ(message.first_row(), rows++);
    EXPECT_EQ(message.logits().size(), 500000 * sizeof(float));
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(rows, 70);
  EXPECT_EQ(service_.windows, 3);
}

TEST_F(InferenceServiceTest, OneAnswerEach) {
  grpc::ClientContext c1, c2, c3, c4, c5, c6;
  v1::TokenizeRequest tokenize;
  tokenize.set_text("abc");
  v1::TokenizeResponse ids;
  EXPECT_TRUE(stub_->Tokenize(&c1, tokenize, &ids).ok());
  EXPECT_EQ(ids.ids(0), 3);
  v1::DetokenizeRequest detokenize;
  v1::DetokenizeResponse text;
  EXPECT_TRUE(stub_->Detokenize(&c2, detokenize, &text).ok());
  EXPECT_EQ(text.text(), "0 true");
  v1::ModelInfo model;
  EXPECT_TRUE(stub_->GetModel(&c3, {}, &model).ok());
  EXPECT_EQ(model.name(), "counter");
  v1::ClusterInfo cluster;
  EXPECT_TRUE(stub_->GetCluster(&c4, {}, &cluster).ok());
  EXPECT_EQ(cluster.state(), "ready");
  EXPECT_EQ(cluster.workers(0).state(), "joining");
  v1::RenderChatResponse rendered;
  EXPECT_EQ(stub_->RenderChat(&c5, {}, &rendered).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  v1::DrainWorkerRequest drain;
  drain.set_name("w9");
  v1::DrainWorkerResponse drained;
  EXPECT_EQ(stub_->DrainWorker(&c6, drain, &drained).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(InferenceServerTest, ListensBeyondLoopbackOnlyWhenToldTo) {
  CountingService service;
  Topology topology;
  topology.grpc_address = "0.0.0.0:0";
  EXPECT_TRUE(absl::IsPermissionDenied(InferenceServer::Start(topology, &service).status()));
  topology.insecure = true;
  EXPECT_TRUE(InferenceServer::Start(topology, &service).ok());
}

TEST(InferenceServerTest, AMessageBeyondTheLimitIsRefused) {
  CountingService service;
  Topology topology;
  topology.grpc_address = "127.0.0.1:0";
  topology.limits.message_bytes = 1 << 20;
  const auto server = InferenceServer::Start(topology, &service);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel((*server)->address(), grpc::InsecureChannelCredentials()));
  for (const int32_t bytes : {(1 << 20) - 100, 1 << 20}) {
    v1::TokenizeRequest request;
    request.set_text(std::string(bytes, 'x'));
    v1::TokenizeResponse response;
    grpc::ClientContext context;
    const grpc::Status status = stub->Tokenize(&context, request, &response);
    if (bytes < 1 << 20) {
      EXPECT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(response.ids(0), bytes);
    } else {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
      EXPECT_NE(status.error_message().find("1048576"), std::string::npos);
    }
  }
}

TEST_F(InferenceServiceTest, HeadersBeyondTheLimitAreRefused) {
  const std::unique_ptr<v1::Inference::Stub> neighbour = Connect();
  const auto code = [](v1::Inference::Stub& stub, int bytes) {
    grpc::ClientContext context;
    v1::TokenizeRequest request;
    v1::TokenizeResponse response;
    context.AddMetadata("long", std::string(bytes, 'x'));
    return stub.Tokenize(&context, request, &response).error_code();
  };
  EXPECT_EQ(code(*neighbour, 0), grpc::StatusCode::OK);
  EXPECT_EQ(code(*stub_, 8'000), grpc::StatusCode::OK);
  EXPECT_EQ(code(*stub_, 20'000), grpc::StatusCode::RESOURCE_EXHAUSTED);
  // gRPC then closes the connection that they came on, so whoever shares it might lose a call.
  EXPECT_EQ(code(*neighbour, 0), grpc::StatusCode::OK);
  EXPECT_EQ(code(*Connect(), 0), grpc::StatusCode::OK);
}

TEST_F(InferenceServiceTest, CallsThatBlockAreBounded) {
  struct Call {
    grpc::ClientContext context;
    v1::DrainWorkerRequest request;
    v1::DrainWorkerResponse response;
    grpc::Status status;
  };
  service_.hold = true;
  std::deque<Call> calls(65);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<grpc::StatusCode> codes;
  for (Call& call : calls) {
    stub_->async()->DrainWorker(&call.context, &call.request, &call.response,
                                [&](const grpc::Status& status) {
                                  const std::lock_guard lock(mutex);
                                  codes.push_back(status.error_code());
                                  changed.notify_one();
                                });
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return !codes.empty(); });  // of the one too many
  EXPECT_EQ(codes[0], grpc::StatusCode::RESOURCE_EXHAUSTED);
  service_.hold = false;
  changed.wait(lock, [&] { return codes.size() == calls.size(); });
  EXPECT_EQ(std::ranges::count(codes, grpc::StatusCode::NOT_FOUND), 64);
  EXPECT_EQ(service_.draining, 64);
}

TEST_F(InferenceServiceTest, AClientThatDoesNotReadHoldsNobodyUp) {
  v1::GenerateRequest request;
  request.mutable_options()->set_max_tokens(100'000);
  grpc::ClientContext lazy;
  const auto unread = stub_->Generate(&lazy, request);
  while (!service_.ended) absl::SleepFor(absl::Milliseconds(1));  // the answer waits for its reader
  request.mutable_options()->set_max_tokens(3);
  grpc::ClientContext other;
  const auto reader = stub_->Generate(&other, request);
  v1::GenerateResponse message;
  std::string text;
  while (reader->Read(&message)) text += message.text();
  EXPECT_EQ(text, "0 1 2 ");
  EXPECT_TRUE(reader->Finish().ok());
  int32_t tokens = 0;
  while (unread->Read(&message)) tokens += message.tokens_size();
  EXPECT_EQ(tokens, 100'000);
  EXPECT_TRUE(unread->Finish().ok());
}

TEST(InferenceServerTest, ConnectionsOverTheLimitAreClosed) {
  CountingService service;
  Topology topology;
  topology.grpc_address = "127.0.0.1:0";
  topology.limits.connections = 4;
  const auto server = InferenceServer::Start(topology, &service);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto tokenize = [&] {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    const auto stub = v1::Inference::NewStub(grpc::CreateCustomChannel(
        (*server)->address(), grpc::InsecureChannelCredentials(), arguments));
    v1::TokenizeRequest request;
    v1::TokenizeResponse response;
    grpc::ClientContext context;
    return stub->Tokenize(&context, request, &response).error_code();
  };
  {
    std::vector<std::shared_ptr<grpc::Channel>> held;  // half of the room is what one address gets
    for (int i = 0; i < 2; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      held.push_back(grpc::CreateCustomChannel((*server)->address(),
                                               grpc::InsecureChannelCredentials(), arguments));
      ASSERT_TRUE(held.back()->WaitForConnected(std::chrono::system_clock::now() +
                                                std::chrono::seconds(10)));
    }
    EXPECT_EQ(tokenize(), grpc::StatusCode::UNAVAILABLE);
  }
  const absl::Time end = SteadyNow() + absl::Seconds(10);
  while (tokenize() != grpc::StatusCode::OK) ASSERT_LT(SteadyNow(), end);
}

TEST(InferenceServerTest, PortInUseIsSaid) {
  CountingService service;
  Topology topology;
  topology.grpc_address = "127.0.0.1:0";
  const auto first = InferenceServer::Start(topology, &service);
  ASSERT_TRUE(first.ok());
  topology.grpc_address = (*first)->address();
  EXPECT_TRUE(absl::IsAlreadyExists(InferenceServer::Start(topology, &service).status()));
}

}  // namespace
}  // namespace baton::coordinator
