// Accepts the connections of a gRPC port, up to a limit.
//
// gRPC 1.51 has no limit on connections, and when the process runs out of file descriptors its own
// listener closes for good. Here those over the limit are closed at once, and where the system has
// no descriptor the others wait in its queue. Half of the room is kept from any one address: a
// single host, broken or hostile, does not shut the others out.
//
// Owner: GrpcServer. One thread of its own.
#pragma once

#include <absl/time/time.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "proto/listen.h"

namespace baton::wire {

class ConnectionGate {
 public:
  // `take` becomes the owner of each descriptor, and is called on the gate's thread.
  ConnectionGate(std::vector<Socket> listening, size_t max_connections,
                 std::function<void(int fd)> take);
  ~ConnectionGate();  // accepts no more; what was taken lives on
  ConnectionGate(const ConnectionGate&) = delete;
  ConnectionGate& operator=(const ConnectionGate&) = delete;

 private:
  // One that was let in. Its owner closes it without a word, and the system gives the number to
  // another file: it is the same one as long as the inode is.
  struct Connection {
    int fd = -1;
    ino_t inode = 0;
    std::string host;
  };

  void Run();
  bool AcceptAll(int listening);  // false: the system has no room now
  void LetIn(Socket socket, std::string host);
  bool HasRoomFor(const std::string& host);
  void ForgetClosed();
  void SayRefused(const std::string& host);

  const std::vector<Socket> listening_;
  const size_t max_connections_;
  const std::function<void(int fd)> take_;
  const Socket stop_;

  // The gate's thread only.
  std::vector<Connection> connections_;
  absl::Time looked_;  // for closed ones
  absl::Time said_;
  uint64_t refused_ = 0;  // since then

  std::thread thread_;  // last: uses all of the above
};

}  // namespace baton::wire
