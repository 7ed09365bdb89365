// Requests whose answers are not finished, so that a client may go on with one after a broken
// connection or after a restart of the coordinator.
//
// With a journal, what is open survives the process: lines (coordinator/open_request.h) are written
// in batches, a new request at once. Where the disk is full the journal stops and answers go on; it
// is written whole again as soon as that works. Any thread.
#pragma once

#include <absl/time/time.h>

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "coordinator/open_request.h"
#include "engine/base/status.h"
#include "engine/base/token_id.h"

namespace baton::coordinator {

class OpenRequests {
 public:
  struct Options {
    std::string
        folder;  // of the journal; empty: memory only. Removed in the end if nothing is open
    std::string fingerprint;  // of the model: requests of another one are forgotten
    size_t max_abandoned = 256;
    uint64_t max_file_bytes = 64u << 20;
  };

  // Reads the journal that is there. A folder that cannot be written or is in use by another
  // coordinator: its error; callers may go on with memory only.
  static absl::StatusOr<std::unique_ptr<OpenRequests>> Open(const Options& options);
  ~OpenRequests();  // writes what is left

  void Opened(const std::string& id, const OpenRequest& request);
  void Answered(const std::string& id, engine::TokenId token);
  void Ended(const std::string& id);
  // Its client is gone, or the coordinator is going: it may be taken up again for a while.
  void Abandoned(const std::string& id);
  // Takes up an abandoned one; nullopt: there is none of that id.
  std::optional<OpenRequest> Take(const std::string& id);

 private:
  struct Entry {
    OpenRequest request;
    bool abandoned = false;
  };

  explicit OpenRequests(const Options& options) : options_(options) {}
  std::string JournalPath() const { return options_.folder + "/requests.jsonl"; }
  absl::Status LockFolder();
  void ReadFile();
  void Append(std::string line);  // with mutex_ held
  void Forget(const std::string& id);
  void Write();
  bool WriteLines(const std::string& lines);
  absl::Status Rewrite();
  std::string AllLines() const;

  const Options options_;
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;  // guarded by mutex_, as the rest
  std::list<std::string> abandoned_;                // oldest first
  std::string unwritten_;
  uint64_t file_bytes_ = 0;
  uint64_t rewrite_at_ = 0;
  bool stopping_ = false;
  bool urgent_ = false;
  std::condition_variable wake_;
  int lock_ = -1;
  int file_ = -1;  // the writer's, once it runs
  std::thread writer_;
};

}  // namespace baton::coordinator
