#include "cli/model_source.h"

#include <absl/strings/ascii.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/exit_code.h"
#include "cli/http_download.h"
#include "coordinator/remote_headers.h"
#include "engine/base/json.h"
#include "engine/base/quote.h"
#include "engine/base/steady_time.h"
#include "engine/base/units.h"
#include "engine/gguf/gguf_header.h"
#include "engine/gguf/split_name.h"
#include "proto/worker_client.h"

namespace baton::cli {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kHub = wire::kHubPrefix;
constexpr std::string_view kOllama = "ollama:";
constexpr std::string_view kDefaultType = "Q4_K_M";
constexpr uint64_t kFirstHeaderBytes = 1 << 20;  // more where the header is longer
constexpr uint64_t kMaxHeaderBytes = 256 << 20;
constexpr absl::Duration kTellEvery = absl::Seconds(5);

std::string Environment(const char* name, std::string_view otherwise) {
  const char* value = std::getenv(name);
  std::string text(value != nullptr && *value != '\0' ? value : otherwise);
  while (text.ends_with('/')) text.pop_back();
  return text;
}

bool Offline() {
  const std::string value = Environment("HF_HUB_OFFLINE", "0");
  return value != "0";
}

// Names come from the command line and from servers, and become paths.
bool IsPlainPath(std::string_view path) {
  if (path.empty() || path.starts_with('/') || path.find('\\') != path.npos) return false;
  for (const fs::path& part : fs::path(path)) {
    if (part.empty() || part == ".." || part == ".") return false;
  }
  return std::all_of(path.begin(), path.end(), [](unsigned char c) { return c > ' ' && c < 127; });
}

// It becomes part of a folder's name.
bool IsSha256(std::string_view digits) {
  return digits.size() == 64 && std::ranges::all_of(digits, absl::ascii_isxdigit);
}

struct HubName {
  std::string repository;  // "org/name"
  std::string wanted;      // a file or a weight type; empty: the usual one
};

absl::StatusOr<HubName> ParseHubName(const std::string& name) {
  std::string_view rest = std::string_view(name).substr(kHub.size());
  HubName parsed;
  const size_t first = rest.find('/');
  const size_t second = first == rest.npos ? rest.npos : rest.find('/', first + 1);
  const size_t colon = rest.find(':');
  const size_t end = std::min(second, colon);
  parsed.repository = rest.substr(0, end);
  if (end != rest.npos) parsed.wanted = rest.substr(end + 1);
  if (first == rest.npos || !IsPlainPath(parsed.repository) ||
      (end != rest.npos && !IsPlainPath(parsed.wanted))) {
    return UsageError("{}: expected hf:ORG/REPO, hf:ORG/REPO:QUANT or hf:ORG/REPO/FILE.gguf",
                      engine::Named(name));
  }
  return parsed;
}

absl::StatusOr<Json> GetJson(const HttpSource& source) {
  ASSIGN_OR_RETURN(const std::string body, HttpGet(source));
  absl::StatusOr<Json> json = engine::ParseJson(body, source.url);
  if (!json.ok()) return DataLoss("{}: got no JSON that can be used", Message(json.status()));
  return json;
}

std::vector<RemoteFile> FilesOf(const Json& tree) {
  std::vector<RemoteFile> files;
  if (!tree.is_array()) return files;
  for (const Json& entry : tree) {
    if (!entry.is_object() || !entry.contains("path") || !entry["path"].is_string()) continue;
    RemoteFile file{.path = entry["path"].get<std::string>(), .bytes = 0, .sha256 = {}};
    if (!file.path.ends_with(".gguf") || !IsPlainPath(file.path)) continue;
    const Json lfs = entry.value("lfs", Json::object());
    const Json bytes =
        lfs.is_object() && lfs.contains("size") ? lfs["size"] : entry.value("size", Json());
    if (bytes.is_number_unsigned()) file.bytes = bytes.get<uint64_t>();
    if (lfs.is_object() && lfs.contains("oid") && lfs["oid"].is_string()) {
      file.sha256 = lfs["oid"].get<std::string>();
      if (!IsSha256(file.sha256)) continue;
    }
    files.push_back(std::move(file));
  }
  return files;
}

// What is there already answers without a question: also offline, and quicker.
absl::StatusOr<std::string> FindCached(const std::string& folder, const std::string& wanted) {
  std::vector<RemoteFile> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() != ".gguf") continue;
    files.push_back(
        {.path = fs::relative(it->path(), folder, error).string(), .bytes = 0, .sha256 = {}});
  }
  ASSIGN_OR_RETURN(const std::vector<RemoteFile> chosen, ChooseFiles(files, wanted));
  return folder + "/" + chosen[0].path;
}

