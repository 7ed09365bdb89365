// From a row of logits to the answer that its OutputRow asks for. Pure functions of their
// arguments.
#pragma once

#include <span>

#include "engine/runtime/micro_batch.h"

namespace baton::engine {

// `position` is that of the row's token. Overwrites `logits`.
void MakeRowResult(const OutputRow& output, int32_t position, std::span<float> logits,
                   RowResult& result);

// log softmax(logits)[token].
float LogProbability(std::span<const float> logits, TokenId token);

}  // namespace baton::engine
