#include "proto/checksum.h"

#include <xxhash.h>

#include <atomic>
#include <string>

#include "baton/v1/worker.pb.h"

namespace baton::wire {
namespace {

std::atomic<uint64_t> changed_messages = 0;

uint64_t SumWithSeed(const google::protobuf::MessageLite& message, uint64_t seed) {
  const std::string bytes = message.SerializeAsString();
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace

uint64_t ChecksumOf(const google::protobuf::MessageLite& message) {
  return SumWithSeed(message, 0);
}

uint64_t ChecksumOf(v1::ForwardMessage& message) {
  if (!message.has_hidden()) return SumWithSeed(message, 0);
  std::string data;
  data.swap(*message.mutable_hidden()->mutable_data());
  const uint64_t sum = SumWithSeed(message, XXH3_64bits(data.data(), data.size()));
  data.swap(*message.mutable_hidden()->mutable_data());
  return sum;
}

uint64_t ChangedMessages() { return changed_messages; }

absl::Status NoteChangedMessage() {
  ++changed_messages;
  return Unavailable("a message was changed on its way: its checksum is not the sender's");
}

}  // namespace baton::wire
