#include "engine/arch/fingerprint.h"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace baton::engine {
namespace {

class Hasher {
 public:
  Hasher() : state_(XXH3_createState()) { XXH3_128bits_reset(state_.get()); }

  void Number(uint64_t value) { XXH3_128bits_update(state_.get(), &value, sizeof(value)); }
  // Length first, so that neighbours can't run into each other.
  void Bytes(std::string_view bytes) {
    Number(bytes.size());
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }
  std::string Digest() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

void AddMetadata(const Metadata& metadata, Hasher& hasher) {
  std::vector<const Metadata::Entry*> entries;
  for (const Metadata::Entry& entry : metadata.entries()) {
    if (!entry.key.starts_with("split.")) entries.push_back(&entry);
  }
  std::ranges::sort(entries, {}, [](const Metadata::Entry* entry) { return entry->key; });
  for (const Metadata::Entry* entry : entries) {
    hasher.Bytes(entry->key);
    hasher.Number(static_cast<uint64_t>(entry->value.type));
    hasher.Number(static_cast<uint64_t>(entry->value.element));
    hasher.Number(entry->value.count);
    hasher.Bytes(entry->value.bytes);
  }
}

void AddTensors(const std::vector<TensorInfo>& tensors, Hasher& hasher) {
  std::vector<const TensorInfo*> sorted;
  for (const TensorInfo& tensor : tensors) sorted.push_back(&tensor);
  std::ranges::sort(sorted, {}, [](const TensorInfo* tensor) { return tensor->name; });
  for (const TensorInfo* tensor : sorted) {
    hasher.Bytes(tensor->name);
    hasher.Number(static_cast<uint64_t>(tensor->type));
    for (const int64_t n : tensor->ne) hasher.Number(static_cast<uint64_t>(n));
  }
}

}  // namespace

std::string ModelFingerprint(const GgufModel& model) {
  Hasher hasher;
  AddMetadata(model.metadata(), hasher);
  AddTensors(model.tensors(), hasher);
  return hasher.Digest();
}

}  // namespace baton::engine
