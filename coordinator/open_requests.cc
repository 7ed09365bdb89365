#include "coordinator/open_requests.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "engine/base/steady_time.h"

namespace baton::coordinator {

using engine::TokenId;

namespace {

constexpr absl::Duration kWriteEvery = absl::Milliseconds(50);
constexpr absl::Duration kTryAgain = absl::Seconds(1);  // where the disk was full

bool WriteWhole(int file, const std::string& text) {
  const ssize_t written = write(file, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return true;
  if (written >= 0) errno = ENOSPC;  // what the next call would say
  return false;
}

std::string SystemError() { return std::generic_category().message(errno); }

}  // namespace

absl::StatusOr<std::unique_ptr<OpenRequests>> OpenRequests::Open(const Options& options) {
  std::unique_ptr<OpenRequests> requests(new OpenRequests(options));
  if (options.folder.empty()) return requests;
  RETURN_IF_ERROR(requests->LockFolder());
  requests->ReadFile();
  RETURN_IF_ERROR(requests->Rewrite());
  requests->writer_ = std::thread([p = requests.get()] { p->Write(); });
  return requests;
}

OpenRequests::~OpenRequests() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (writer_.joinable()) writer_.join();
  if (file_ >= 0) close(file_);
  if (lock_ < 0) return;
  if (file_ >= 0 && entries_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(options_.folder, ignored);
  }
  close(lock_);
}

absl::Status OpenRequests::LockFolder() {
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  const std::string path = options_.folder + "/lock";
  lock_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) return Unknown("{}: cannot be opened: {}", path, SystemError());
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return absl::OkStatus();
  return AlreadyExists("{}: another coordinator keeps its journal here", options_.folder);
}

// All that was open when the process before this one ended has lost its client.
void OpenRequests::ReadFile() {
  std::ifstream stream(JournalPath(), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  for (auto& [id, request] : ReadJournal(text, options_.fingerprint)) {
    abandoned_.push_back(id);
    entries_[id] = {.request = std::move(request), .abandoned = true};
  }
}

void OpenRequests::Append(std::string line) {
  if (lock_ >= 0) unwritten_ += line;
}

void OpenRequests::Opened(const std::string& id, const OpenRequest& request) {
  const std::lock_guard lock(mutex_);
  entries_[id] = {request};
  Append(JournalOpenLine(id, request));
  urgent_ = true;  // on disk before its client has anything to resume
  wake_.notify_all();
}

void OpenRequests::Answered(const std::string& id, TokenId token) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end()) return;
  entry->second.request.answer.push_back(token);
  Append(JournalTokenLine(id, token));
}

void OpenRequests::Forget(const std::string& id) {
  if (entries_.erase(id) > 0) Append(JournalEndLine(id));
}

void OpenRequests::Ended(const std::string& id) {
  const std::lock_guard lock(mutex_);
  Forget(id);
}

void OpenRequests::Abandoned(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || entry->second.abandoned) return;
  entry->second.abandoned = true;
  abandoned_.push_back(id);
  if (abandoned_.size() <= options_.max_abandoned) return;
  Forget(abandoned_.front());
  abandoned_.pop_front();
}

std::optional<OpenRequest> OpenRequests::Take(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || !entry->second.abandoned) return std::nullopt;
  entry->second.abandoned = false;
  abandoned_.remove(id);
  return entry->second.request;
}

std::string OpenRequests::AllLines() const {
  std::string lines = JournalHeadLine(options_.fingerprint);
  for (const auto& [id, entry] : entries_) lines += JournalOpenLine(id, entry.request);
  return lines;
}

// The file anew, with what is open only; the old one stays until the new one is whole.
absl::Status OpenRequests::Rewrite() {
  std::string lines;
  {
    const std::lock_guard lock(mutex_);
    lines = AllLines();
    unwritten_.clear();
    file_bytes_ = lines.size();
    rewrite_at_ = std::max<uint64_t>(options_.max_file_bytes, 2 * lines.size());
  }
  const std::string path = JournalPath(), fresh = path + ".new";
  const int file = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  const bool written = file >= 0 && WriteWhole(file, lines) && fdatasync(file) == 0 &&
                       rename(fresh.c_str(), path.c_str()) == 0;
  if (!written) {
    const std::string why = SystemError();
    if (file >= 0) close(file);
    return Unknown("{}: cannot be written: {}", fresh, why);
  }
  if (file_ >= 0) close(file_);
  file_ = file;
  return absl::OkStatus();
}

bool OpenRequests::WriteLines(const std::string& lines) {
  if (lines.empty()) return true;
  // A part of them would make a line of nonsense of what comes after; then all is written anew.
  return WriteWhole(file_, lines) && fdatasync(file_) == 0;
}

void OpenRequests::Write() {
  bool stopping = false, broken = false;
  absl::Time try_again;
  while (!stopping) {
    std::string lines;
    bool rewrite = false;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, absl::ToChronoNanoseconds(kWriteEvery),
                     [this] { return stopping_ || urgent_; });
      stopping = stopping_;
      urgent_ = false;
      lines.swap(unwritten_);
      file_bytes_ += lines.size();
      rewrite = file_bytes_ > rewrite_at_ || broken;
    }
    // A full disk costs the journal, not the answers.
    if (broken && SteadyNow() < try_again) continue;
    const bool written = rewrite ? Rewrite().ok() : WriteLines(lines);
    if (!written && !broken) {
      spdlog::warn("{}: cannot be written: {}; requests cannot be resumed until it can",
                   JournalPath(), SystemError());
    }
    broken = !written;
    if (broken) try_again = SteadyNow() + kTryAgain;
  }
}

}  // namespace baton::coordinator
