// Workers as servers on loopback, driven by the gRPC client: what the transport itself must do.
#include "worker/worker_server.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <future>
#include <limits>
#include <thread>

#include "baton/v1/worker.grpc.pb.h"
#include "proto/channel_options.h"
#include "proto/checksum.h"
#include "proto/grpc_worker_client.h"
#include "proto/load_convert.h"
#include "proto/micro_batch_convert.h"
#include "proto/status_convert.h"
#include "proto/tensor_convert.h"
#include "proto/version.h"
#include "tests/support/fake_pipeline.h"
#include "tests/support/temp_dir.h"
#include "worker/next_stage.h"

namespace baton::worker {
namespace {

using namespace std::chrono_literals;
using ::baton::testing::EventLog;
using ::baton::testing::Fails;
using ::baton::testing::FakeBatch;
using ::baton::testing::FakePipeline;
using ::baton::testing::FakeSpec;
using ::baton::testing::FakeStageControl;
using ::baton::testing::FakeStageLoader;
using ::baton::testing::FakeStageToken;
using ::baton::testing::IsOk;
using ::baton::testing::kCallTimeout;

class WorkerServerTest : public ::testing::Test {
 protected:
  void StartServers(int count) {
    for (int i = 0; i < count; ++i) {
      controls_.push_back(std::make_shared<FakeStageControl>());
      servers_.push_back(StartServer(i, "127.0.0.1:0"));
      addresses_.push_back(servers_.back()->address().ToString());
    }
    pipeline_.emplace(&connector_, addresses_);
  }
  std::unique_ptr<WorkerServer> StartServer(size_t i, const std::string& listen) {
    auto server = WorkerServer::Start({.listen = listen,
                                       .models_dir = models_dir_,
                                       .name = fmt::format("worker-{}", i),
                                       .memory_budget_bytes = 0,
                                       .security = {},
                                       .insecure = false},
                                      std::make_unique<FakeStageLoader>(controls_[i]));
    EXPECT_THAT(server, IsOk());
    return server.ok() ? *std::move(server) : nullptr;
  }
  std::unique_ptr<v1::Worker::Stub> Stub(size_t i) {
    return v1::Worker::NewStub(*wire::MakeChannel(addresses_[i], {}));
  }

