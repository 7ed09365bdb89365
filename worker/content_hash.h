// The hash that is kept beside what a worker stores: parts it fetched, KV of sessions.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace baton::worker {

// XXH3, 64 bits. One thread.
class ContentHash {
 public:
  ContentHash() : state_(XXH3_createState()) { XXH3_64bits_reset(state_.get()); }
  void Add(const void* bytes, size_t size) { XXH3_64bits_update(state_.get(), bytes, size); }
  uint64_t Digest() const { return XXH3_64bits_digest(state_.get()); }

 private:
  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  const std::unique_ptr<XXH3_state_t, FreeState> state_;
};

}  // namespace baton::worker
