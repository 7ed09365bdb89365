#include "engine/gguf/tensor_layer.h"

#include <gtest/gtest.h>

namespace baton::engine {
namespace {

TEST(TensorLayerTest, LayerOfATensor) {
  EXPECT_EQ(LayerOfTensor("blk.0.attn_q.weight"), 0);
  EXPECT_EQ(LayerOfTensor("blk.17.ffn_down.weight"), 17);
  for (const std::string_view name :
       {"output.weight", "blk.", "blk.x.y", "blk.-1.y", "a.blk.1", "blk.99999999999.y"}) {
    EXPECT_EQ(LayerOfTensor(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace baton::engine
