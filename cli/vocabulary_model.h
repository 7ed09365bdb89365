// A model opened for its text side alone: its vocabulary, no weights.
#pragma once

#include <memory>
#include <string>

#include "engine/base/status.h"
#include "engine/gguf/gguf_file.h"
#include "engine/text/tokenizer.h"

namespace baton::cli {

// NotFound where there is no such file; whatever is wrong inside is bad data.
absl::StatusOr<engine::GgufModel> OpenModel(const std::string& name);
absl::StatusOr<std::unique_ptr<engine::Tokenizer>> MakeTokenizer(const engine::GgufModel& model);

}  // namespace baton::cli
