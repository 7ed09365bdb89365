// From a row of logits to the answer that its OutputRow asks for. A pure function of its arguments.
#pragma once

#include <optional>
#include <span>

#include "engine/base/status.h"
#include "engine/runtime/micro_batch.h"
#include "engine/tensor/logit_summary.h"

namespace baton::engine {

// `position` is that of the row's own token. Errors are the sampler's.
absl::Status MakeRowResult(const OutputRow& output, int32_t position, std::span<const float> logits,
                           RowResult& result);

// The same where the logits are a device's, from what it says of them.
//
// What has to be asked; none where only the row itself will do.
std::optional<LogitQuestion> QuestionFor(const OutputRow& output, int32_t position,
                                         int32_t vocab_size);
// False: the answer does not reach far enough, the row itself is needed after all.
absl::StatusOr<bool> MakeRowResult(const OutputRow& output, int32_t position, int32_t vocab_size,
                                   const LogitQuestion& question, const LogitSummary& summary,
                                   RowResult& result);

}  // namespace baton::engine