  wire::GrpcWorkerConnector connector_{wire::Security{}};
  std::string models_dir_;
  std::vector<std::shared_ptr<FakeStageControl>> controls_;
  std::vector<std::unique_ptr<WorkerServer>> servers_;
  std::vector<std::string> addresses_;
  std::optional<FakePipeline> pipeline_;  // ends before the servers
};

TEST_F(WorkerServerTest, AChainOfThreeGivesWholeResultsInOrder) {
  StartServers(3);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  for (uint64_t id = 1; id <= 40; ++id)
    pipeline_->first().Submit(FakeBatch(id, 1, static_cast<int32_t>(id), 100));
  for (uint64_t id = 1; id <= 40; ++id) {
    const auto result = pipeline_->last_log().Next<wire::StepResult>();
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->batch_id, id);
    EXPECT_EQ(result->results.at(0).token, FakeStageToken(100 + static_cast<int32_t>(id) - 1));
  }
  for (int stage = 0; stage < 3; ++stage) {
    for (int i = 0; i < 40; ++i)
      ASSERT_TRUE(pipeline_->log(stage).Next<wire::StepTimed>().has_value());
    pipeline_->links()[stage]->Heartbeat(77);
    const auto beat = pipeline_->log(stage).Next<wire::WorkerHeartbeat>();
    ASSERT_TRUE(beat.has_value());
    EXPECT_EQ(beat->sequence, 77u);
    EXPECT_EQ(beat->steps, 40u);
  }
  EXPECT_EQ(pipeline_->client(1).GetInfo(kCallTimeout)->name, "worker-1");
  const auto round_trip = pipeline_->client(0).Probe(16 << 10, kCallTimeout);
  ASSERT_THAT(round_trip, IsOk());
  EXPECT_GT(*round_trip, absl::ZeroDuration());
}

TEST_F(WorkerServerTest, BigHiddenStatesTravelInPiecesInEveryWireType) {
  // 512 rows of 6,144 floats are 12.6 MB, three times the message limit.
  for (const wire::WireType type :
       {wire::WireType::kF32, wire::WireType::kF16, wire::WireType::kBF16, wire::WireType::kQ8_0}) {
    pipeline_.reset();
    servers_.clear();
    addresses_.clear();
    controls_.clear();
    StartServers(2);
    for (auto& control : controls_) control->hidden_size = 6144;
    ASSERT_THAT(pipeline_->Start(1, type), IsOk());
    for (uint64_t id = 1; id <= 3; ++id) pipeline_->first().Submit(FakeBatch(id, 1, 512, 0));
    for (uint64_t id = 1; id <= 3; ++id) {
      const auto result = pipeline_->last_log().Next<wire::StepResult>();
      ASSERT_TRUE(result.has_value());
      EXPECT_EQ(result->batch_id, id);
      // Whole numbers below 1,000 are exact in F16 too; the others round.
      if (type == wire::WireType::kF32 || type == wire::WireType::kF16) {
        EXPECT_EQ(result->results.at(0).token, FakeStageToken(511));
      }
    }
  }
}

TEST_F(WorkerServerTest, LogitsOfManyRowsArriveWhole) {
  StartServers(1);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  auto batch = FakeBatch(1, 1, 400);
  batch->outputs.clear();
  for (int32_t row = 0; row < 400; ++row) {
    batch->outputs.push_back({.row = row,
                              .kind = engine::OutputKind::kLogits,
                              .target = engine::kNoToken,
                              .sampling = {},
                              .recent = {},
                              .output_counts = {},
                              .allowed = {}});
  }
  pipeline_->first().Submit(batch);
  const auto result = pipeline_->last_log().Next<wire::StepResult>();
  ASSERT_TRUE(result.has_value());
  ASSERT_EQ(result->results.size(), 400u);
  for (int32_t row = 0; row < 400; ++row)
    EXPECT_EQ(result->results[row].logits, std::vector<float>(1000, static_cast<float>(row)));
}

TEST_F(WorkerServerTest, ADeadNextWorkerIsNamedAndItsSuccessorFound) {
  StartServers(3);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  pipeline_->first().Submit(FakeBatch(1, 1));
  ASSERT_TRUE(pipeline_->last_log().Next<wire::StepResult>().has_value());
  servers_[1].reset();
  const auto closed = pipeline_->log(1).Next<wire::LinkClosed>();
  ASSERT_TRUE(closed.has_value());
  pipeline_->first().Submit(FakeBatch(2, 1));
  const auto failed = pipeline_->log(0).Next<wire::StepFailed>();
  ASSERT_TRUE(failed.has_value());
  EXPECT_THAT(failed->status, Fails(absl::StatusCode::kUnavailable, addresses_[1]));
  EXPECT_THAT(pipeline_->client(1).GetInfo(absl::Seconds(2)),
              Fails(absl::StatusCode::kUnavailable, addresses_[1]));

  servers_[1] = StartServer(1, addresses_[1]);
  ASSERT_NE(servers_[1], nullptr);
  absl::Status again = Unavailable("not tried");
  for (int attempt = 0; attempt < 50 && !again.ok(); ++attempt) {
    again = pipeline_->Start(2);
    if (!again.ok()) std::this_thread::sleep_for(50ms);
  }
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(controls_[0]->loads, 1);
  EXPECT_EQ(controls_[1]->loads, 2);
  pipeline_->first().Submit(FakeBatch(1, 2));
  const auto result = pipeline_->last_log().Next<wire::StepResult>();
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->epoch, 2u);
}

TEST_F(WorkerServerTest, AStageIsFoundLoadedByALaterCoordinator) {
  StartServers(2);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  pipeline_.reset();
  pipeline_.emplace(&connector_, addresses_);
  const auto info = pipeline_->client(0).GetInfo(kCallTimeout);
  ASSERT_THAT(info, IsOk());
  EXPECT_TRUE(info->loaded);
  EXPECT_EQ(info->epoch, 1u);
  ASSERT_THAT(pipeline_->Start(info->epoch + 1), IsOk());
  EXPECT_EQ(controls_[0]->loads + controls_[1]->loads, 2);
}

