#include "coordinator/prefix_cache.h"

#include <gtest/gtest.h>

#include <numeric>

namespace baton::coordinator {
namespace {

using engine::kKvBlockPositions;
using engine::TokenId;

std::vector<TokenId> Tokens(int blocks, TokenId first = 0) {
  std::vector<TokenId> tokens(blocks * kKvBlockPositions);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<int32_t> Allocate(BlockPool* pool, int count) {
  std::vector<int32_t> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(*pool->Allocate());
  return blocks;
}

void Release(BlockPool* pool, const std::vector<int32_t>& blocks) {
  for (const int32_t block : blocks) pool->Release(block);
}

TEST(BlockPoolTest, GivesEachBlockOnceAndTakesItBack) {
  BlockPool pool(3);
  const auto blocks = Allocate(&pool, 3);
  EXPECT_EQ(blocks, (std::vector<int32_t>{0, 1, 2}));
  EXPECT_FALSE(pool.Allocate().has_value());
  pool.AddReference(1);
  pool.Release(1);
  EXPECT_EQ(pool.num_free(), 0);
  pool.Release(1);
  EXPECT_EQ(pool.Allocate(), 1);
}

TEST(PrefixCacheTest, FindsTheLongestPrefix) {
  BlockPool pool(16);
  PrefixCache cache(&pool);
  const auto blocks = Allocate(&pool, 4);
  cache.Insert(Tokens(4), blocks);
  EXPECT_EQ(cache.Match(Tokens(6), 6), blocks);
  EXPECT_EQ(cache.Match(Tokens(4), 2), (std::vector<int32_t>{blocks[0], blocks[1]}));
  EXPECT_TRUE(cache.Match(Tokens(4, 1), 4).empty());
  std::vector<TokenId> forked = Tokens(4);
  forked[2 * kKvBlockPositions] = -5;
  EXPECT_EQ(cache.Match(forked, 4).size(), 2u);
  EXPECT_EQ(pool.references(blocks[0]), 5);
}

TEST(PrefixCacheTest, EqualTokensAfterDifferentOnesAreNotEqual) {
  BlockPool pool(16);
  PrefixCache cache(&pool);
  std::vector<TokenId> a = Tokens(1), b = Tokens(1, 7);
  const auto tail = Tokens(1, 100);
  a.insert(a.end(), tail.begin(), tail.end());
  b.insert(b.end(), tail.begin(), tail.end());
  cache.Insert(a, Allocate(&pool, 2));
  EXPECT_TRUE(cache.Match(b, 2).empty());
}

TEST(PrefixCacheTest, KeepsTheBlocksItHas) {
  BlockPool pool(16);
  PrefixCache cache(&pool);
  const auto first = Allocate(&pool, 2), second = Allocate(&pool, 3);
  cache.Insert(Tokens(2), first);
  cache.Insert(Tokens(3), second);
  EXPECT_EQ(cache.Match(Tokens(3), 3), (std::vector<int32_t>{first[0], first[1], second[2]}));
}

TEST(PrefixCacheTest, EvictsTheLeastRecentlyUsedLeafThatNobodyHolds) {
  BlockPool pool(16);
  PrefixCache cache(&pool);
  const auto old = Allocate(&pool, 2), fresh = Allocate(&pool, 1), held = Allocate(&pool, 1);
  cache.Insert(Tokens(2), old);
  cache.Insert(Tokens(1, 500), fresh);
  cache.Insert(Tokens(1, 900), held);
  Release(&pool, old);
  Release(&pool, fresh);
  EXPECT_EQ(cache.num_evictable(), 3);
  Release(&pool, cache.Match(Tokens(1, 500), 1));
  EXPECT_TRUE(cache.EvictOne());
  EXPECT_EQ(pool.references(old[1]), 0);  // the leaf, not the block before it
  EXPECT_TRUE(cache.EvictOne());
  EXPECT_EQ(pool.references(old[0]), 0);
  EXPECT_TRUE(cache.EvictOne());
  EXPECT_EQ(pool.references(fresh[0]), 0);
  EXPECT_FALSE(cache.EvictOne());
  EXPECT_EQ(cache.size(), 1);
  cache.Clear();
  EXPECT_EQ(pool.references(held[0]), 1);
}

TEST(PrefixCacheTest, GivesUpKeptBlocksLast) {
  BlockPool pool(16);
  PrefixCache cache(&pool);
  for (const TokenId first : {0, 1000, 2000}) {
    const auto blocks = Allocate(&pool, 2);
    cache.Insert(Tokens(2, first), blocks);
    Release(&pool, blocks);
  }
  const PrefixCache::Ticket ticket = cache.Keep(Tokens(2));  // the least recently used one
  const PrefixCache::Ticket again = cache.Keep(Tokens(1));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(cache.EvictOne());
  const auto kept = cache.Match(Tokens(2), 2);
  EXPECT_EQ(kept.size(), 2u);
  EXPECT_FALSE(cache.EvictOne()) << "somebody uses them";
  Release(&pool, kept);
  cache.Release(ticket);
  EXPECT_TRUE(cache.EvictOne()) << "rather than that nobody gets any";
  EXPECT_EQ(cache.size(), 1);
  EXPECT_TRUE(cache.EvictOne());
  cache.Release(again);  // of what is gone already
  EXPECT_EQ(cache.size(), 0);
}

}  // namespace
}  // namespace baton::coordinator
