// Models by name from where people publish them, kept in the cache.
//
//   hf:ORG/REPO[:QUANT | /FILE.gguf]   a model hub; HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE as its
//                                      own tools have them
//   ollama:NAME[:TAG]                  a registry's manifest and blobs; OLLAMA_REGISTRY names
//   another
//
// A split set comes whole, or part by part to the hosts that need them. What broke off goes on
// where it stopped; sizes and hashes are checked before a file gets its name, so that what is in
// the cache is right.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/arch/stage_spec.h"
#include "engine/base/status.h"

namespace baton::cli {

bool IsModelName(std::string_view name);  // "hf:…", "ollama:…"

// The path of the (first) file, from `cache_dir` or after fetching it there.
absl::StatusOr<std::string> FetchModel(const std::string& name, const std::string& cache_dir);

// A model of a hub as a coordinator needs it, whose workers fetch the parts of their layers.
struct HubModel {
  std::string path;    // of the (first) file here: whole if it is cached, else the headers alone
  std::string name;    // "hf:ORG/REPO/FILE.gguf", FetchPart's
  std::string folder;  // where a host keeps its parts, below its cache of models
};
bool IsHubName(std::string_view name);
absl::StatusOr<HubModel> FetchHeaders(const std::string& name, const std::string& cache_dir);

// Puts one file of the set that `model` is the first file of into `folder`; the bytes that came.
// `progress` hears of those that are there and returns false to give up.
absl::StatusOr<uint64_t> FetchPart(
    const std::string& model, const engine::PartFile& part, const std::string& folder,
    const std::function<bool(uint64_t done, uint64_t total)>& progress);

// What to fetch of a repository. For tests.
struct RemoteFile {
  std::string path;  // in the repository
  uint64_t bytes = 0;
  std::string sha256;  // empty: not said
};
// The file, or the parts of a set in order, that `wanted` means: a file's path, a weight type, or
// nothing, which is Q4_K_M or what there is. NotFound lists what there is.
absl::StatusOr<std::vector<RemoteFile>> ChooseFiles(const std::vector<RemoteFile>& files,
                                                    std::string_view wanted);

}  // namespace baton::cli
