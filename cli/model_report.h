// What a GGUF model is, as `baton info` shows it: one JSON document, or text for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/status.h"
#include "engine/gguf/gguf_file.h"

namespace baton::cli {

struct ReportOptions {
  bool full = false;  // arrays and long texts whole
};

// `supported` says why this build can't run the model, or OK. Tensor offsets count from the first
// byte of the part, `part` is an index into `parts`.
nlohmann::ordered_json ModelJson(const engine::GgufModel& model, const absl::Status& supported,
                                 ReportOptions options);
std::string ModelText(const engine::GgufModel& model, const absl::Status& supported,
                      ReportOptions options);

// "File: 98362432 bytes (98.4 MB) in 1 part"
std::string FileLine(const engine::GgufModel& model);

}  // namespace baton::cli
