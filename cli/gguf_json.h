// GGUF metadata values as JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "engine/gguf/metadata.h"

namespace baton::cli {

// A scalar, or the first `max_elements` of an array. A float keeps its shortest decimal form;
// what JSON has no number for becomes "nan", "inf" or "-inf".
nlohmann::ordered_json ValueJson(const engine::GgufValue& value, size_t max_elements);

}  // namespace baton::cli
