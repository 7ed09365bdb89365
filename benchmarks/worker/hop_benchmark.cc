// What a hop costs: micro-batches of one row go around a coordinator and workers whose stages
// compute nothing, one at a time, over gRPC on loopback and inside the process.
//
// Usage: hop_benchmark [hidden_size [workers [rounds]]]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "baton/v1/worker.pb.h"
#include "proto/channel_options.h"
#include "proto/checksum.h"
#include "proto/grpc_worker_client.h"
#include "proto/micro_batch_convert.h"
#include "proto/tensor_convert.h"
#include "tests/support/fake_stage.h"
#include "worker/local_connector.h"
#include "worker/worker_server.h"

namespace baton {
namespace {

using Clock = std::chrono::steady_clock;

// Takes the result of one micro-batch at a time.
class Mailbox {
 public:
  void Put(uint64_t id) {
    const std::lock_guard lock(mutex_);
    id_ = id;
    changed_.notify_one();
  }
  bool Await(uint64_t id) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return id_ == id; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t id_ = 0;
};

absl::Status Measure(const char* name, wire::WorkerConnector& connector,
                     const std::vector<std::string>& addresses, int rounds) {
  const int count = static_cast<int>(addresses.size());
  Mailbox results;
  std::vector<std::unique_ptr<wire::WorkerClient>> clients;
  std::vector<std::unique_ptr<wire::WorkerLink>> links;
  for (const std::string& address : addresses) clients.push_back(connector.Connect(address));
  for (int i = 0; i < count; ++i) {
    const int layers = testing::kFakeLayers / count;
    const wire::LoadRequest request{.spec = testing::FakeSpec(i * layers, (i + 1) * layers),
                                    .epoch = 1,
                                    .next_address = i + 1 < count ? addresses[i + 1] : "",
                                    .wire_type = wire::WireType::kF32,
                                    .part_sources = {}};
    RETURN_IF_ERROR(clients[i]->LoadStage(request, nullptr, absl::Seconds(10)).status());
  }
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(auto link, clients[i]->Attach(
                                    {.fingerprint = "fake-model", .epoch = 1},
                                    [&results](wire::WorkerEvent event) {
                                      const auto* result = std::get_if<wire::StepResult>(&event);
                                      if (result != nullptr) {
                                        results.Put(result->batch_id);
                                      }
                                    },
                                    absl::Seconds(10)));
    links.push_back(std::move(link));
  }
  constexpr int kWarmup = 200;
  std::vector<double> times_us;
  for (int round = 1; round <= rounds + kWarmup; ++round) {
    const auto batch = testing::FakeBatch(static_cast<uint64_t>(round), 1);
    const Clock::time_point start = Clock::now();
    links[0]->Submit(batch);
    if (!results.Await(static_cast<uint64_t>(round)))
      return DeadlineExceeded("a result is missing");
    if (round > kWarmup) {
      times_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
  }
  std::ranges::sort(times_us);
  const double median = times_us[times_us.size() / 2];
  fmt::print("{:8} p50 {:7.1f} us, p99 {:7.1f} us a round of {} hops; {:6.1f} us a hop\n", name,
             median, times_us[times_us.size() * 99 / 100], count + 1, median / (count + 1));
  return absl::OkStatus();
}

// What both sides of a hop spend on its checksum.
void MeasureChecksum(int hidden_size, int rounds) {
  v1::ForwardMessage message;
  wire::ToProto(*testing::FakeBatch(1, 1), message.mutable_batch());
  const engine::HiddenStates hidden{
      .rows = 1, .cols = hidden_size, .values = std::vector<float>(hidden_size, 1.0f)};
  wire::CutPiece(hidden, wire::WireType::kF32, 0, wire::kMaxChunkBytes, message.mutable_hidden());
  std::vector<double> times_us;
  int sound = 0;
  for (int round = 0; round < rounds; ++round) {
    const Clock::time_point start = Clock::now();
    wire::Seal(&message);
    sound += wire::CheckSeal(&message).ok() ? 1 : 0;
    times_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::ranges::sort(times_us);
  fmt::print("checksum made and checked: p50 {:.2f} us a hop, {} of {} sound\n",
             times_us[times_us.size() / 2], sound, rounds);
}

absl::Status Run(int hidden_size, int workers, int rounds) {
  const auto control = std::make_shared<testing::FakeStageControl>();
  control->hidden_size = hidden_size;
  fmt::print("hidden states of {} bytes, {} workers\n", hidden_size * sizeof(float), workers);

  std::vector<std::unique_ptr<worker::WorkerServer>> servers;
  std::vector<std::string> addresses, names;
  for (int i = 0; i < workers; ++i) {
    ASSIGN_OR_RETURN(auto server, worker::WorkerServer::Start(
                                      {}, std::make_unique<testing::FakeStageLoader>(control)));
    addresses.push_back(server->address().ToString());
    servers.push_back(std::move(server));
  }
  wire::GrpcWorkerConnector connector{wire::Security{}};
  RETURN_IF_ERROR(Measure("gRPC", connector, addresses, rounds));

  worker::LocalConnector local;
  for (int i = 0; i < workers; ++i) {
    names.push_back(fmt::format("stage-{}", i));
    local.Add(names.back(), {.name = names.back()},
              std::make_unique<testing::FakeStageLoader>(control));
  }
  RETURN_IF_ERROR(Measure("local", local, names, rounds));
  MeasureChecksum(hidden_size, 10 * rounds);
  return absl::OkStatus();
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  const auto argument = [&](int index, int otherwise) {
    return argc > index ? std::atoi(argv[index]) : otherwise;
  };
  const absl::Status status = baton::Run(argument(1, 4096), argument(2, 3), argument(3, 2000));
  if (!status.ok()) fmt::print(stderr, "{}\n", std::string(baton::Message(status)));
  return status.ok() ? 0 : 1;
}
