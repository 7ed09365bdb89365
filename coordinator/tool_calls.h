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

// A piece of an answer: text, or of a call.
struct AnswerPart {
  std::string text;
  std::string name;  // of the function: a call begins; empty: text, or more of the call
  std::string
      arguments;  // of the call that began last: a piece of a JSON object, as it was written
};

// How deep a JSON text is in lists and objects, byte by byte.
class JsonDepth {
 public:
  int Add(char c);  // the depth after it
  int depth() const { return depth_; }

 private:
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

// Finds the calls in an answer that comes in pieces. Text that may turn out to be a call is held
// back until that is known: until a call's arguments begin, which then are given out as they come.
// Owner: one choice of an answer. One thread.
class ToolCallReader {
 public:
  explicit ToolCallReader(std::vector<std::string> names) : names_(std::move(names)) {}

  std::vector<AnswerPart> Append(std::string_view text);
  std::vector<AnswerPart> Finish();  // what was held back

 private:
  enum class Place : uint8_t {
    kText,
    kHead,       // pending_ begins with a mark or with what may be a call
    kArguments,  // of a call
    kTail,       // what follows them in the call's object
  };
  enum class List : uint8_t { kNone, kOpened, kHasCalls };

  // Whether a step was made; false: more text is needed.
  bool Step(std::vector<AnswerPart>* parts);
  bool ReadText(std::vector<AnswerPart>* parts);
  bool FindValue(std::vector<AnswerPart>* parts);
  bool ReadHead(std::vector<AnswerPart>* parts);
  bool ReadArguments(std::vector<AnswerPart>* parts);
  bool ReadTail();
  void EndCall();
  void EndCalls();
  // The first bytes of pending_ only looked like a call.
  void GiveUp(size_t bytes, std::vector<AnswerPart>* parts);
  // The call that a JSON object is; without a name: it is something else.
  AnswerPart CallIn(std::string_view json) const;
  // The function of a call whose object came as far as its arguments; empty: it is none.
  std::string FunctionOf(std::string_view head) const;
  void AddText(std::string_view text, std::vector<AnswerPart>* parts);

  const std::vector<std::string> names_;
  std::string pending_;  // not given out yet
  Place place_ = Place::kText;
  List list_ = List::kNone;       // that the call stands in
  size_t value_begin_ = 0;        // kHead: of the call's object, in pending_
  size_t read_ = 0;               // bytes of pending_ that depth_ knows
  JsonDepth depth_;               // in the call's object
  bool began_arguments_ = false;  // of the object: arguments that can be given out as they come
  std::string_view close_after_;  // mark that ends the call
  std::string_view close_;        // mark that comes next; empty: none
  bool blank_ = true;             // nothing but white space since the beginning or the last call
  bool called_ = false;           // there was a call
};

}  // namespace baton::coordinator