// The files of a repository, and where they come from.
class Repository {
 public:
  explicit Repository(std::string name)
      : name_(std::move(name)),
        endpoint_(Environment("HF_ENDPOINT", "https://huggingface.co")),
        token_(Environment("HF_TOKEN", "")) {}

  absl::StatusOr<std::vector<RemoteFile>> List() const {
    ASSIGN_OR_RETURN(
        const Json tree,
        GetJson(
            {fmt::format("{}/api/models/{}/tree/main?recursive=true", endpoint_, name_), token_}));
    return FilesOf(tree);
  }
  // The files that `wanted` means; `asked` stands in errors.
  absl::StatusOr<std::vector<RemoteFile>> Find(const std::string& wanted,
                                               const std::string& asked) const {
    ASSIGN_OR_RETURN(const std::vector<RemoteFile> files, List());
    auto chosen = ChooseFiles(files, wanted);
    if (!chosen.ok()) return Prefixed(chosen.status(), asked);
    return chosen;
  }
  HttpSource SourceOf(const RemoteFile& file) const {
    return {fmt::format("{}/{}/resolve/main/{}", endpoint_, name_, file.path), token_};
  }

 private:
  const std::string name_;
  const std::string endpoint_;
  const std::string token_;
};

// A file's bytes up to its data.
absl::StatusOr<std::string> FetchHeader(const HttpSource& source, const RemoteFile& file) {
  std::string bytes;
  const uint64_t most = std::min(file.bytes, kMaxHeaderBytes);
  for (uint64_t wanted = kFirstHeaderBytes;; wanted *= 4) {
    const uint64_t end = std::min(wanted, most);
    ASSIGN_OR_RETURN(const std::string more,
                     HttpGetRange(source, bytes.size(), end - bytes.size()));
    bytes += more;
    const auto header = engine::ParseGgufHeader(bytes, file.bytes, file.path);
    if (header.ok()) {
      bytes.resize(std::min<uint64_t>(header->data_offset, bytes.size()));
      return bytes;
    }
    if (bytes.size() < end || end == most) return header.status();
  }
}

// Of these files, in a folder of their own: files of another size or content are another model.
absl::StatusOr<std::string> FetchHeadersOf(const Repository& repository,
                                           const std::vector<RemoteFile>& files,
                                           const std::string& cache_dir) {
  uint64_t total = 0;
  for (const RemoteFile& file : files) total += file.bytes;
  const fs::path folder = fs::path(cache_dir).parent_path() / "headers" /
                          fmt::format("{}-{}-{}", fs::path(files[0].path).stem().string(), total,
                                      files[0].sha256.substr(0, 16));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return CannotWrite("{}: {}", folder.string(), error.message());
  for (const RemoteFile& file : files) {
    const fs::path path = folder / fs::path(file.path).filename();
    if (fs::exists(path, error)) continue;
    ASSIGN_OR_RETURN(const std::string header, FetchHeader(repository.SourceOf(file), file));
    RETURN_IF_ERROR(coordinator::WriteWithHole(path, header, file.bytes));
  }
  return (folder / fs::path(files[0].path).filename()).string();
}

absl::Status NotCached(const std::string& name, const std::string& folder) {
  return WithHint(NotFound("{}: not in {}, and HF_HUB_OFFLINE forbids to fetch it",
                           engine::Named(name), folder),
                  "unset HF_HUB_OFFLINE, or copy the file there");
}

