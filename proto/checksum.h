// A checksum over all of a message between processes of one cluster: a bit that flips on its way is
// a lost link, not another answer. TLS would notice one; TCP's sixteen bits let some through, and
// so does a machine between that copies wrongly.
#pragma once

#include <google/protobuf/message_lite.h>

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "engine/base/status.h"

namespace baton::v1 {
class ForwardMessage;
}

namespace baton::wire {

inline constexpr size_t kSealBytes = 1 + sizeof(uint64_t);  // that a seal adds to a message

template <typename Message>
concept Sealable = requires(Message message) {
  message.set_check(uint64_t{1});
};

// XXH3 of the message's other fields, as both sides' protobuf (one build: CheckSameVersion) writes
// them. It has no maps, so there is one way to.
uint64_t ChecksumOf(const google::protobuf::MessageLite& message);
// Many bytes of hidden states are summed where they lie.
uint64_t ChecksumOf(v1::ForwardMessage& message);

// Messages that failed CheckSeal since the process started.
uint64_t ChangedMessages();
absl::Status NoteChangedMessage();  // counts it; Unavailable

// The sender's last touch.
template <Sealable Message>
void Seal(Message* message) {
  message->clear_check();
  message->set_check(ChecksumOf(*message));
}

// Unavailable, as of a link that is lost, for a message that is not what its sender sealed.
template <Sealable Message>
absl::Status CheckSeal(Message* message) {
  const uint64_t sealed = message->check();
  message->clear_check();
  return ChecksumOf(*message) == sealed ? absl::OkStatus() : NoteChangedMessage();
}

}  // namespace baton::wire
