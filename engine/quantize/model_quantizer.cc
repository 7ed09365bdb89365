#include "engine/quantize/model_quantizer.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "engine/base/quote.h"
#include "engine/base/thread_pool.h"
#include "engine/gguf/gguf_writer.h"
#include "engine/quantize/row_quantizer.h"

namespace baton::engine {
namespace {

using kernels::QuantType;

constexpr int64_t kChunkValues = 4 << 20;  // quantized together, then written
constexpr uint32_t kQuantizationVersion = 2;

bool AllFinite(const std::vector<float>& values) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bad = 0;
  for (const float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    bad |= (bits & kExponent) == kExponent;
  }
  return bad == 0;
}

class Quantizer {
 public:
  Quantizer(const GgufModel& model, std::vector<QuantType> types, int threads,
            const QuantizeProgress& progress)
      : model_(model), types_(std::move(types)), pool_(threads), progress_(progress) {
    for (const TensorInfo& tensor : model.tensors()) total_bytes_ += tensor.bytes;
  }

  GgufWriter MakeWriter(const QuantRecipe& recipe) const {
    GgufWriter writer;
    for (const Metadata::Entry& entry : model_.metadata().entries())
      writer.SetValue(entry.key, entry.value);
    for (const std::string_view key : {kSplitNoKey, kSplitCountKey, kSplitTensorsCountKey})
      writer.Remove(key);
    writer.SetUint32("general.quantization_version", kQuantizationVersion);
    writer.SetUint32("general.file_type", recipe.file_type);
    for (size_t i = 0; i < types_.size(); ++i) {
      const TensorInfo& tensor = model_.tensors()[i];
      writer.AddTensor(tensor.name, std::span(tensor.ne.data(), tensor.num_dims), types_[i]);
    }
    return writer;
  }

  absl::Status WriteTensor(size_t index, std::ostream& out) {
    const TensorInfo& tensor = model_.tensors()[index];
    const std::string_view data =
        model_.mapping(tensor.part).view().substr(tensor.file_offset, tensor.bytes);
    if (types_[index] == tensor.type) {
      out << data;
      Advance(tensor.bytes);
      return absl::OkStatus();
    }
    const int64_t rows = tensor.ne[0] == 0 ? 0 : tensor.num_elements() / tensor.ne[0];
    const int64_t chunk_rows =
        std::max<int64_t>(pool_.size(), kChunkValues / std::max<int64_t>(tensor.ne[0], 1));
    for (int64_t row = 0; row < rows && out; row += chunk_rows) {
      const int64_t count = std::min(chunk_rows, rows - row);
      RETURN_IF_ERROR(QuantizeRows(tensor, data.data(), types_[index], row, count));
      out.write(blocks_.data(), static_cast<std::streamsize>(blocks_.size()));
      Advance(static_cast<uint64_t>(count) * (tensor.bytes / static_cast<uint64_t>(rows)));
    }
    return absl::OkStatus();
  }

 private:
  // Rows [first, first + count) to blocks_.
  absl::Status QuantizeRows(const TensorInfo& tensor, const char* data, QuantType type,
                            int64_t first, int64_t count) {
    const int64_t row_values = tensor.ne[0];
    const int64_t source_bytes = kernels::RowBytes(tensor.type, row_values);
    const int64_t target_bytes = kernels::RowBytes(type, row_values);
    const RowReader read = RowReaderOf(tensor.type);
    const RowQuantizer quantize = RowQuantizerOf(type);
    blocks_.resize(static_cast<size_t>(count * target_bytes));
    std::atomic<bool> finite = true;
    pool_.Run([&](int thread) {
      std::vector<float> values(static_cast<size_t>(row_values));
      const Share share = ShareOf(count, thread, pool_.size());
      for (int64_t row = share.begin; row < share.end; ++row) {
        read(data + (first + row) * source_bytes, row_values, values.data());
        if (!AllFinite(values)) {
          finite = false;
          return;
        }
        quantize(values.data(), row_values, blocks_.data() + row * target_bytes);
      }
    });
    if (finite) return absl::OkStatus();
    return DataLoss("{}: a value is infinite or not a number", Named(tensor.name));
  }

  void Advance(uint64_t bytes) {
    done_bytes_ += bytes;
    if (progress_) progress_(done_bytes_, total_bytes_);
  }

  const GgufModel& model_;
  const std::vector<QuantType> types_;
  ThreadPool pool_;
  const QuantizeProgress& progress_;
  uint64_t total_bytes_ = 0;
  uint64_t done_bytes_ = 0;
  std::vector<char> blocks_;
};

}  // namespace

absl::Status QuantizeModel(const GgufModel& model, const QuantRecipe& recipe,
                           const std::string& path, int threads, const QuantizeProgress& progress) {
  auto types = QuantizedTypes(model, recipe);
  if (!types.ok()) return Prefixed(types.status(), model.parts()[0].path);
  Quantizer quantizer(model, *std::move(types), threads, progress);
  const GgufWriter writer = quantizer.MakeWriter(recipe);
  return writer.WriteTo(
      path, [&](size_t index, std::ostream& out) { return quantizer.WriteTensor(index, out); });
}

}  // namespace baton::engine
