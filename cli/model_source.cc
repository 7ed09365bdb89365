#include "cli/model_source.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/exit_code.h"
#include "cli/http_download.h"
#include "engine/base/quote.h"
#include "engine/gguf/split_name.h"

namespace baton::cli {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kHub = "hf:";
constexpr std::string_view kOllama = "ollama:";
constexpr std::string_view kDefaultType = "Q4_K_M";

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
  Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return DataLoss("{}: answers no JSON", source.url);
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
  const std::string endpoint = Environment("HF_ENDPOINT", "https://huggingface.co");
  const std::string token = Environment("HF_TOKEN", "");
  ASSIGN_OR_RETURN(const Json tree,
                   GetJson({fmt::format("{}/api/models/{}/tree/main?recursive=true", endpoint,
                                        parsed.repository),
                            token}));
  auto chosen = ChooseFiles(FilesOf(tree), parsed.wanted);
  if (!chosen.ok()) return Prefixed(chosen.status(), name);
  for (const RemoteFile& file : *chosen) {
    const std::string path = folder + "/" + file.path;
    if (std::error_code ignored; fs::exists(path, ignored)) continue;
    RETURN_IF_ERROR(HttpDownload(
        {.source = {fmt::format("{}/{}/resolve/main/{}", endpoint, parsed.repository, file.path),
                    token},
         .path = path,
         .bytes = file.bytes,
         .sha256 = file.sha256,
         .label = file.path}));
  }
  return folder + "/" + chosen->front().path;
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
                                  .label = name}));
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

bool IsModelName(std::string_view name) {
  return name.starts_with(kHub) || name.starts_with(kOllama);
}

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

absl::StatusOr<std::string> FetchModel(const std::string& name, const std::string& cache_dir) {
  return name.starts_with(kHub) ? FetchFromHub(name, cache_dir) : FetchFromOllama(name, cache_dir);
}

}  // namespace baton::cli