absl::StatusOr<std::string> FetchFromHub(const std::string& name, const std::string& cache_dir) {
  ASSIGN_OR_RETURN(const HubName parsed, ParseHubName(name));
  const std::string folder = cache_dir + "/hf/" + parsed.repository;
  // A type that is not said may be another one than the cached.
  if (!parsed.wanted.empty() || Offline()) {
    if (auto cached = FindCached(folder, parsed.wanted); cached.ok()) return cached;
  }
  if (Offline()) return NotCached(name, folder);
  const Repository repository(parsed.repository);
  ASSIGN_OR_RETURN(const std::vector<RemoteFile> chosen, repository.Find(parsed.wanted, name));
  for (const RemoteFile& file : chosen) {
    RETURN_IF_ERROR(HttpDownload({.source = repository.SourceOf(file),
                                  .path = folder + "/" + file.path,
                                  .bytes = file.bytes,
                                  .sha256 = file.sha256,
                                  .label = file.path})
                        .status());
  }
  return folder + "/" + chosen.front().path;
}

absl::StatusOr<std::string> FetchFromOllama(const std::string& name, const std::string& cache_dir) {
  std::string model = name.substr(kOllama.size()), tag = "latest";
  if (const size_t colon = model.find(':'); colon != model.npos) {
    tag = model.substr(colon + 1);
    model.resize(colon);
  }
  if (!IsPlainPath(model) || !IsPlainPath(tag) || tag.find('/') != tag.npos) {
    return UsageError("{}: expected ollama:NAME or ollama:NAME:TAG", engine::Named(name));
  }
  if (model.find('/') == model.npos) model = "library/" + model;
  const std::string path = fmt::format("{}/ollama/{}-{}.gguf", cache_dir, model, tag);
  if (std::error_code ignored; fs::exists(path, ignored)) return path;
  if (Offline()) return NotCached(name, cache_dir + "/ollama");
  const std::string base =
      fmt::format("{}/v2/{}", Environment("OLLAMA_REGISTRY", "https://registry.ollama.ai"), model);
  ASSIGN_OR_RETURN(const Json manifest, GetJson({fmt::format("{}/manifests/{}", base, tag), ""}));
  const Json layers = manifest.is_object() ? manifest.value("layers", Json()) : Json();
  for (const Json& layer : layers.is_array() ? layers : Json::array()) {
    if (!layer.is_object() ||
        layer.value("mediaType", Json()) != "application/vnd.ollama.image.model") {
      continue;
    }
    const Json digest = layer.value("digest", Json()), size = layer.value("size", Json());
    if (!digest.is_string() || !digest.get_ref<const std::string&>().starts_with("sha256:") ||
        !size.is_number_unsigned()) {
      break;
    }
    const std::string hash = digest.get<std::string>();
    RETURN_IF_ERROR(HttpDownload({.source = {fmt::format("{}/blobs/{}", base, hash), ""},
                                  .path = path,
                                  .bytes = size.get<uint64_t>(),
                                  .sha256 = hash.substr(7),
                                  .label = name})
                        .status());
    return path;
  }
  return DataLoss("{}: its manifest names no model", engine::Named(name));
}

std::string Lower(std::string_view text) { return absl::AsciiStrToLower(std::string(text)); }

std::string ListOf(const std::vector<RemoteFile>& files) {
  std::string list;
  for (const RemoteFile& file : files) list += (list.empty() ? "" : ", ") + file.path;
  return list.empty() ? "no GGUF file" : list;
}

}  // namespace

bool IsHubName(std::string_view name) { return name.starts_with(kHub); }
bool IsModelName(std::string_view name) { return IsHubName(name) || name.starts_with(kOllama); }

