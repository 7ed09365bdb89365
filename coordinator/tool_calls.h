// Tools in the sense of OpenAI's API: what a request says of them, and the calls in an answer.
//
// Models write calls as their templates taught them. Understood are JSON objects (or lists of them)
// {"name", "arguments" or "parameters"}, alone as the whole answer or between marks
// (kToolCallMarks). Where a call is demanded, the answer is bound to a schema that only calls fit.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace baton::coordinator {

struct Tools {
  std::vector<std::string> names;  // empty: the answer is text
  std::string json;                // for the template; empty: none
  std::string schema;              // of a call that is demanded; empty: calls are up to the model
};

// Of a body's `tools`, `tool_choice` and `parallel_tool_calls`. InvalidArgument begins with the
// parameter's name.
absl::StatusOr<Tools> ReadTools(const nlohmann::ordered_json& body);

// A piece of an answer: text, or a call.
struct AnswerPart {
  std::string text;
  std::string name;       // of the function; empty: this is text
  std::string arguments;  // a JSON object
};

// Where a JSON object or list ends that comes in pieces: each byte is looked at once.
class ValueEnd {
 public:
  // Bytes of the value at the beginning of `text`, which goes on where it ended at the call before;
  // npos: it is not complete.
  size_t Find(std::string_view text);

 private:
  size_t read_ = 0;
  int depth_ = 0;
  bool in_string_ = false;
};

// Finds the calls in an answer that comes in pieces. Text that may turn out to be a call is held
// back until that is known. Owner: one choice of an answer. One thread.
class ToolCallReader {
 public:
  explicit ToolCallReader(std::vector<std::string> names) : names_(std::move(names)) {}

  std::vector<AnswerPart> Append(std::string_view text);
  std::vector<AnswerPart> Finish();  // what was held back

 private:
  // Whether a step was made; false: more text is needed.
  bool Step(std::vector<AnswerPart>* parts);
  bool ReadText(std::vector<AnswerPart>* parts);
  bool ReadCall(std::vector<AnswerPart>* parts);
  // The calls in a JSON value; empty: it is something else.
  std::vector<AnswerPart> CallsIn(std::string_view json) const;
  void AddText(std::string_view text, std::vector<AnswerPart>* parts);

  const std::vector<std::string> names_;
  std::string pending_;           // not given out yet
  bool in_call_ = false;          // pending_ begins with a mark or with what may be a call
  size_t value_begin_ = 0;        // in_call_: of the JSON value, in pending_
  ValueEnd value_end_;            // in_call_: its end
  std::string_view close_after_;  // in_call_: mark that ends it
  std::string_view close_;        // mark that comes next; empty: none
  bool blank_ = true;             // nothing but white space since the beginning or the last call
  bool called_ = false;           // there was a call
};

}  // namespace baton::coordinator
