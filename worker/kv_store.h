// KV blocks on this host's disk, so that a conversation outlives its processes: one file holds the
// blocks that one stage has of one sequence of tokens.
//
// A file appears under its name only when it is whole. Its first line says what it holds, its last
// eight bytes are a hash of all before them: one of another stage, or one that the disk has
// damaged, is refused, and the tokens are computed anew.
//
// Owner: a Worker. Any thread; one call at a time works, others wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "engine/arch/layer_range.h"
#include "engine/base/status.h"

namespace baton::worker {

// What a file holds.
struct KvRecord {
  std::string key;  // 32 hexadecimal digits that stand for the model and the tokens
  engine::LayerRange layers;
  std::string form;  // of a block: KV type and device, for instance; no line break
  uint64_t block_bytes = 0;
  int32_t num_blocks = 0;
};

class KvStore {
 public:
  // `folder` is created when it is first needed; its files together take at most `limit_bytes`.
  KvStore(std::string folder, uint64_t limit_bytes)
      : folder_(std::move(folder)), limit_bytes_(limit_bytes) {}

  // The block at `index` of the record.
  using Source = std::function<absl::Status(int32_t index, std::span<std::byte> bytes)>;
  using Sink = std::function<absl::Status(int32_t index, std::span<const std::byte> bytes)>;

  // The file's size. ResourceExhausted: the limit, or the disk is full.
  absl::StatusOr<uint64_t> Save(const KvRecord& record, const Source& read);
  // NotFound: there is none. DataLoss: it is damaged or of something else; blocks that went into
  // the sink by then are worth nothing.
  absl::StatusOr<uint64_t> Restore(const KvRecord& record, const Sink& write);
  // Bytes that this gave back, of all layers.
  absl::StatusOr<uint64_t> Remove(std::string_view key);

  // Below the user's state folder. Empty: there is no home.
  static std::string DefaultFolder();

 private:
  std::string PathOf(const KvRecord& record) const;
  uint64_t BytesBeside(const std::string& path) const;

  const std::string folder_;
  const uint64_t limit_bytes_;
  std::mutex mutex_;
};

}  // namespace baton::worker
