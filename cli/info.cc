// baton info: what is in a GGUF file, or which GGUF files are in a folder.
#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/model_path.h"
#include "cli/model_report.h"
#include "cli/model_source.h"
#include "cli/output.h"
#include "engine/arch/supported.h"
#include "engine/base/quote.h"
#include "engine/gguf/gguf_file.h"
#include "engine/gguf/split_name.h"

namespace baton::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct InfoFlags {
  std::string path;
  bool full = false;
  bool json = false;
};

absl::Status FileInfo(const InfoFlags& flags) {
  ASSIGN_OR_RETURN(const engine::GgufModel model, engine::GgufModel::Open(flags.path));
  const absl::Status supported = engine::CheckSupported(model);
  const ReportOptions options = {.full = flags.full};
  if (flags.json) return PrintJson(ModelJson(model, supported, options));
  return Print(ModelText(model, supported, options));
}

// The models of a folder: later parts of a split set are in their first part's line.
absl::StatusOr<std::vector<std::string>> ModelsIn(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string();
    const auto split = engine::ParseSplitName(path);
    const bool later_part = split && split->no > 0;
    if (path.ends_with(".gguf") && !later_part) paths.push_back(path);
  }
  if (error) return Unknown("{}: {}", engine::Named(folder), error.message());
  std::ranges::sort(paths);
  return paths;
}

Json FolderEntry(const std::string& path) {
  Json entry = {{"file", path}};
  const auto model = engine::GgufModel::Open(path);
  if (!model.ok()) {
    entry["error"] = Message(model.status());
    return entry;
  }
  entry["bytes"] = model->total_bytes();
  entry["parts"] = model->parts().size();
  const absl::Status supported = engine::CheckSupported(*model);
  entry["supported"] = supported.ok();
  entry["reason"] = supported.ok() ? Json(nullptr) : Json(Message(supported));
  return entry;
}

std::string FolderLine(const Json& entry) {
  const std::string file = engine::Escaped(entry["file"].get<std::string>());
  if (entry.contains("error")) {
    return fmt::format("{}  broken: {}\n", file, entry["error"].get<std::string>());
  }
  const std::string supported =
      entry["supported"].get<bool>()
          ? ""
          : fmt::format("  not supported: {}", entry["reason"].get<std::string>());
  return fmt::format("{}  {:.1f} MB in {} part(s){}\n", file, entry["bytes"].get<double>() / 1e6,
                     entry["parts"].get<size_t>(), supported);
}

absl::Status FolderInfo(const InfoFlags& flags) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ModelsIn(flags.path));
  Json files = Json::array();
  for (const std::string& path : paths) files.push_back(FolderEntry(path));
  if (flags.json) return PrintJson({{"folder", flags.path}, {"files", files}});
  if (files.empty()) return Print(fmt::format("{}: no GGUF files\n", engine::Named(flags.path)));
  std::string text;
  for (const Json& entry : files) text += FolderLine(entry);
  return Print(text);
}

}  // namespace

CommandBody DefineInfo(CLI::App& app) {
  auto flags = std::make_shared<InfoFlags>();
  app.add_option("file", flags->path,
                 "GGUF file, first part of a split set, folder, or a name (hf:…, ollama:…)")
      ->required();
  app.add_flag("--full", flags->full, "Arrays and long texts whole");
  app.add_flag("--json", flags->json, "One JSON document");
  return [flags]() -> absl::Status {
    if (IsModelName(flags->path)) {
      ASSIGN_OR_RETURN(flags->path, FindModel(flags->path));
    }
    std::error_code ignored;
    return fs::is_directory(flags->path, ignored) ? FolderInfo(*flags) : FileInfo(*flags);
  };
}

}  // namespace baton::cli