absl::StatusOr<std::vector<RemoteFile>> ChooseFiles(const std::vector<RemoteFile>& files,
                                                    std::string_view wanted) {
  std::vector<RemoteFile> sorted = files;
  std::ranges::sort(sorted, {}, &RemoteFile::path);
  const auto matching = [&](std::string_view what) -> const RemoteFile* {
    for (const RemoteFile& file : sorted) {
      const std::string file_name = Lower(fs::path(file.path).filename().string());
      const bool named =
          what.ends_with(".gguf") ? file.path == what : file_name.find(Lower(what)) != what.npos;
      // Projectors of pictures lie beside models, and are none.
      if (named && file_name.find("mmproj") == what.npos) return &file;
    }
    return nullptr;
  };
  const RemoteFile* first = matching(wanted.empty() ? kDefaultType : wanted);
  if (first == nullptr && wanted.empty()) first = matching("");
  if (first == nullptr) {
    return WithHint(NotFound("no file for {}", wanted.empty() ? "it" : engine::Named(wanted)),
                    "there is " + ListOf(sorted));
  }
  const auto split = engine::ParseSplitName(first->path);
  if (!split) return std::vector<RemoteFile>{*first};
  std::vector<RemoteFile> parts;
  for (uint32_t i = 0; i < split->count; ++i) {
    const std::string path =
        engine::FormatSplitName({.prefix = split->prefix, .no = i, .count = split->count});
    const auto part = std::ranges::find(sorted, path, &RemoteFile::path);
    if (part == sorted.end()) return NotFound("{}: a part of the set is missing", path);
    parts.push_back(*part);
  }
  return parts;
}

absl::StatusOr<HubModel> FetchHeaders(const std::string& name, const std::string& cache_dir) {
  ASSIGN_OR_RETURN(const HubName parsed, ParseHubName(name));
  const std::string folder = "hf/" + parsed.repository;
  const auto model_of = [&](const std::string& file, std::string path) {
    const fs::path below = (fs::path(folder) / file).parent_path();
    return HubModel{.path = std::move(path),
                    .name = fmt::format("{}{}/{}", kHub, parsed.repository, file),
                    .folder = below.string()};
  };
  const std::string here = cache_dir + "/" + folder;
  if (!parsed.wanted.empty() || Offline()) {
    if (auto cached = FindCached(here, parsed.wanted); cached.ok())
      return model_of(cached->substr(here.size() + 1), *cached);
  }
  if (Offline()) return NotCached(name, here);
  const Repository repository(parsed.repository);
  ASSIGN_OR_RETURN(const std::vector<RemoteFile> files, repository.Find(parsed.wanted, name));
  ASSIGN_OR_RETURN(std::string path, FetchHeadersOf(repository, files, cache_dir));
  return model_of(files[0].path, std::move(path));
}

absl::StatusOr<uint64_t> FetchPart(const std::string& model, const engine::PartFile& part,
                                   const std::string& folder,
                                   const std::function<bool(uint64_t, uint64_t)>& progress) {
  ASSIGN_OR_RETURN(const HubName parsed, ParseHubName(model));
  if (Offline()) return NotCached(part.file_name, folder);
  const Repository repository(parsed.repository);
  ASSIGN_OR_RETURN(const std::vector<RemoteFile> files, repository.List());
  const std::string path = fs::path(parsed.wanted).replace_filename(part.file_name);
  const auto found = std::ranges::find(files, path, &RemoteFile::path);
  if (found == files.end()) return NotFound("{}: it has no {}", model, path);
  if (found->bytes != part.bytes) {
    return DataLoss("{}: {} has {} bytes there, expected {}", model, path, found->bytes,
                    part.bytes);
  }
  absl::Time tell = SteadyNow();
  return HttpDownload({.source = repository.SourceOf(*found),
                       .path = folder + "/" + part.file_name,
                       .bytes = found->bytes,
                       .sha256 = found->sha256,
                       .label = part.file_name,
                       .go_on = [&](uint64_t done) {
                         if (SteadyNow() >= tell) {
                           tell = SteadyNow() + kTellEvery;
                           spdlog::info("fetching {}: {} of {}", part.file_name,
                                        engine::FormatBytes(done), engine::FormatBytes(part.bytes));
                         }
                         return !progress || progress(done, part.bytes);
                       }});
}

absl::StatusOr<std::string> FetchModel(const std::string& name, const std::string& cache_dir) {
  return name.starts_with(kHub) ? FetchFromHub(name, cache_dir) : FetchFromOllama(name, cache_dir);
}

}  // namespace baton::cli
