// Mutual TLS between a coordinator and its workers: who gets in, and what they may do.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "proto/certificates.h"
#include "proto/grpc_worker_client.h"
#include "tests/support/fake_pipeline.h"
#include "tests/support/temp_dir.h"
#include "worker/worker_server.h"

namespace baton::worker {
namespace {

using namespace std::chrono_literals;
using ::baton::testing::Fails;
using ::baton::testing::FakeBatch;
using ::baton::testing::FakePipeline;
using ::baton::testing::FakeStageLoader;
using ::baton::testing::IsOk;
using ::baton::testing::kCallTimeout;
using wire::Role;

wire::Security Issue(const std::string& dir, const std::string& name, Role role) {
  const auto security = wire::IssueCertificate(
      dir, {.name = name, .role = role, .hosts = {"127.0.0.1", "localhost", "::1"}, .days = 1});
  EXPECT_THAT(security, IsOk());
  return security.ok() ? *security : wire::Security{};
}

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    EXPECT_THAT(wire::CreateAuthority(dir_.path(), 1), IsOk());
    EXPECT_THAT(wire::CreateAuthority(other_dir_.path(), 1), IsOk());
  }

  std::string StartServer(const wire::Security& security) {
    auto server = WorkerServer::Start({.listen = "127.0.0.1:0",
                                       .models_dir = "",
                                       .name = "tls",
                                       .memory_budget_bytes = 0,
                                       .security = security,
                                       .insecure = false},
                                      std::make_unique<FakeStageLoader>());
    EXPECT_THAT(server, IsOk());
    servers_.push_back(*std::move(server));
    return servers_.back()->address().ToString();
  }
  absl::Status GetInfo(const wire::Security& security, const std::string& address) {
    return wire::GrpcWorkerConnector(security).Connect(address)->GetInfo(absl::Seconds(3)).status();
  }
  absl::Status Load(const wire::Security& security, const std::string& address) {
    const auto client = wire::GrpcWorkerConnector(security).Connect(address);
    return client
        ->LoadStage({.spec = testing::FakeSpec(0, testing::kFakeLayers),
                     .epoch = 1,
                     .next_address = "",
                     .wire_type = {},
                     .part_sources = {}},
                    nullptr, kCallTimeout)
        .status();
  }

  testing::TempDir dir_, other_dir_;
  std::vector<std::unique_ptr<WorkerServer>> servers_;
};

TEST_F(TlsTest, APipelineRunsOverMutualTls) {
  const wire::Security worker = Issue(dir_.path(), "worker", Role::kWorker);
  const std::vector<std::string> addresses = {StartServer(worker), StartServer(worker)};
  wire::GrpcWorkerConnector connector(Issue(dir_.path(), "coordinator", Role::kCoordinator));
  FakePipeline pipeline(&connector, addresses);
  ASSERT_THAT(pipeline.Start(1), IsOk());
  for (uint64_t id = 1; id <= 5; ++id) pipeline.first().Submit(FakeBatch(id, 1, 100));
  for (uint64_t id = 1; id <= 5; ++id) {
    const auto result = pipeline.last_log().Next<wire::StepResult>();
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->batch_id, id);
  }
}

TEST_F(TlsTest, StrangersLearnNothing) {
  const std::string address = StartServer(Issue(dir_.path(), "worker", Role::kWorker));
  EXPECT_THAT(GetInfo({}, address), Fails(absl::StatusCode::kUnavailable, address));
  EXPECT_THAT(GetInfo(Issue(other_dir_.path(), "coordinator", Role::kCoordinator), address),
              Fails(absl::StatusCode::kUnavailable, address));
  // A certificate of theirs with our authority's name for the server: their key isn't signed.
  wire::Security forged = Issue(other_dir_.path(), "forged", Role::kCoordinator);
  forged.ca_file = dir_.File("ca.pem");
  EXPECT_THAT(GetInfo(forged, address), Fails(absl::StatusCode::kUnavailable, address));
}

TEST_F(TlsTest, AServerOfAnotherNameIsNotTrusted) {
  const auto elsewhere = wire::IssueCertificate(
      dir_.path(),
      {.name = "elsewhere", .role = Role::kWorker, .hosts = {"worker.example.com"}, .days = 1});
  ASSERT_THAT(elsewhere, IsOk());
  const std::string address = StartServer(*elsewhere);
  EXPECT_THAT(GetInfo(Issue(dir_.path(), "coordinator", Role::kCoordinator), address),
              Fails(absl::StatusCode::kUnavailable, address));
}

