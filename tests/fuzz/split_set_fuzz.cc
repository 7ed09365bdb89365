// Any bytes as the two parts of a split set: what is opened holds every tensor once, inside its
// part.
#include <fcntl.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.h"
#include "engine/gguf/gguf_writer.h"
#include "engine/gguf/split_name.h"
#include "tests/fuzz/target.h"

namespace baton::fuzz {
namespace {

using namespace engine;

constexpr std::string_view kBetween = "|second part|";

// In memory, removed with the process.
const std::string& Folder() {
  static const std::string* const folder = [] {
    char name[] = "/dev/shm/baton-fuzz-XXXXXX";
    Require(mkdtemp(name) != nullptr);
    std::atexit([] {
      for (const char* part : {"/m-00001-of-00002.gguf", "/m-00002-of-00002.gguf"})
        unlink((Folder() + part).c_str());
      rmdir(Folder().c_str());
    });
    return new std::string(name);
  }();
  return *folder;
}

void WriteFile(const std::string& path, std::string_view bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  Require(fd >= 0);
  Require(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  close(fd);
}

std::string Part(uint32_t no, std::string_view tensor) {
  GgufWriter writer;
  if (no == 0) writer.SetString("general.architecture", "seed");
  writer.SetUint16(kSplitNoKey, static_cast<uint16_t>(no));
  writer.SetUint16(kSplitCountKey, 2);
  writer.SetInt32(kSplitTensorsCountKey, 2);
  writer.AddTensor(std::string(tensor), std::vector<int64_t>{8}, kernels::QuantType::kF32);
  return writer.Header() + std::string(32, '\0');
}

}  // namespace

std::vector<std::string> SplitSetSeeds() {
  return {Part(0, "a") + std::string(kBetween) + Part(1, "b")};
}

void FuzzSplitSet(std::string_view input) {
  const size_t between = std::min(input.find(kBetween), input.size());
  const std::string first = Folder() + "/m-00001-of-00002.gguf";
  const std::string second = Folder() + "/m-00002-of-00002.gguf";
  WriteFile(first, input.substr(0, between));
  WriteFile(second, input.substr(std::min(between + kBetween.size(), input.size())));
  const auto model = GgufModel::Open(first);
  if (!model.ok()) return;
  std::set<std::string> names;
  for (const TensorInfo& tensor : model->tensors()) {
    Require(names.insert(std::string(tensor.name)).second);
    Require(model->FindTensor(tensor.name) != nullptr);
    const uint64_t bytes = model->parts()[tensor.part].bytes;
    Require(tensor.file_offset <= bytes && tensor.bytes <= bytes - tensor.file_offset);
  }
}

}  // namespace baton::fuzz
