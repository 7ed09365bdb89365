#include "worker/part_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "engine/base/user_folders.h"
#include "proto/part_client.h"
#include "proto/worker_client.h"
#include "worker/content_hash.h"

namespace baton::worker {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kFetchBytes = 16 << 20;  // of one call; what an interruption may cost
constexpr std::string_view kListSuffix = ".ranges";

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Bytes of each part that the spec's tensors cover, neighbours joined.
std::map<uint32_t, std::vector<Range>> NeededRanges(const engine::StageSpec& spec) {
  std::map<uint32_t, std::vector<Range>> needed;
  for (const engine::TensorPlacement& tensor : spec.tensors) {
    needed[tensor.part].push_back({tensor.file_offset, tensor.file_offset + tensor.bytes});
  }
  for (auto& [part, ranges] : needed) {
    std::ranges::sort(ranges, {}, &Range::begin);
    std::vector<Range> joined;
    for (const Range& range : ranges) {
      if (!joined.empty() && range.begin <= joined.back().end) {
        joined.back().end = std::max(joined.back().end, range.end);
      } else {
        joined.push_back(range);
      }
    }
    ranges = std::move(joined);
  }
  return needed;
}

absl::Status SystemError(const std::string& path, int error) {
  if (error == ENOSPC || error == EDQUOT) {
    return ResourceExhausted("{}: {}; XDG_CACHE_HOME names another cache folder", path,
                             std::strerror(error));
  }
  if (error == EACCES || error == EROFS || error == EPERM) {
    return PermissionDenied("{}: {}; XDG_CACHE_HOME names another cache folder", path,
                            std::strerror(error));
  }
  return Unknown("{}: {}", path, std::strerror(error));
}

// A part in the cache. One process works on it at a time.
class CachedPart {
 public:
  static absl::StatusOr<std::unique_ptr<CachedPart>> Open(const std::string& path, uint64_t bytes) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return SystemError(path, errno);
    std::unique_ptr<CachedPart> part(new CachedPart(path, fd));
    while (flock(fd, LOCK_EX) != 0) {
      if (errno != EINTR) return SystemError(path, errno);
    }
    if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return SystemError(path, errno);
    part->ReadList(bytes);
    return part;
  }
  ~CachedPart() { close(fd_); }

  // What of `range` isn't there yet, in pieces of at most kFetchBytes.
  std::vector<Range> Missing(const Range& range) const {
    std::vector<Range> missing;
    uint64_t at = range.begin;
    const auto add = [&](uint64_t end) {
      for (; at < end; at = std::min(end, at + kFetchBytes)) {
        missing.push_back({at, std::min(end, at + kFetchBytes)});
      }
    };
    for (const auto& [begin, end] : present_) {
      if (end <= at || begin >= range.end) continue;
      if (begin > at) add(begin);
      at = std::max(at, end);
    }
    add(range.end);
    return missing;
  }