TEST_F(TlsTest, ARoleAllowsItsOwnCallsOnly) {
  const std::string address = StartServer(Issue(dir_.path(), "worker", Role::kWorker));
  struct Case {
    Role role;
    bool may_ask;
    bool may_load;
  };
  for (const Case& c : {Case{Role::kCoordinator, true, true}, Case{Role::kWorker, true, false},
                        Case{Role::kGenerate, false, false}, Case{Role::kAdmin, false, false}}) {
    const wire::Security peer = Issue(dir_.path(), "peer", c.role);
    if (c.may_ask) {
      EXPECT_THAT(GetInfo(peer, address), IsOk()) << wire::RoleName(c.role);
    } else {
      EXPECT_THAT(GetInfo(peer, address),
                  Fails(absl::StatusCode::kPermissionDenied, "coordinator or worker"))
          << wire::RoleName(c.role);
    }
    if (c.may_load) {
      EXPECT_THAT(Load(peer, address), IsOk()) << wire::RoleName(c.role);
    } else {
      EXPECT_THAT(Load(peer, address), Fails(absl::StatusCode::kPermissionDenied, "coordinator"))
          << wire::RoleName(c.role);
    }
  }
}

TEST_F(TlsTest, CertificatesAreReadAgain) {
  // The server starts with the other authority's files and gets ours while it runs.
  const wire::Security theirs = Issue(other_dir_.path(), "worker", Role::kWorker);
  const std::string address = StartServer(theirs);
  const wire::Security coordinator = Issue(dir_.path(), "coordinator", Role::kCoordinator);
  EXPECT_THAT(GetInfo(coordinator, address), Fails(absl::StatusCode::kUnavailable, address));
  const wire::Security ours = Issue(dir_.path(), "worker", Role::kWorker);
  constexpr auto kReplace = std::filesystem::copy_options::overwrite_existing;
  std::filesystem::copy_file(ours.ca_file, theirs.ca_file, kReplace);
  std::filesystem::copy_file(ours.key_file, theirs.key_file, kReplace);
  std::filesystem::copy_file(ours.cert_file, theirs.cert_file, kReplace);
  absl::Status status;
  for (int attempt = 0; attempt < 40; ++attempt) {
    status = GetInfo(coordinator, address);
    if (status.ok()) break;
    std::this_thread::sleep_for(500ms);
  }
  EXPECT_THAT(status, IsOk());
}

TEST_F(TlsTest, KeysAreForTheirOwnerAndAuthoritiesStay) {
  Issue(dir_.path(), "worker", Role::kWorker);
  for (const char* name : {"ca-key.pem", "worker/key.pem"}) {
    struct stat info;
    ASSERT_EQ(stat(dir_.File(name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
  }
  EXPECT_THAT(wire::CreateAuthority(dir_.path(), 1),
              Fails(absl::StatusCode::kAlreadyExists, "ca-key.pem"));
  for (const char* name : {"", "../x", "a/b", "a,DNS:b", ".x"}) {
    EXPECT_THAT(wire::IssueCertificate(
                    dir_.path(), {.name = name, .role = Role::kWorker, .hosts = {}, .days = 1}),
                Fails(absl::StatusCode::kInvalidArgument, "certificate name"))
        << name;
  }
  EXPECT_THAT(
      wire::IssueCertificate(dir_.path(),
                             {.name = "x", .role = Role::kWorker, .hosts = {"a,URI:b"}, .days = 1}),
      Fails(absl::StatusCode::kInvalidArgument, "host"));
  EXPECT_THAT(wire::ParseRole("root"), Fails(absl::StatusCode::kInvalidArgument, "role"));
}

TEST_F(TlsTest, MissingFilesAreNamed) {
  wire::Security security = Issue(dir_.path(), "worker", Role::kWorker);
  security.key_file = dir_.File("none.pem");
  EXPECT_THAT(WorkerServer::Start({.listen = "127.0.0.1:0",
                                   .models_dir = "",
                                   .name = "",
                                   .memory_budget_bytes = 0,
                                   .security = security,
                                   .insecure = false},
                                  std::make_unique<FakeStageLoader>()),
              Fails(absl::StatusCode::kNotFound, "none.pem"));
}

}  // namespace
}  // namespace baton::worker
