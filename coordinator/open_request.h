// A request whose answer is not finished, and how a journal writes it down: one JSON document a
// line. The seed is part of it, so an answer that goes on has the tokens that the undisturbed one
// would have had.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/token_id.h"
#include "engine/sampling/sampling_params.h"

namespace baton::coordinator {

struct OpenRequest {
  std::vector<engine::TokenId> prompt;
  std::vector<engine::TokenId> answer;  // so far
  engine::SamplingParams sampling;
  std::vector<std::string> stop;
  bool ignore_eos = false;
  int32_t max_tokens = 0;
  int32_t priority = 0;
  bool speculation = true;
  std::string grammar_json_schema;  // empty: none
};

// Lines of a journal, each with its end.
std::string JournalHeadLine(std::string_view fingerprint);  // the first: of the model
std::string JournalOpenLine(std::string_view id, const OpenRequest& request);
std::string JournalTokenLine(std::string_view id, engine::TokenId token);
std::string JournalEndLine(std::string_view id);

// The requests that a journal leaves open, by id; none where it is another model's. What is no line
// of ours is passed over, and so is a last line that was cut off.
std::unordered_map<std::string, OpenRequest> ReadJournal(std::string_view journal,
                                                         std::string_view fingerprint);

}  // namespace baton::coordinator
