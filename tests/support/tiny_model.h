// Tiny models with random weights of any architecture and weight type, written by our own writer
// from the tensor table.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "engine/base/status.h"
#include "engine/gguf/gguf_writer.h"
#include "kernels/quant_types.h"

namespace baton::testing {

struct TinyModelOptions {
  std::string_view architecture = "llama";
  kernels::QuantType type =
      kernels::QuantType::kF16;  // of matrices; F16 where a row is no whole number of blocks
  int32_t num_layers = 5;
  int32_t hidden_size = 64;       // 256 for types of 256 values a block
  bool experts = false;           // four of them, two used, after one dense layer
  bool optional_tensors = false;  // everything the table allows; else what it requires
  bool tied = false;              // no output.weight
  int32_t context_length = 256;
  uint32_t seed = 1;
  // The last word on the metadata; may be empty.
  std::function<void(engine::GgufWriter&)> edit = {};
};

// The vocabulary of these models: <unk>, <s>, </s>, the 256 bytes, then a few letters
// (SentencePiece style).
inline constexpr int32_t kTinyVocabSize = 288;

// Writes the model's only file. The same options give the same bytes.
absl::Status WriteTinyModel(const TinyModelOptions& options, const std::string& path);

}  // namespace baton::testing
