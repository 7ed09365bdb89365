// Which JSON may come next: a JSON schema as an automaton over bytes, for answers that must fit it.
//
// The subset of JSON schema: type (one or several), properties, required, additionalProperties,
// items, minItems, maxItems, minLength, maxLength, enum, const, anyOf, oneOf (read as anyOf: its
// alternatives should not overlap), allOf of one, $ref into the document itself. Keywords that only
// describe are passed over; any other is refused by name. Properties come in the order of the
// schema; without additionalProperties an object that lists properties has no others. Between
// tokens there is white space of kMaxSpaces bytes at most, so that no answer ends in an endless
// gap.
//
// A Grammar is immutable, any thread. A GrammarState is a value of a few hundred bytes: copied,
// compared by what it accepts, and advanced by bytes, so that a replay comes to the same one.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"

namespace baton::engine {

// A schema, compiled. Nodes refer to each other by index, since schemas may be recursive.
struct SchemaNode {
  enum class Kind { kUnion, kLiterals, kString, kNumber, kInteger, kArray, kObject };
  struct Property {
    std::string key;  // as JSON writes it, with the closing quote
    uint32_t value = 0;
    bool required = false;
  };
  static constexpr uint32_t kUnlimited = UINT32_MAX;
  static constexpr uint32_t kNone = UINT32_MAX;

  Kind kind = Kind::kUnion;
  std::vector<uint32_t> alternatives = {};  // kUnion: never unions themselves
  std::vector<std::string> literals = {};   // kLiterals: as JSON writes them
  uint32_t min = 0, max = kUnlimited;       // kString: characters; kArray: items
  uint32_t items = kNone;                   // kArray
  std::vector<Property> properties = {};    // kObject
  uint32_t additional = kNone;              // kObject: kNone, no others
  uint32_t height = 0;                      // levels of nesting that the smallest value needs
};

class Grammar {
 public:
  static constexpr uint32_t kMaxSpaces = 32;
  static constexpr uint32_t kMaxDepth = 64;  // of objects and arrays in each other

  // "{}" or "true": any JSON. InvalidArgument names the place in the schema and the keyword.
  static absl::StatusOr<std::shared_ptr<const Grammar>> FromJsonSchema(std::string_view schema);

  const SchemaNode& node(uint32_t index) const { return nodes_[index]; }
  uint32_t root() const { return root_; }

 private:
  friend class SchemaCompiler;
  std::vector<SchemaNode> nodes_;
  uint32_t root_ = 0;
};

// One thing that has still to be matched.
struct GrammarFrame {
  enum class Kind : uint32_t {
    kValue,       // a value of `node`; `a`: spaces that may come before it
    kLiteral,     // literal `a` of `node`, from byte `b` on
    kKey,         // the key of property `a` of `node`, from byte `b` on
    kFreeKey,     // a key that no property has; `a`: part of a string; `b`: bytes equal to a
                  // property's, see Excluded
    kColon,       // `b`: spaces
    kString,      // after the quote; `a`: part of a string; `b`: characters so far
    kNumber,      // `a`: part of a number; `b`: its digits so far
    kArrayOpen,   // after "[": a value or "]"; `b`: spaces
    kArrayNext,   // after value number `a`: "," or "]"; `b`: spaces
    kObjectOpen,  // after "{": a key or "}"; `b`: spaces
    kObjectNext,  // "," or "}", properties from `a` on may come; `b`: spaces
    kObjectKey,   // after ",": the key of property `a` or a later one; `b`: spaces
  };
  Kind kind;
  uint32_t node = 0, a = 0, b = 0;
  friend auto operator<=>(const GrammarFrame&, const GrammarFrame&) = default;
};

// What remains, the next on top. Empty: the answer is complete.
using GrammarStack = std::vector<GrammarFrame>;

class GrammarState {
 public:
  explicit GrammarState(std::shared_ptr<const Grammar> grammar);

  // False: no answer goes on like that; the state is dead then.
  bool Advance(std::string_view bytes);
  bool AdvanceByte(uint8_t byte);
  bool complete() const;  // the answer may end here
  bool dead() const { return stacks_.empty(); }

  const Grammar& grammar() const { return *grammar_; }
  // The ways in which the text so far can be read.
  const std::vector<GrammarStack>& stacks() const { return stacks_; }

 private:
  std::shared_ptr<const Grammar> grammar_;
  std::vector<GrammarStack> stacks_;
};

// Adds all ways in which `stack` goes on with `byte` to `next`.
void AdvanceStack(const Grammar& grammar, const GrammarStack& stack, uint8_t byte,
                  std::vector<GrammarStack>& next);
bool MayEnd(const GrammarStack& stack);

// Most tokens are plain: whole characters that may stand in a string as they are. How many of those
// may come now, inside a string or a free key; 0 anywhere else.
uint32_t PlainCharactersLeft(const Grammar& grammar, const GrammarStack& stack);
// 0 for bytes that are not plain.
uint32_t CountPlainCharacters(std::string_view bytes);

}  // namespace baton::engine
