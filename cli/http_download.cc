#include "cli/http_download.h"

#include <absl/strings/ascii.h>
#include <absl/time/clock.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "cli/exit_code.h"
#include "cli/progress.h"
#include "engine/base/block_file.h"
#include "engine/base/quote.h"
#include "proto/version.h"

namespace baton::cli {
namespace fs = std::filesystem;
namespace {

constexpr int kTries = 6;
constexpr absl::Duration kFirstRetryPause = absl::Milliseconds(250);
constexpr absl::Duration kLockPoll = absl::Milliseconds(100);
constexpr long kConnectTimeoutS = 20;
// Slower than this for so long is a connection that hangs.
constexpr long kSlowestBytesPerS = 1024;
constexpr long kSlowFor = 30;

struct CurlDeleter {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// One request; `take` gets the body of an answer of 2xx, `go_on` is asked also while nothing comes:
// both return false to give up.
class Request {
 public:
  using Take = std::function<bool(std::string_view)>;
  using GoOn = std::function<bool()>;

  // `range`: as in the header, "100-" or "0-99"; empty: everything.
  Request(const HttpSource& source, std::string range, Take take, GoOn go_on = {})
      : curl_(curl_easy_init()),
        take_(std::move(take)),
        go_on_(std::move(go_on)),
        range_(std::move(range)) {
    CURL* curl = curl_.get();
    curl_easy_setopt(curl, CURLOPT_URL, source.url.c_str());
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 8L);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectTimeoutS);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, kSlowestBytesPerS);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kSlowFor);
    agent_ = fmt::format("baton/{}", wire::BuildId());
    curl_easy_setopt(curl, CURLOPT_USERAGENT, agent_.c_str());
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error_);
    if (!source.bearer_token.empty()) {
      const std::string header = "Authorization: Bearer " + source.bearer_token;
      headers_.reset(curl_slist_append(nullptr, header.c_str()));
      curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers_.get());
    }
    // Not CURLOPT_RESUME_FROM: to that a server without ranges is an error.
    if (!range_.empty()) curl_easy_setopt(curl, CURLOPT_RANGE, range_.c_str());
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Request::OnData);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
    if (!go_on_) return;
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Request::OnProgress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, this);
  }

  long status() const {
    long code = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &code);
    return code;
  }

  absl::Status Run(const std::string& url) {
    const CURLcode code = curl_easy_perform(curl_.get());
    const long http = status();
    if (http == 404) return NotFound("{}: not there (404)", url);
    if (http == 401 || http == 403) {
      return WithHint(PermissionDenied("{}: not allowed ({})", url, http),
                      "set HF_TOKEN to a token that may read it");
    }
    if (http == 416) return absl::OutOfRangeError("nothing is left to fetch");
    if (http >= 400 && http < 500 && http != 408 && http != 429) {
      return FailedPrecondition("{}: refused ({})", url, http);
    }
    if (code == CURLE_ABORTED_BY_CALLBACK) return Cancelled("{}: given up", url);
    if (code == CURLE_OK && http < 300) return absl::OkStatus();
    return Unavailable("{}: {}", url,
                       http >= 300         ? fmt::format("answers {}", http)
                       : error_[0] != '\0' ? std::string(error_)
                                           : std::string(curl_easy_strerror(code)));
  }

 private:
  static size_t OnData(char* data, size_t size, size_t count, void* self) {
    auto* request = static_cast<Request*>(self);
    const size_t bytes = size * count;
    if (request->status() >= 300) return bytes;  // an error's page
    return request->take_({data, bytes}) ? bytes : CURL_WRITEFUNC_ERROR;
  }
  static int OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<Request*>(self)->go_on_() ? 0 : 1;
  }

  std::unique_ptr<CURL, CurlDeleter> curl_;
  std::unique_ptr<curl_slist, CurlDeleter> headers_;
  Take take_;
  GoOn go_on_;
  std::string agent_, range_;
  char error_[CURL_ERROR_SIZE] = {};
};

// Again, after a pause that doubles, while an error may pass and something is gained or tries are
// left.
absl::Status WithRetries(const std::function<absl::Status()>& once,
                         const std::function<uint64_t()>& gained) {
  absl::Duration pause = kFirstRetryPause;
  uint64_t had = gained();
  for (int tries = 1;; ++tries) {
    const absl::Status status = once();
    if (!absl::IsUnavailable(status)) return status;
    if (gained() > had) {
      had = gained();
      tries = 0;
      pause = kFirstRetryPause;
    }
    if (tries >= kTries) return WithExitCode(status, kUnreachable);
    absl::SleepFor(pause);
    pause *= 2;
  }
}

absl::StatusOr<std::string> Sha256Of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), file.gcount() > 0) {
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<size_t>(file.gcount()));
  }
  if (file.bad()) return Unknown("{}: cannot be read back", path);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_DigestFinal_ex(context.get(), digest, &length);
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

