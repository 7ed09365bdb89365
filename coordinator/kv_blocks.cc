#include "coordinator/kv_blocks.h"

#include <cassert>

namespace baton::coordinator {

BlockPool::BlockPool(int32_t num_blocks) : references_(num_blocks, 0) {
  free_.reserve(num_blocks);
  for (int32_t block = num_blocks - 1; block >= 0; --block) free_.push_back(block);
}

std::optional<int32_t> BlockPool::Allocate() {
  if (free_.empty()) return std::nullopt;
  const int32_t block = free_.back();
  free_.pop_back();
  references_[block] = 1;
  return block;
}

void BlockPool::AddReference(int32_t block) {
  assert(references_[block] > 0);
  ++references_[block];
}

void BlockPool::Release(int32_t block) {
  assert(references_[block] > 0);
  if (--references_[block] == 0) free_.push_back(block);
}

}  // namespace baton::coordinator
