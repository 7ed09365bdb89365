// Reads byte ranges of model parts from a worker that holds them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "proto/security.h"

namespace baton::wire {

struct PartRange {
  std::string file_name;
  uint64_t file_bytes = 0;  // what the whole file must have at the source
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// One source. Owner: who loads. One thread.
class PartClient {
 public:
  PartClient(std::string address, const Security& security);
  ~PartClient();

  // Hands the range's bytes to `sink` in order, piece by piece, each checked against its hash. An
  // error of the sink ends the call and is returned.
  absl::Status Read(const PartRange& range,
                    const std::function<absl::Status(uint64_t offset, std::string_view)>& sink);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace baton::wire
