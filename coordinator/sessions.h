// Conversations by name: what was said so far as token ids, whose KV blocks are given up last, and
// can be saved on every worker in one call, so that no turn is computed twice, also after a
// restart.
//
// A session is no more than its tokens: where its blocks are gone (evicted, lost with a worker,
// saved by another division of layers, damaged on disk) its next turn computes them anew, with the
// same bits. Names are the cluster's: whoever may ask it may go on with any of them.
//
// Any thread; saving, restoring and removing block on the workers.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/generation.h"
#include "coordinator/pipeline.h"
#include "coordinator/recovery.h"
#include "coordinator/worker_registry.h"
#include "engine/base/status.h"
#include "engine/base/token_id.h"

namespace baton::coordinator {

// What has been said.
struct Dialogue {
  std::vector<engine::TokenId> tokens;  // prompts and answers
  std::string messages_json;            // of a chat; empty: it is no chat
};

class Sessions {
 public:
  struct Options {
    std::string folder;       // of saved ones; empty: nothing can be saved
    std::string fingerprint;  // of the model
    int32_t context_length = 0;
  };
  // Knows what is saved in the folder. What it is given must outlive it.
  Sessions(Options options, Pipeline* pipeline, WorkerRegistry* registry, Recovery* recovery);

  // A turn begins: what was said before, nothing in a new session. FailedPrecondition: another turn
  // of it is not over yet. End must follow; nullopt: as it was before.
  absl::StatusOr<Dialogue> Begin(const std::string& name);
  void End(const std::string& name, std::optional<Dialogue> dialogue);

  std::vector<SessionInfo> List() const;
  absl::StatusOr<SessionInfo> Fork(const std::string& name, const std::string& to);
  absl::StatusOr<SessionInfo> Save(const std::string& name, absl::Time deadline);
  // As it was saved. The note says why blocks are not back, which costs time only.
  absl::StatusOr<SessionInfo> Restore(const std::string& name, absl::Time deadline);
  absl::Status Remove(const std::string& name, absl::Time deadline);

 private:
  struct Saved {
    Dialogue dialogue;
    int32_t num_tokens = 0;  // of them in KV blocks on the workers
    std::string key;         // of their files; empty: there are none
  };
  struct Session {
    Dialogue dialogue;
    std::optional<Saved> saved;
    bool busy = false;
  };

  void ReadFolder();
  std::string PathOf(const std::string& name) const;
  absl::Status Write(const std::string& name, const Saved& saved) const;
  SessionInfo InfoOf(const std::string& name, const Session& session) const;
  absl::StatusOr<Session> Find(const std::string& name) const;
  bool IsUsed(const std::string& key) const;  // by a saved session
  absl::StatusOr<Pipeline::Borrowed> Wait(const std::function<void(Pipeline::BorrowDone)>& borrow);
  absl::Status OnAllWorkers(const wire::KvFileRequest& request, absl::Time deadline);
  absl::StatusOr<int32_t> RestoreBlocks(const Saved& saved, absl::Time deadline);

  const Options options_;
  Pipeline* const pipeline_;
  WorkerRegistry* const registry_;
  Recovery* const recovery_;

  mutable std::mutex mutex_;
  std::map<std::string, Session> sessions_;  // guarded by mutex_
  std::mutex files_mutex_;                   // one at a time saves, restores or removes
};

// The prompt of the next turn. Text and tokens follow what was said; messages are added to those
// before, and the whole is rendered anew.
absl::StatusOr<GenerationRequest> NextTurn(
    const Dialogue& before, GenerationRequest request,
    const std::function<absl::StatusOr<std::vector<engine::TokenId>>(const TextPrompt&)>& tokenize);
// What was said after an answer.
Dialogue AfterTurn(const GenerationRequest& turn, std::vector<engine::TokenId> tokens,
                   const std::string& answer);

}  // namespace baton::coordinator