TEST_F(WorkerServerTest, ALoadMayTakeLongWhileItGetsOn) {
  StartServers(1);
  controls_[0]->on_load = [](const engine::LoadProgress& progress) {
    for (int i = 1; i <= 20; ++i) {
      progress(i, 1000);
      std::this_thread::sleep_for(100ms);
    }
  };
  std::atomic<uint64_t> heard = 0;
  const auto progress = [&](uint64_t done, uint64_t) {
    heard = done;
    return true;
  };
  EXPECT_THAT(pipeline_->client(0).LoadStage(pipeline_->Request(0, 1), progress, absl::Seconds(1)),
              IsOk());
  EXPECT_GT(heard, 10u);
}

TEST_F(WorkerServerTest, ALoadThatStandsStillOrIsGivenUpEnds) {
  StartServers(1);
  std::promise<void> end;
  controls_[0]->on_load = [over = end.get_future().share()](const engine::LoadProgress&) {
    over.wait();
  };
  EXPECT_THAT(
      pipeline_->client(0).LoadStage(pipeline_->Request(0, 1), nullptr, absl::Milliseconds(300)),
      Fails(absl::StatusCode::kDeadlineExceeded, "no progress in 300ms"));
  const auto give_up = [](uint64_t, uint64_t) { return false; };
  EXPECT_THAT(pipeline_->client(0).LoadStage(pipeline_->Request(0, 1), give_up, absl::Minutes(10)),
              Fails(absl::StatusCode::kCancelled, "given up"));
  end.set_value();
}

TEST_F(WorkerServerTest, APortInUseIsAnErrorAtOnce) {
  StartServers(1);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(WorkerServer::Start({.listen = addresses_[0],
                                   .models_dir = "",
                                   .name = "",
                                   .memory_budget_bytes = 0,
                                   .security = {},
                                   .insecure = false},
                                  std::make_unique<FakeStageLoader>()),
              Fails(absl::StatusCode::kAlreadyExists,
                    fmt::format("address in use: port {}", servers_[0]->address().port)));
  // A listener that isn't ours.
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(any);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&any), length), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&any), &length), 0);
  EXPECT_THAT(WorkerServer::Start({.listen = fmt::format("127.0.0.1:{}", ntohs(any.sin_port)),
                                   .models_dir = "",
                                   .name = "",
                                   .memory_budget_bytes = 0,
                                   .security = {},
                                   .insecure = false},
                                  std::make_unique<FakeStageLoader>()),
              Fails(absl::StatusCode::kAlreadyExists, "address in use"));
  close(fd);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
}

TEST_F(WorkerServerTest, OnlyLoopbackIsOpenByDefault) {
  const auto start = [](const std::string& listen, bool insecure) {
    return WorkerServer::Start({.listen = listen,
                                .models_dir = "",
                                .name = "",
                                .memory_budget_bytes = 0,
                                .security = {},
                                .insecure = insecure},
                               std::make_unique<FakeStageLoader>());
  };
  EXPECT_THAT(start("0.0.0.0:0", false), Fails(absl::StatusCode::kPermissionDenied, "0.0.0.0:0"));
  EXPECT_THAT(start("[::]:0", false), Fails(absl::StatusCode::kPermissionDenied, "TLS"));
  EXPECT_THAT(start("0.0.0.0:0", true), IsOk());
  EXPECT_THAT(start("localhost:0", false), IsOk());
  EXPECT_THAT(start("host:99999", false), Fails(absl::StatusCode::kInvalidArgument, "port"));
  EXPECT_THAT(start("192.0.2.1:0", true), Fails(absl::StatusCode::kUnknown, "192.0.2.1"));
  EXPECT_THAT(start("no-such-host.invalid:0", true),
              Fails(absl::StatusCode::kInvalidArgument, "no-such-host.invalid"));
}

