// A pipeline of fake stages, loaded and attached as a coordinator does it, over any transport.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "proto/worker_client.h"
#include "tests/support/event_log.h"
#include "tests/support/fake_stage.h"
#include "tests/support/status_matchers.h"

namespace baton::testing {

inline constexpr absl::Duration kCallTimeout = absl::Seconds(10);

class FakePipeline {
 public:
  // Layers are dealt out evenly: the number of addresses divides kFakeLayers.
  FakePipeline(wire::WorkerConnector* connector, std::vector<std::string> addresses)
      : addresses_(std::move(addresses)), logs_(addresses_.size()) {
    for (const std::string& address : addresses_) clients_.push_back(connector->Connect(address));
  }

  wire::LoadRequest Request(size_t stage, uint64_t epoch,
                            wire::WireType type = wire::WireType::kF32) const {
    const int32_t layers = kFakeLayers / static_cast<int32_t>(addresses_.size());
    const int32_t begin = static_cast<int32_t>(stage) * layers;
    return {.spec = FakeSpec(begin, begin + layers),
            .epoch = epoch,
            .next_address = stage + 1 < addresses_.size() ? addresses_[stage + 1] : "",
            .wire_type = type,
            .part_sources = {}};
  }

  absl::Status Start(uint64_t epoch, wire::WireType type = wire::WireType::kF32) {
    links_.clear();
    for (size_t stage = 0; stage < clients_.size(); ++stage) {
      RETURN_IF_ERROR(
          clients_[stage]->LoadStage(Request(stage, epoch, type), nullptr, kCallTimeout).status());
    }
    for (size_t stage = 0; stage < clients_.size(); ++stage) RETURN_IF_ERROR(Attach(stage, epoch));
    return absl::OkStatus();
  }

  absl::Status Attach(size_t stage, uint64_t epoch) {
    links_.resize(clients_.size());
    ASSIGN_OR_RETURN(links_[stage],
                     clients_[stage]->Attach({.fingerprint = "fake-model", .epoch = epoch},
                                             logs_[stage].sink(), kCallTimeout));
    return absl::OkStatus();
  }

  wire::WorkerClient& client(size_t stage) { return *clients_[stage]; }
  wire::WorkerLink& first() { return *links_[0]; }
  std::vector<std::unique_ptr<wire::WorkerLink>>& links() { return links_; }
  EventLog& log(size_t stage) { return logs_[stage]; }
  EventLog& last_log() { return logs_.back(); }

 private:
  const std::vector<std::string> addresses_;
  std::deque<EventLog> logs_;  // outlive the links
  std::vector<std::unique_ptr<wire::WorkerClient>> clients_;
  std::vector<std::unique_ptr<wire::WorkerLink>> links_;
};

}  // namespace baton::testing
