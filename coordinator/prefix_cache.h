// Remembers which KV blocks hold which tokens, so that equal beginnings (system prompts, earlier
// turns of a chat) are computed once.
//
// A tree with one full block of tokens an edge: a block's bits depend on all tokens before it, so a
// block is found only by way of those. The cache holds a reference to each of its blocks and gives
// blocks up that nobody else uses, least recently used first. Owner: the scheduler; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>
#include <vector>

#include "coordinator/kv_blocks.h"
#include "engine/base/token_id.h"
#include "engine/runtime/micro_batch.h"

namespace baton::coordinator {

class PrefixCache {
 public:
  explicit PrefixCache(BlockPool* pool) : pool_(pool) {}

  // Blocks of the longest known prefix of `tokens`, at most `max_blocks`. Each gets a reference for
  // the caller.
  std::vector<int32_t> Match(std::span<const engine::TokenId> tokens, int32_t max_blocks);
  // Remembers `blocks`, which hold the first tokens, a full block each. Prefixes that are known
  // already stay with the blocks they have.
  // `batch`: the micro-batch that brings the last of them.
  void Insert(std::span<const engine::TokenId> tokens, std::span<const int32_t> blocks,
              uint64_t batch = 0);
  // Gives up the least recently used block that nobody else holds, and one that is kept only where
  // there is no other; false: there is none.
  bool EvictOne();
  // Keeps the blocks of the longest known prefix of `tokens` longer than others. Give the ticket to
  // Release when they are like any other again.
  using Ticket = std::vector<uint64_t>;
  Ticket Keep(std::span<const engine::TokenId> tokens);
  void Release(const Ticket& ticket);
  void Clear();
  // What this micro-batch or a later one was to bring has not come.
  void ForgetFrom(uint64_t batch);

  int32_t size() const { return static_cast<int32_t>(nodes_.size()); }
  int32_t num_evictable() const;  // blocks that nobody else holds

 private:
  using BlockTokens = std::array<engine::TokenId, engine::kKvBlockPositions>;
  struct Key {
    uint64_t parent = 0;  // id of the node before; 0: the beginning
    BlockTokens tokens;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct Node {
    uint64_t id = 0;     // above those of the nodes before it
    uint64_t batch = 0;  // not below those
    int32_t block = 0;
    int32_t num_children = 0;
    int32_t num_keepers = 0;
    std::list<Key>::iterator use;  // place in by_use_
  };
  using Nodes = std::unordered_map<Key, Node, KeyHash>;

  using Path = std::vector<Nodes::value_type*>;  // from the beginning

  Path Walk(std::span<const engine::TokenId> tokens, int32_t max_blocks);
  void Touch(const Path& path);
  void Erase(const Nodes::value_type& node);

  BlockPool* pool_;
  Nodes nodes_;
  std::unordered_map<uint64_t, Key> keys_;  // by node id
  std::list<Key> by_use_;  // least recently used first; a node stands after those below it
  uint64_t last_id_ = 0;
};

}  // namespace baton::coordinator