TEST_F(WorkerServerTest, AnotherVersionIsRefusedWithBothSides) {
  StartServers(1);
  auto stub = Stub(0);
  v1::LoadStageRequest load;
  wire::ToProto(pipeline_->Request(0, 1), &load);
  load.set_protocol_version(wire::kProtocolVersion + 1);
  grpc::ClientContext load_context;
  auto reader = stub->LoadStage(&load_context, load);
  v1::LoadProgress progress;
  EXPECT_FALSE(reader->Read(&progress));
  const absl::Status refused = wire::FromGrpc(reader->Finish());
  EXPECT_THAT(refused,
              Fails(absl::StatusCode::kFailedPrecondition, "the coordinator runs protocol 3"));
  EXPECT_THAT(refused, Fails(absl::StatusCode::kFailedPrecondition, "this side runs protocol 2"));
  EXPECT_EQ(controls_[0]->loads, 0);

  grpc::ClientContext attach_context;
  auto stream = stub->Attach(&attach_context);
  v1::CoordinatorMessage hello;
  hello.mutable_hello()->set_protocol_version(wire::kProtocolVersion);
  hello.mutable_hello()->set_build("another");
  stream->Write(hello);
  v1::WorkerMessage answer;
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_THAT(wire::FromGrpc(stream->Finish()),
              Fails(absl::StatusCode::kFailedPrecondition, "build another"));

  grpc::ClientContext silent_context;
  auto silent = stub->Attach(&silent_context);
  v1::CoordinatorMessage beat;
  beat.mutable_heartbeat();
  wire::Seal(&beat);
  silent->Write(beat);
  EXPECT_FALSE(silent->Read(&answer));
  EXPECT_THAT(wire::FromGrpc(silent->Finish()),
              Fails(absl::StatusCode::kFailedPrecondition, "first message must be a hello"));
}

// A message as an honest sender makes it, to be spoilt.
v1::ForwardMessage ForwardPiece(uint64_t id, int32_t rows) {
  v1::ForwardMessage message;
  message.set_fingerprint("fake-model");
  message.set_first_layer(3);
  wire::ToProto(*FakeBatch(id, 1, rows), message.mutable_batch());
  wire::CutPiece({rows, 64, std::vector<float>(static_cast<size_t>(rows) * 64, 1.0f)},
                 wire::WireType::kF32, 0, wire::kMaxChunkBytes, message.mutable_hidden());
  return message;
}