// One process at a time fetches into a folder: workers of one host may need the same part.
class FolderLock {
 public:
  static absl::StatusOr<FolderLock> Take(const fs::path& folder,
                                         const std::function<bool(uint64_t)>& go_on) {
    FolderLock lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock.fd_ < 0) return CannotWrite("{}: {}", folder.string(), std::strerror(errno));
    for (bool told = false; flock(lock.fd_, LOCK_EX | LOCK_NB) != 0; told = true) {
      if (errno != EWOULDBLOCK && errno != EINTR)
        return CannotWrite("{}: {}", folder.string(), std::strerror(errno));
      if (go_on && !go_on(0)) return Cancelled("{}: given up", folder.string());
      if (!told)
        spdlog::info("{}: waiting for another process that fetches into it", folder.string());
      absl::SleepFor(kLockPoll);
    }
    return lock;
  }
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~FolderLock() {
    if (fd_ >= 0) close(fd_);
  }

 private:
  explicit FolderLock(int fd) : fd_(fd) {}

  int fd_;
};

uint64_t SizeOf(const std::string& path) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

absl::Status FetchRest(const FileToFetch& file, const std::string& part, Progress* progress,
                       uint64_t* received) {
  const uint64_t have = SizeOf(part);
  if (file.bytes > 0 && have == file.bytes) return absl::OkStatus();
  engine::BlockFile out;
  if (!out.Open(part, engine::BlockFile::Mode::kAppend))
    return CannotWrite("{}: cannot be written", part);
  bool full = false, first = true;
  uint64_t done = have;
  Request* self = nullptr;
  const auto take = [&](std::string_view data) {
    if (std::exchange(first, false) && have > 0 && self->status() == 200) {
      // A server without ranges begins again.
      out.Open(part, engine::BlockFile::Mode::kReplace);
      done = 0;
    }
    out.write(data.data(), static_cast<std::streamsize>(data.size()));
    done += data.size();
    *received += data.size();
    progress->Update(done, file.bytes);
    full = !out;
    return !full && (file.bytes == 0 || done <= file.bytes);
  };
  Request request(file.source, have > 0 ? fmt::format("{}-", have) : "", take,
                  [&] { return !file.go_on || file.go_on(done); });
  self = &request;
  const absl::Status status = request.Run(file.source.url);
  if (!out.Close() || full) return CannotWrite("{}: cannot be written; is the disk full?", part);
  if (file.bytes > 0 && done > file.bytes) {
    return DataLoss("{}: more than the {} bytes announced", file.source.url, file.bytes);
  }
  if (absl::IsOutOfRange(status)) return absl::OkStatus();
  RETURN_IF_ERROR(status);
  if (file.bytes > 0 && SizeOf(part) < file.bytes) {
    return Unavailable("{}: ended after {} of {} bytes", file.source.url, SizeOf(part), file.bytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> HttpGet(const HttpSource& source, size_t limit_bytes) {
  std::string body;
  RETURN_IF_ERROR(WithRetries(
      [&] {
        body.clear();
        Request request(source, "", [&](std::string_view data) {
          body += data;
          return body.size() <= limit_bytes;
        });
        const absl::Status status = request.Run(source.url);
        if (body.size() > limit_bytes) {
          return DataLoss("{}: more than {} bytes", source.url, limit_bytes);
        }
        return status;
      },
      [] { return uint64_t{0}; }));
  return body;
}

absl::StatusOr<std::string> HttpGetRange(const HttpSource& source, uint64_t offset, size_t bytes) {
  std::string body;
  RETURN_IF_ERROR(WithRetries(
      [&] {
        body.clear();
        Request* self = nullptr;
        uint64_t before = offset;  // what a server without ranges sends first
        const auto take = [&](std::string_view data) {
          if (self->status() == 206) before = 0;
          const size_t skipped = std::min<uint64_t>(before, data.size());
          before -= skipped;
          body += data.substr(skipped, bytes - body.size());
          return body.size() < bytes;
        };
        Request request(source, fmt::format("{}-{}", offset, offset + bytes - 1), take);
        self = &request;
        const absl::Status status = request.Run(source.url);
        return body.size() == bytes || absl::IsOutOfRange(status) ? absl::OkStatus() : status;
      },
      [] { return uint64_t{0}; }));
  return body;
}

absl::StatusOr<uint64_t> HttpDownload(const FileToFetch& file) {
  std::error_code error;
  const fs::path folder = fs::path(file.path).parent_path();
  fs::create_directories(folder, error);
  if (error) return CannotWrite("{}: {}", file.path, error.message());
  ASSIGN_OR_RETURN(const FolderLock lock, FolderLock::Take(folder, file.go_on));
  if (fs::exists(file.path, error)) return 0;
  const std::string part = file.path + ".part";
  Progress progress(file.label);
  uint64_t received = 0;
  RETURN_IF_ERROR(WithRetries([&] { return FetchRest(file, part, &progress, &received); },
                              [&] { return SizeOf(part); }));
  if (!file.sha256.empty()) {
    ASSIGN_OR_RETURN(const std::string sha256, Sha256Of(part));
    if (sha256 != absl::AsciiStrToLower(file.sha256)) {
      fs::remove(part, error);
      return DataLoss("{}: SHA-256 {}, expected {}", file.source.url, sha256, file.sha256);
    }
  }
  fs::rename(part, file.path, error);
  if (error) return CannotWrite("{}: {}", file.path, error.message());
  return received;
}

}  // namespace baton::cli
