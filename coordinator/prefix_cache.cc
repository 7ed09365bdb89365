#include "coordinator/prefix_cache.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <string_view>

namespace baton::coordinator {

using engine::kKvBlockPositions;
using engine::TokenId;

size_t PrefixCache::KeyHash::operator()(const Key& key) const {
  const std::string_view bytes(reinterpret_cast<const char*>(key.tokens.data()),
                               sizeof(key.tokens));
  return std::hash<std::string_view>()(bytes) ^ (key.parent * 0x9E3779B97F4A7C15u);
}

PrefixCache::Path PrefixCache::Walk(std::span<const TokenId> tokens, int32_t max_blocks) {
  Path path;
  Key key;
  const size_t blocks = std::min<size_t>(max_blocks, tokens.size() / kKvBlockPositions);
  while (path.size() < blocks) {
    const auto edge = tokens.subspan(path.size() * kKvBlockPositions, kKvBlockPositions);
    std::copy(edge.begin(), edge.end(), key.tokens.begin());
    const auto node = nodes_.find(key);
    if (node == nodes_.end()) break;
    path.push_back(&*node);
    key.parent = node->second.id;
  }
  return path;
}

void PrefixCache::Touch(const Path& path) {
  for (auto node = path.rbegin(); node != path.rend(); ++node) {
    by_use_.splice(by_use_.end(), by_use_, (*node)->second.use);
  }
}

std::vector<int32_t> PrefixCache::Match(std::span<const TokenId> tokens, int32_t max_blocks) {
  const Path path = Walk(tokens, max_blocks);
  Touch(path);
  std::vector<int32_t> blocks;
  for (const auto* node : path) {
    pool_->AddReference(node->second.block);
    blocks.push_back(node->second.block);
  }
  return blocks;
}

void PrefixCache::Insert(std::span<const TokenId> tokens, std::span<const int32_t> blocks,
                         uint64_t batch) {
  Path path = Walk(tokens, static_cast<int32_t>(blocks.size()));
  while (path.size() < blocks.size()) {
    Key key;
    key.parent = path.empty() ? 0 : path.back()->second.id;
    const auto edge = tokens.subspan(path.size() * kKvBlockPositions, kKvBlockPositions);
    std::copy(edge.begin(), edge.end(), key.tokens.begin());
    if (!path.empty()) ++path.back()->second.num_children;
    const int32_t block = blocks[path.size()];
    pool_->AddReference(block);
    const Node node{.id = ++last_id_,
                    .batch = batch,
                    .block = block,
                    .use = by_use_.insert(by_use_.end(), key)};
    keys_.emplace(node.id, key);
    path.push_back(&*nodes_.emplace(key, node).first);
  }
  Touch(path);
}

bool PrefixCache::EvictOne() {
  const Nodes::value_type* kept = nullptr;
  for (const Key& key : by_use_) {
    const auto node = nodes_.find(key);
    if (node->second.num_children > 0 || pool_->references(node->second.block) > 1) continue;
    if (node->second.num_keepers > 0) {
      if (kept == nullptr) kept = &*node;
      continue;
    }
    Erase(*node);
    return true;
  }
  if (kept == nullptr) return false;
  Erase(*kept);
  return true;
}

PrefixCache::Ticket PrefixCache::Keep(std::span<const TokenId> tokens) {
  Ticket ticket;
  for (auto* node : Walk(tokens, std::numeric_limits<int32_t>::max())) {
    ++node->second.num_keepers;
    ticket.push_back(node->second.id);
  }
  return ticket;
}

void PrefixCache::Release(const Ticket& ticket) {
  for (const uint64_t id : ticket) {
    const auto key = keys_.find(id);  // given up meanwhile: ids are never used again
    if (key != keys_.end()) --nodes_.find(key->second)->second.num_keepers;
  }
}

int32_t PrefixCache::num_evictable() const {
  return static_cast<int32_t>(std::count_if(nodes_.begin(), nodes_.end(), [&](const auto& node) {
    return pool_->references(node.second.block) == 1;
  }));
}

void PrefixCache::Erase(const Nodes::value_type& node) {
  const Key key = node.first;
  pool_->Release(node.second.block);
  by_use_.erase(node.second.use);
  keys_.erase(node.second.id);
  nodes_.erase(key);
  if (key.parent != 0) --nodes_.find(keys_.at(key.parent))->second.num_children;
}

void PrefixCache::ForgetFrom(uint64_t batch) {
  std::map<uint64_t, Key, std::greater<>>
      forgotten;  // by id, so that none goes before those below it
  for (const auto& [key, node] : nodes_) {
    if (node.batch >= batch) forgotten.emplace(node.id, key);
  }
  for (const auto& [id, key] : forgotten) Erase(*nodes_.find(key));
}

void PrefixCache::Clear() {
  for (const auto& [key, node] : nodes_) pool_->Release(node.block);
  nodes_.clear();
  keys_.clear();
  by_use_.clear();
}

}  // namespace baton::coordinator
