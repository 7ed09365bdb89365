#include "worker/kv_store.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <vector>

#include "engine/base/pending_file.h"
#include "engine/base/quote.h"
#include "engine/base/user_folders.h"
#include "worker/content_hash.h"

namespace baton::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".kv";
constexpr size_t kKeyDigits = 32;

// A key becomes part of a file's name.
absl::Status CheckKey(std::string_view key) {
  const bool hexadecimal = std::ranges::all_of(
      key, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (key.size() == kKeyDigits && hexadecimal) return absl::OkStatus();
  return InvalidArgument("KV key: got {}, expected {} hexadecimal digits", engine::Named(key),
                         kKeyDigits);
}

std::string FirstLine(const KvRecord& record) {
  return fmt::format("baton kv 1: key {} layers {}-{} form {} blocks {} of {} bytes\n", record.key,
                     record.layers.begin, record.layers.end - 1, record.form, record.num_blocks,
                     record.block_bytes);
}

std::array<char, sizeof(uint64_t)> LittleEndian(uint64_t value) {
  std::array<char, sizeof(uint64_t)> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

}  // namespace

std::string KvStore::PathOf(const KvRecord& record) const {
  return (fs::path(folder_) / fmt::format("{}-{}-{}{}", record.key, record.layers.begin,
                                          record.layers.end - 1, kSuffix))
      .string();
}

uint64_t KvStore::BytesBeside(const std::string& path) const {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    const uintmax_t size = entry->file_size(gone);
    if (!gone && entry->path() != path) bytes += size;
  }
  return bytes;
}

absl::StatusOr<uint64_t> KvStore::Save(const KvRecord& record, const Source& read) {
  const std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(CheckKey(record.key));
  if (folder_.empty()) return FailedPrecondition("KV folder: there is no home; name a folder");
  std::error_code error;
  if (!fs::exists(folder_, error)) {
    fs::create_directories(folder_, error);
    // What people said can be read out of keys and values.
    if (!error) fs::permissions(folder_, fs::perms::owner_all, error);
    if (error) return Unknown("{}: cannot be created: {}", folder_, error.message());
  }
  ContentHash hash;
  const std::string line = FirstLine(record);
  const uint64_t bytes = line.size() + record.block_bytes * record.num_blocks + sizeof(uint64_t);
  const std::string path = PathOf(record);
  if (const uint64_t beside = BytesBeside(path); beside + bytes > limit_bytes_) {
    return ResourceExhausted("{}: {} bytes are kept there, {} more exceed the limit of {}", folder_,
                             beside, bytes, limit_bytes_);
  }
  ASSIGN_OR_RETURN(const auto file, engine::PendingFile::Create(path));
  const auto write = [&](const char* data, size_t size) {
    file->stream().write(data, static_cast<std::streamsize>(size));
  };
  hash.Add(line.data(), line.size());
  write(line.data(), line.size());
  std::vector<std::byte> block(record.block_bytes);
  for (int32_t i = 0; i < record.num_blocks && file->stream(); ++i) {
    RETURN_IF_ERROR(read(i, block));
    hash.Add(block.data(), block.size());
    write(reinterpret_cast<const char*>(block.data()), block.size());
  }
  const auto digest = LittleEndian(hash.Digest());
  write(digest.data(), digest.size());
  RETURN_IF_ERROR(file->Commit());
  return bytes;
}

absl::StatusOr<uint64_t> KvStore::Restore(const KvRecord& record, const Sink& write) {
  const std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(CheckKey(record.key));
  const std::string path = PathOf(record);
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("{}: there is no such file", path);
  const std::string expected = FirstLine(record);
  std::string line(expected.size(), '\0');
  ContentHash hash;
  if (!file.read(line.data(), static_cast<std::streamsize>(line.size())) || line != expected)
    return DataLoss("{}: got {}, expected {}", path, engine::Named(line), engine::Named(expected));
  hash.Add(line.data(), line.size());
  std::vector<std::byte> block(record.block_bytes);
  for (int32_t i = 0; i < record.num_blocks; ++i) {
    if (!file.read(reinterpret_cast<char*>(block.data()),
                   static_cast<std::streamsize>(block.size())))
      return DataLoss("{}: ends in block {} of {}", path, i, record.num_blocks);
    hash.Add(block.data(), block.size());
    RETURN_IF_ERROR(write(i, block));
  }
  std::array<char, sizeof(uint64_t)> digest = {};
  file.read(digest.data(), digest.size());
  if (!file || digest != LittleEndian(hash.Digest()) ||
      file.peek() != std::ifstream::traits_type::eof())
    return DataLoss("{}: its contents do not have its hash", path);
  return line.size() + record.block_bytes * record.num_blocks + digest.size();
}

absl::StatusOr<uint64_t> KvStore::Remove(std::string_view key) {
  const std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(CheckKey(key));
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(key)) found.push_back(entry->path());
  }
  uint64_t bytes = 0;
  for (const fs::path& path : found) {
    std::error_code gone;
    const uintmax_t size = fs::file_size(path, gone);
    if (fs::remove(path, gone) && !gone) bytes += size;
  }
  return bytes;
}

std::string KvStore::DefaultFolder() {
  const std::string state = engine::StateFolder();
  return state.empty() ? state : state + "/kv";
}

}  // namespace baton::worker