  absl::Status Write(uint64_t offset, std::string_view data) {
    for (size_t done = 0; done < data.size();) {
      const ssize_t count =
          pwrite(fd_, data.data() + done, data.size() - done, static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return SystemError(path_, errno);
      done += static_cast<size_t>(count);
    }
    return absl::OkStatus();
  }

  // Everything of `range` was written: remembers it.
  absl::Status Complete(const Range& range, uint64_t hash) {
    std::ofstream list(path_ + std::string(kListSuffix), std::ios::app);
    list << range.begin << ' ' << range.end << ' ' << hash << '\n';
    if (!list.flush()) return SystemError(path_ + std::string(kListSuffix), ENOSPC);
    present_[range.begin] = std::max(present_[range.begin], range.end);
    return absl::OkStatus();
  }

 private:
  CachedPart(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  // Only what is on the disk as the list says counts.
  void ReadList(uint64_t file_bytes) {
    std::ifstream list(path_ + std::string(kListSuffix));
    uint64_t begin = 0, end = 0, hash = 0;
    while (list >> begin >> end >> hash) {
      if (begin >= end || end > file_bytes || end - begin > kFetchBytes) continue;
      std::string data(end - begin, '\0');
      if (pread(fd_, data.data(), data.size(), static_cast<off_t>(begin)) !=
          static_cast<ssize_t>(data.size())) {
        continue;
      }
      if (XXH3_64bits(data.data(), data.size()) == hash) {
        present_[begin] = std::max(present_[begin], end);
      }
    }
  }

  const std::string path_;
  const int fd_;
  std::map<uint64_t, uint64_t> present_;  // begin -> end
};

// The models folder's own file under the cache's name.
absl::Status Link(const std::string& target, const std::string& link) {
  std::error_code error;
  fs::remove(link, error);
  fs::create_symlink(fs::absolute(target, error), link, error);
  if (error && error != std::errc::file_exists) return SystemError(link, error.value());
  return absl::OkStatus();
}

// One piece from the first source that has it. `advance` hears of each chunk and returns false to
// give up.
absl::Status Fetch(const engine::PartFile& file, const Range& piece,
                   const std::vector<std::unique_ptr<wire::PartClient>>& clients, CachedPart* part,
                   const std::function<bool(uint64_t bytes)>& advance) {
  absl::Status status;
  for (const auto& client : clients) {
    ContentHash hash;
    const wire::PartRange range{.file_name = file.file_name,
                                .file_bytes = file.bytes,
                                .offset = piece.begin,
                                .bytes = piece.end - piece.begin};
    status = client->Read(range, [&](uint64_t offset, std::string_view data) -> absl::Status {
      hash.Add(data.data(), data.size());
      RETURN_IF_ERROR(part->Write(offset, data));
      return advance(data.size()) ? absl::OkStatus() : Cancelled("loading was given up");
    });
    if (status.ok()) return part->Complete(piece, hash.Digest());
    if (absl::IsCancelled(status) || absl::IsResourceExhausted(status)) return status;
  }
  return Prefixed(status, "no source has the bytes");
}

std::string FolderName(const std::string& fingerprint) {
  return fmt::format("{:016x}", XXH3_64bits(fingerprint.data(), fingerprint.size()));
}

}  // namespace

std::string PartStore::DefaultCacheDir() { return engine::CacheFolder() + "/parts"; }

absl::Status PartStore::FetchWhole(const std::string& model,
                                   const std::vector<engine::PartFile>& parts,
                                   const LoadProgress& progress) {
  uint64_t total = 0, before = 0;
  for (const engine::PartFile& part : parts) total += part.bytes;
  for (const engine::PartFile& part : parts) {
    const auto advance = [&](uint64_t done, uint64_t) {
      return !progress || progress(before + done, total);
    };
    ASSIGN_OR_RETURN(const uint64_t received, fetch_(model, part, models_dir_, advance));
    before += part.bytes;
    bytes_received_ += received;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PartStore::Provide(const engine::StageSpec& spec,
                                               const std::vector<std::string>& sources,
                                               const LoadProgress& progress) {
  const std::map<uint32_t, std::vector<Range>> needed = NeededRanges(spec);
  std::set<uint32_t> missing;
  for (const auto& [part, ranges] : needed) {
    if (!fs::exists(models_dir_ + "/" + spec.parts.at(part).file_name)) missing.insert(part);
  }
  if (missing.empty() || sources.empty()) return models_dir_;
  const auto hub = std::ranges::find_if(
      sources, [](const std::string& source) { return source.starts_with(wire::kHubPrefix); });
  if (hub != sources.end()) {
    if (!fetch_) return models_dir_;
    std::vector<engine::PartFile> parts;
    for (const uint32_t part : missing) parts.push_back(spec.parts[part]);
    RETURN_IF_ERROR(FetchWhole(*hub, parts, progress));
    return models_dir_;
  }

  const std::string folder = cache_dir_ + "/" + FolderName(spec.fingerprint);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return SystemError(folder, error.value());

  std::vector<std::unique_ptr<wire::PartClient>> clients;
  for (const std::string& source : sources) {
    clients.push_back(std::make_unique<wire::PartClient>(source, security_));
  }
  uint64_t total = 0, done = 0;
  for (const uint32_t part : missing) {
    for (const Range& range : needed.at(part)) total += range.end - range.begin;
  }

  for (const auto& [index, ranges] : needed) {
    const engine::PartFile& file = spec.parts[index];
    const std::string path = folder + "/" + file.file_name;
    if (!missing.contains(index)) {
      RETURN_IF_ERROR(Link(models_dir_ + "/" + file.file_name, path));
      continue;
    }
    ASSIGN_OR_RETURN(const auto cached, CachedPart::Open(path, file.bytes));
    for (const Range& range : ranges) {
      const std::vector<Range> pieces = cached->Missing(range);
      uint64_t to_fetch = 0;
      for (const Range& piece : pieces) to_fetch += piece.end - piece.begin;
      done += range.end - range.begin - to_fetch;
      for (const Range& piece : pieces) {
        RETURN_IF_ERROR(Fetch(file, piece, clients, cached.get(), [&](uint64_t bytes) {
          done += bytes;
          bytes_received_ += bytes;
          return !progress || progress(done, total);
        }));
      }
    }
  }
  return folder;
}

}  // namespace baton::worker
