// KV cache blocks as the coordinator gives them out. The ids are the same on all stages, so
// sharing, forks and eviction are decided once, here.
//
// A block may be given out again as soon as its last reference is dropped, even while micro-batches
// that use it are on their way: stages work in order, so what is sent later overwrites it later.
// Owner: the scheduler; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace baton::coordinator {

class BlockPool {
 public:
  explicit BlockPool(int32_t num_blocks);

  std::optional<int32_t> Allocate();  // with one reference; nullopt: none is free
  void AddReference(int32_t block);
  void Release(int32_t block);

  int32_t references(int32_t block) const { return references_[block]; }
  int32_t num_blocks() const { return static_cast<int32_t>(references_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }

 private:
  std::vector<int32_t> references_;  // [num_blocks]
  std::vector<int32_t> free_;        // a stack; lowest ids first, so that few pages are touched
};

}  // namespace baton::coordinator
