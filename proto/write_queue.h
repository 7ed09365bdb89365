// Messages of one gRPC stream in order: a reactor may have one write in flight, so the others wait
// here.
//
// Owner: a reactor. Any thread may Push; OnWriteDone comes from gRPC's.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

#include "proto/checksum.h"

namespace baton::wire {

template <Sealable Message>
class WriteQueue {
 public:
  // `start_write` is the reactor's StartWrite. At most `max_messages` wait.
  WriteQueue(std::function<void(const Message*)> start_write, size_t max_messages)
      : start_write_(std::move(start_write)), max_messages_(max_messages) {}

  // False: the stream is over, or its reader is too slow. Seals the message.
  bool Push(Message message) {
    Seal(&message);
    const std::lock_guard lock(mutex_);
    if (closed_ || messages_.size() >= max_messages_) return false;
    messages_.push_back(std::move(message));
    if (messages_.size() == 1) start_write_(&messages_.front());
    return true;
  }

  // The reactor's OnWriteDone.
  void OnWriteDone(bool ok) {
    std::function<void()> idle;
    {
      const std::lock_guard lock(mutex_);
      messages_.pop_front();
      if (!ok) {
        closed_ = true;
        messages_.clear();
      }
      if (!messages_.empty()) {
        start_write_(&messages_.front());
      } else {
        idle = std::exchange(on_idle_, nullptr);
      }
    }
    if (idle) idle();
  }

  // Takes no more messages, drops those that wait, and calls `on_idle` once no write is in flight:
  // from here or from OnWriteDone. Only the first call of this or CloseWhenWritten counts.
  void Close(std::function<void()> on_idle) { Close(/*drop=*/true, std::move(on_idle)); }
  // The same after those that wait have been written.
  void CloseWhenWritten(std::function<void()> on_idle) {
    Close(/*drop=*/false, std::move(on_idle));
  }

 private:
  void Close(bool drop, std::function<void()> on_idle) {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      if (drop && messages_.size() > 1) messages_.resize(1);  // the one in flight stays
      if (std::exchange(closing_, true)) return;
      if (!messages_.empty()) {
        on_idle_ = std::move(on_idle);
        return;
      }
    }
    on_idle();
  }

  const std::function<void(const Message*)> start_write_;
  const size_t max_messages_;
  std::mutex mutex_;
  std::deque<Message> messages_;  // the front one is being written
  bool closed_ = false;
  bool closing_ = false;
  std::function<void()> on_idle_;
};

}  // namespace baton::wire
