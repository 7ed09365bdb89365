// One answer, read to its end.
#pragma once

#include <functional>
#include <string_view>

#include "cli/interrupt.h"
#include "coordinator/generation.h"
#include "coordinator/llm_service.h"
#include "engine/base/status.h"

namespace baton::cli {

// Asks and waits; `on_text` gets the text as it comes. A signal that
// `watch` sees cancels: then
// `finish` is kCancelled. An answer that ends with an error is that error.
absl::StatusOr<coordinator::GenerationChunk> ReadAnswer(
    coordinator::LlmService& service, const coordinator::GenerationRequest& request,
    const std::function<absl::Status(std::string_view)>& on_text, InterruptWatch& watch);

// "0-14": inclusive, for people.
std::string LayersText(engine::LayerRange layers);

}  // namespace baton::cli