TEST_F(WorkerServerTest, AHostileSenderGetsAStatus) {
  StartServers(2);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  auto stub = Stub(1);
  struct Case {
    absl::StatusCode code;
    const char* complaint;
    std::function<std::vector<v1::ForwardMessage>()> messages;
  };
  const auto one = [](auto spoil) {
    return [spoil] {
      v1::ForwardMessage message = ForwardPiece(1, 2);
      spoil(message);
      return std::vector<v1::ForwardMessage>{message};
    };
  };
  const float not_a_number = std::nanf("");
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const Case cases[] = {
      {invalid, "without a micro-batch", [] { return std::vector<v1::ForwardMessage>(1); }},
      {invalid, "without a micro-batch", one([](auto& m) { m.clear_batch(); })},
      {absl::StatusCode::kFailedPrecondition, "expected layer 3 of fake-model",
       one([](auto& m) { m.set_fingerprint("x"); })},
      {absl::StatusCode::kFailedPrecondition, "layer -1",
       one([](auto& m) { m.set_first_layer(-1); })},
      {invalid, "rows: got 0", one([](auto& m) { m.mutable_batch()->clear_tokens(); })},
      {invalid, "rows: got 100002", one([](auto& m) {
         for (int i = 0; i < 100'000; ++i) m.mutable_batch()->add_tokens(1);
       })},
      {invalid, "shape [1000000000, 64]",
       one([](auto& m) { m.mutable_hidden()->set_rows(1'000'000'000); })},
      {invalid, "shape [2, 63]", one([](auto& m) { m.mutable_hidden()->set_cols(63); })},
      {invalid, "not finite", one([&](auto& m) {
         m.mutable_hidden()->mutable_data()->replace(
             0, 4, reinterpret_cast<const char*>(&not_a_number), 4);
       })},
      {invalid, "piece of 0 bytes", one([](auto& m) { m.mutable_hidden()->clear_data(); })},
      {invalid, "another begins",
       [] {
         v1::ForwardMessage first = ForwardPiece(1, 2), second = ForwardPiece(2, 2);
         first.mutable_hidden()->mutable_data()->resize(256);
         return std::vector<v1::ForwardMessage>{first, second};
       }},
      {invalid, "token 1000000", one([](auto& m) { m.mutable_batch()->set_tokens(0, 1'000'000); })},
      {invalid, "KV block",
       one([](auto& m) { m.mutable_batch()->mutable_sequences(0)->set_kv_blocks(0, -3); })},
      {invalid, "kind: got 99", one([](auto& m) {
         m.mutable_batch()->mutable_outputs(0)->set_kind(static_cast<v1::OutputKind>(99));
       })},
  };
  for (const Case& c : cases) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 10s);
    auto stream = stub->Forward(&context);
    for (v1::ForwardMessage& message : c.messages()) {
      wire::Seal(&message);
      stream->Write(message);
    }
    v1::ForwardCredit credit;
    while (stream->Read(&credit)) {
    }
    EXPECT_THAT(wire::FromGrpc(stream->Finish()), Fails(c.code, c.complaint));
  }
  // Still at work.
  pipeline_->first().Submit(FakeBatch(50, 1));
  EXPECT_EQ(pipeline_->last_log().Next<wire::StepResult>()->batch_id, 50u);
}

TEST_F(WorkerServerTest, AMessageThatChangedOnItsWayEndsTheStream) {
  StartServers(2);
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  auto stub = Stub(1);
  const uint64_t before = wire::ChangedMessages();
  const std::function<void(v1::ForwardMessage&)> changes[] = {
      [](auto& m) { (*m.mutable_hidden()->mutable_data())[100] ^= 1; },
      [](auto& m) { m.mutable_batch()->set_tokens(0, 2); },
      [](auto& m) { m.set_check(m.check() ^ 1); },
      [](auto& m) { m.clear_check(); },
  };
  for (const auto& change : changes) {
    v1::ForwardMessage message = ForwardPiece(1, 2);
    wire::Seal(&message);
    change(message);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + 10s);
    auto stream = stub->Forward(&context);
    stream->Write(message);
    v1::ForwardCredit credit;
    EXPECT_FALSE(stream->Read(&credit));
    EXPECT_THAT(wire::FromGrpc(stream->Finish()),
                Fails(absl::StatusCode::kUnavailable, "changed on its way"));
  }
  EXPECT_EQ(wire::ChangedMessages(), before + std::size(changes));
  pipeline_->first().Submit(FakeBatch(50, 1));
  EXPECT_EQ(pipeline_->last_log().Next<wire::StepResult>()->batch_id, 50u);
}

TEST_F(WorkerServerTest, ASenderKeepsToItsWindow) {
  StartServers(2);
  const auto hold = std::make_shared<std::atomic<bool>>(true);  // steps outlive the test's body
  controls_[1]->on_run = [hold](const engine::MicroBatch&) {
    while (*hold) std::this_thread::sleep_for(1ms);
  };
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  auto stub = Stub(1);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 10s);
  auto stream = stub->Forward(&context);
  for (uint64_t id = 1; id <= 2 + kForwardWindow; ++id) {
    v1::ForwardMessage message = ForwardPiece(id, 1);
    wire::Seal(&message);
    stream->Write(message);
  }
  v1::ForwardCredit credit;
  while (stream->Read(&credit)) {
  }
  EXPECT_THAT(wire::FromGrpc(stream->Finish()),
              Fails(absl::StatusCode::kResourceExhausted, "without credit"));
  *hold = false;
}

TEST_F(WorkerServerTest, AMessageBeyondTheLimitIsRefused) {
  StartServers(1);
  grpc::ClientContext context;
  grpc::ChannelArguments unlimited;
  unlimited.SetMaxSendMessageSize(-1);
  auto stub = v1::Worker::NewStub(
      grpc::CreateCustomChannel(addresses_[0], grpc::InsecureChannelCredentials(), unlimited));
  v1::ProbeMessage request, answer;
  request.mutable_payload()->resize(wire::kMaxMessageBytes + 1);
  EXPECT_THAT(wire::FromGrpc(stub->Probe(&context, request, &answer)),
              Fails(absl::StatusCode::kResourceExhausted, "larger than max"));
  grpc::ClientContext greedy;
  request.clear_payload();
  request.set_answer_bytes(std::numeric_limits<uint64_t>::max());
  EXPECT_THAT(wire::FromGrpc(stub->Probe(&greedy, request, &answer)),
              Fails(absl::StatusCode::kInvalidArgument, "answer_bytes"));
  EXPECT_THAT(pipeline_->client(0).GetInfo(kCallTimeout), IsOk());
}

TEST_F(WorkerServerTest, OnlyModelsInTheFolderAreReadable) {
  const testing::TempDir dir;
  models_dir_ = dir.path();
  const std::string content(2'500'000, 'x');
  std::ofstream(models_dir_ + "/part.gguf", std::ios::binary) << content;
  std::ofstream(models_dir_ + "/secret.key") << "secret";
  StartServers(1);
  auto stub = Stub(0);
  const auto read = [&](const std::string& name, uint64_t offset, uint64_t bytes,
                        std::string* data) {
    grpc::ClientContext context;
    v1::ReadPartRequest request;
    request.set_file_name(name);
    request.set_offset(offset);
    request.set_bytes(bytes);
    auto reader = stub->ReadPart(&context, request);
    v1::FileChunk chunk;
    while (reader->Read(&chunk)) *data += chunk.data();
    return wire::FromGrpc(reader->Finish());
  };
  std::string data;
  ASSERT_THAT(read("part.gguf", 10, 2'400'000, &data), IsOk());
  EXPECT_EQ(data, content.substr(10, 2'400'000));
  struct Case {
    const char* name;
    uint64_t offset, bytes;
    absl::StatusCode code;
  };
  for (const Case& c : {Case{"secret.key", 0, 1, absl::StatusCode::kInvalidArgument},
                        Case{"../part.gguf", 0, 1, absl::StatusCode::kInvalidArgument},
                        Case{"/etc/x.gguf", 0, 1, absl::StatusCode::kInvalidArgument},
                        Case{"none.gguf", 0, 1, absl::StatusCode::kNotFound},
                        Case{"part.gguf", 2'500'001, 0, absl::StatusCode::kInvalidArgument},
                        Case{"part.gguf", 0, 2'500'001, absl::StatusCode::kInvalidArgument},
                        Case{"part.gguf", 1, std::numeric_limits<uint64_t>::max(),
                             absl::StatusCode::kInvalidArgument}}) {
    data.clear();
    EXPECT_THAT(read(c.name, c.offset, c.bytes, &data), Fails(c.code, "")) << c.name;
    EXPECT_TRUE(data.empty());
  }
  EXPECT_THAT(pipeline_->client(0).ReadHeader("part.gguf", kCallTimeout),
              Fails(absl::StatusCode::kDataLoss, "part.gguf"));
}

TEST_F(WorkerServerTest, ShutsDownInABoundedTimeWithWorkInFlight) {
  StartServers(2);
  controls_[1]->on_run = [](const engine::MicroBatch&) { std::this_thread::sleep_for(20ms); };
  ASSERT_THAT(pipeline_->Start(1), IsOk());
  for (uint64_t id = 1; id <= 20; ++id) pipeline_->first().Submit(FakeBatch(id, 1));
  std::this_thread::sleep_for(30ms);
  const auto start = std::chrono::steady_clock::now();
  servers_.clear();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  EXPECT_TRUE(pipeline_->log(0).Next<wire::LinkClosed>().has_value());
  EXPECT_TRUE(pipeline_->log(1).Next<wire::LinkClosed>().has_value());
}

}  // namespace
}  // namespace baton::worker
