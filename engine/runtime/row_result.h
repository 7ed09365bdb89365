// From a row of logits to the answer that its OutputRow asks for. A pure function of its arguments.
#pragma once

#include <span>

#include "engine/base/status.h"
#include "engine/runtime/micro_batch.h"

namespace baton::engine {

// `position` is that of the row's own token. Errors are the sampler's.
absl::Status MakeRowResult(const OutputRow& output, int32_t position, std::span<const float> logits,
                           RowResult& result);

}  // namespace baton::engine
