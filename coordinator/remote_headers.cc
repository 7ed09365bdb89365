#include "coordinator/remote_headers.h"

#include <absl/time/clock.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <vector>

#include "engine/base/pending_file.h"
#include "engine/base/steady_time.h"
#include "engine/base/user_folders.h"
#include "engine/gguf/split_name.h"

namespace baton::coordinator {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kAskTimeout = absl::Seconds(2);
constexpr absl::Duration kReadTimeout = absl::Seconds(60);
constexpr absl::Duration kAskEvery = absl::Milliseconds(200);
// A path with a mistake in it should be noticed soon, workers that start together be found.
constexpr absl::Duration kWaitForWorkers = absl::Seconds(10);

using Clients = std::vector<std::unique_ptr<wire::WorkerClient>>;

struct FileOfWorker {
  wire::WorkerClient* client = nullptr;
  uint64_t bytes = 0;
};

// The file, or all parts of the set that it is the first of.
std::vector<std::string> FilesOf(const std::string& first) {
  std::optional<engine::SplitName> name = engine::ParseSplitName(first);
  if (!name) return {first};
  std::vector<std::string> files;
  for (name->no = 0; name->no < name->count; ++name->no) {
    files.push_back(engine::FormatSplitName(*name));
  }
  return files;
}

struct FoundFiles {
  std::map<std::string, FileOfWorker> by_name;
  bool complete = true;  // every worker has answered
};

FoundFiles AskForFiles(const Clients& clients) {
  FoundFiles found;
  for (const auto& client : clients) {
    const auto info = client->GetInfo(kAskTimeout);
    if (!info.ok()) {
      found.complete = false;
      continue;
    }
    for (const engine::PartFile& file : info->files)
      found.by_name.emplace(file.file_name, FileOfWorker{client.get(), file.bytes});
  }
  return found;
}

// A file of the same name and another size is another model.
fs::path FolderFor(const std::string& first, uint64_t bytes) {
  return fs::path(engine::CacheFolder()) / "headers" /
         fmt::format("{}-{}", fs::path(first).stem().string(), bytes);
}

absl::StatusOr<std::string> Fetch(const std::vector<std::string>& names,
                                  const std::map<std::string, FileOfWorker>& files) {
  uint64_t total = 0;
  for (const std::string& name : names) total += files.at(name).bytes;
  const fs::path folder = FolderFor(names[0], total);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return Unavailable("{}: {}", folder.string(), error.message());
  for (const std::string& name : names) {
    const FileOfWorker& file = files.at(name);
    ASSIGN_OR_RETURN(const std::string header, file.client->ReadHeader(name, kReadTimeout));
    if (header.size() > file.bytes)
      return DataLoss("{}: a header of {} bytes in a file of {}", name, header.size(), file.bytes);
    RETURN_IF_ERROR(WriteWithHole(folder / name, header, file.bytes));
  }
  return (folder / names[0]).string();
}

}  // namespace

absl::Status WriteWithHole(const fs::path& path, std::string_view header, uint64_t bytes) {
  ASSIGN_OR_RETURN(const auto file, engine::PendingFile::Create(path.string()));
  std::ostream& stream = file->stream();
  stream.write(header.data(), static_cast<std::streamsize>(header.size()));
  if (bytes > header.size()) stream.seekp(static_cast<std::streamoff>(bytes - 1)).put('\0');
  return file->Commit();
}

absl::StatusOr<std::string> FindModelHeaders(const Topology& topology,
                                             wire::WorkerConnector* connector) {
  std::error_code error;
  if (fs::exists(topology.model, error)) return topology.model;
  Clients clients;
  for (const WorkerEntry& worker : topology.workers)
    clients.push_back(connector->Connect(worker.address));
  const std::vector<std::string> names = FilesOf(fs::path(topology.model).filename().string());
  const absl::Time deadline = SteadyNow() + std::min(topology.limits.start, kWaitForWorkers);
  while (true) {
    const FoundFiles files = AskForFiles(clients);
    const auto missing = std::ranges::find_if(
        names, [&](const std::string& name) { return !files.by_name.contains(name); });
    if (missing == names.end()) return Fetch(names, files.by_name);
    if (files.complete || SteadyNow() >= deadline) {
      return NotFound("{}: no such file, and no worker has {} in its models folder", topology.model,
                      *missing);
    }
    absl::SleepFor(kAskEvery);
  }
}

}  // namespace baton::coordinator
