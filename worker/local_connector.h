// Workers inside this process: a pipeline without a network. Micro-batches and hidden states pass
// as values.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "proto/worker_client.h"
#include "worker/worker.h"

namespace baton::worker {

// Owns its workers; must outlive the clients and links it made. Any thread.
class LocalConnector : public wire::WorkerConnector {
 public:
  LocalConnector() = default;
  ~LocalConnector() override;

  // A worker under an address of any form, which coordinators and the workers before it call it by.
  // In place of one that was removed: a worker that has started again.
  void Add(const std::string& address, WorkerOptions options, std::unique_ptr<StageLoader> loader);
  // As if its process had died: links to it close, what is in it is lost.
  void Remove(const std::string& address);

  // Without serving any worker of that address, calls of the client are Unavailable.
  std::unique_ptr<wire::WorkerClient> Connect(const std::string& address) override;

 private:
  class EventGate;
  class Client;
  class Link;
  class Next;

  std::shared_ptr<Worker> Find(const std::string& address);  // null: not there

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Worker>> workers_;  // guarded by mutex_
};

}  // namespace baton::worker
