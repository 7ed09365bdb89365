// How `baton serve` comes to another topology while it runs: SIGHUP, a client's call, or the
// `baton up` that it is a child of, which first starts the workers that are new.
//
// With `up` the two talk in lines. The coordinator asks on its stderr (kReloadWanted); `up` answers
// on its stdin where the workers listen (kWorkersAt) or why they do not (kCannotReload); and the
// coordinator says when it has gone over (kReloaded), so that `up` may stop those that are gone.
#pragma once

#include <absl/time/time.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "coordinator/coordinator.h"
#include "coordinator/llm_service.h"
#include "coordinator/topology.h"
#include "engine/base/status.h"

namespace baton::cli {

inline constexpr std::string_view kReloadWanted = "reload wanted";
inline constexpr std::string_view kWorkersAt = "workers at";  // NAME=HOST:PORT …
inline constexpr std::string_view kCannotReload = "cannot reload: ";
inline constexpr std::string_view kReloaded = "reloaded";
inline constexpr std::string_view kNotReloaded = "not reloaded: ";

// SIGHUP reloads where no terminal is there to be closed: there it ends the process as ever.
bool HangupReloads();

// Owner: `baton serve`. Any thread.
class TopologyReload : public coordinator::TopologySource {
 public:
  using Reader = std::function<absl::StatusOr<coordinator::Topology>(
      const std::vector<std::string>& addresses)>;

  // `read` reads the file. `supervised`: by a `baton up`, as above.
  TopologyReload(Reader read, bool supervised);
  ~TopologyReload() override;

  absl::StatusOr<coordinator::Topology> Read(absl::Time deadline) override;
  void OnTaken(const absl::Status& status) override;
  // From here on Wish is heard, and what was wished before.
  void Start(coordinator::LlmService* service);
  void Stop();
  // Has the service reload, soon.
  void Wish();

 private:
  void Listen();  // to `up`
  void Serve(coordinator::LlmService* service);

  const Reader read_;
  const bool supervised_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> answer_;  // of `up`; guarded by mutex_
  bool waiting_ = false;               // Read, for it; guarded by mutex_
  bool wished_ = false;                // guarded by mutex_
  bool stopping_ = false;              // guarded by mutex_
  int stop_event_ = -1;
  std::thread listener_, server_;
};

}  // namespace baton::cli
