// HTTP as a client: small documents, and files that may take long.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/base/status.h"

namespace baton::cli {

struct HttpSource {
  std::string url;
  std::string bearer_token;  // empty: none; never sent to a host that the first one redirects to
};

// NotFound for 404, PermissionDenied for 401 and 403, Unavailable for what may pass.
absl::StatusOr<std::string> HttpGet(const HttpSource& source, size_t limit_bytes = 64u << 20);
// Bytes [offset, offset + bytes), fewer where the document ends before.
absl::StatusOr<std::string> HttpGetRange(const HttpSource& source, uint64_t offset, size_t bytes);

struct FileToFetch {
  HttpSource source;
  std::string path;    // where it goes; PATH.part until it is whole
  uint64_t bytes = 0;  // 0: not known
  std::string sha256;  // empty: not known
  std::string label;   // for the progress line
  // Asked now and then; false: give up. Empty: nobody will.
  std::function<bool(uint64_t done_bytes)> go_on = {};
};
// Goes on with a .part that is there; another process that fetches into the same folder is waited
// for. The bytes that came. DataLoss: they are not what was announced. Cancelled: it was given up.
absl::StatusOr<uint64_t> HttpDownload(const FileToFetch& file);

}  // namespace baton::cli
