// Workers without a model, inside the test's process: the coordinator's scheduler, pipeline and
// recovery run over them without gRPC.
//
// A fake stage keeps what it is told in KV blocks of its own and draws each token from all tokens
// before it, read back through the block table of every stage: a wrong block, a lost row or a
// replay that is not equal, at any stage, gives other tokens.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/base/token_id.h"
#include "proto/worker_client.h"

namespace baton::testing {

struct FakeModel {
  int32_t vocab_size = 1000;
  int32_t num_layers = 12;
};

// The token that follows these, whatever the batching.
engine::TokenId FakeNextToken(std::span<const engine::TokenId> tokens, const FakeModel& model = {});
// The same, `count` times.
std::vector<engine::TokenId> FakeContinuation(std::vector<engine::TokenId> tokens, int count,
                                              const FakeModel& model = {});

// A prompt of its own for each seed.
std::vector<engine::TokenId> FakePrompt(int length, int seed = 1);

// All fake workers of a test, found by address. Any thread.
class FakeCluster : public wire::WorkerConnector {
 public:
  explicit FakeCluster(const FakeModel& model = {});
  ~FakeCluster() override;

  void AddWorker(const std::string& address);
  // The process dies: its links close, what it had loaded is gone. Restart brings an empty one.
  void Kill(const std::string& address);
  void Restart(const std::string& address);
  void Cut(const std::string& address);  // its link to the coordinator only
  // SIGSTOP and SIGCONT.
  void Stop(const std::string& address);
  void Continue(const std::string& address);
  void SetStepTime(absl::Duration per_batch, absl::Duration per_row);
  // Loads of this worker take so long, and tell how far they are.
  void SetLoadTime(const std::string& address, absl::Duration time);
  void FailLoads(const std::string& address, const absl::Status& status);  // OK: no more
  // Micro-batches with this token fail with `status` (at the first stage).
  void FailOnToken(engine::TokenId token, const absl::Status& status, int times = 1 << 30);

  int loads(const std::string& address) const;     // that were not there already
  int64_t rows(const std::string& address) const;  // of micro-batches that it has done
  int most_in_flight() const;  // micro-batches between first and last stage at the same time

  std::unique_ptr<wire::WorkerClient> Connect(const std::string& address) override;

  class Worker;

 private:
  friend class FakeClient;
  std::shared_ptr<Worker> Find(const std::string& address) const;

  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace baton::testing
