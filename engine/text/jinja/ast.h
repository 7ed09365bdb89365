// The parsed template. Plain trees; immutable once parsed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/jinja/value.h"

namespace baton::engine::jinja {

struct Position {
  int line = 1, column = 1;  // from 1; columns count characters
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> keyword;
  ExprPtr spread;           // *args
  ExprPtr spread_keywords;  // **kwargs
};

struct Expr {
  enum class Kind {
    kConstant,     // constant
    kName,         // name
    kList,         // operands
    kTuple,        // operands
    kDict,         // operands: key, value, key, value, ...
    kAttribute,    // operands[0] . name
    kItem,         // operands[0] [ operands[1] ]
    kSlice,        // only as operands[1] of kItem; operands: begin, end, step, each may be null
    kCall,         // operands[0] ( call )
    kFilter,       // operands[0] | name ( call )
    kTest,         // operands[0] is name ( call )
    kUnary,        // name: + - not
    kBinary,       // name: + - * / // % **
    kAnd,          // operands[0] and operands[1]
    kOr,           // operands[0] or operands[1]
    kCompare,      // operands[0] operators[0] operands[1] operators[1] ...
    kConcat,       // operands joined by ~
    kConditional,  // operands: then, condition, else (may be null)
    kBlockText,    // what a {% filter %} or {% set %} block has put out
    kNamespace,    // assignment target: name . attribute
  };

  Kind kind;
  Position position;
  int height = 1;  // levels of expressions, bounded when parsed
  std::string name;
  std::string attribute;
  Value constant;
  std::vector<ExprPtr> operands;
  std::vector<std::string> operators;
  CallArguments call;
};

struct Statement;
using Block = std::vector<Statement>;

struct Macro {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  Block body;
  // Whether the body speaks of them: only then may a call give more than the parameters.
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Statement {
  enum class Kind {
    kText,      // text
    kOutput,    // expressions
    kIf,        // branches
    kFor,       // target, value, condition, recursive, branches: body, else
    kSet,       // target, value
    kSetBlock,  // target, value (filters over kBlockText, or null), branches: body
    kMacro,     // macro
    kCall,      // macro (the caller), value: kCall
    kFilter,    // value (filters over kBlockText), branches: body
    kWith,      // expressions: target, value, target, value, ...; branches: body
    kScope,     // branches: body
    kBreak,
    kContinue,
  };
  struct Branch {
    ExprPtr condition;  // null: always
    Block body;
  };

  Kind kind;
  Position position = {};
  std::string text = {};
  ExprPtr target = {}, value = {}, condition = {};
  bool recursive = false;
  std::vector<ExprPtr> expressions = {};
  std::vector<Branch> branches = {};
  std::unique_ptr<Macro> macro = {};
};

}  // namespace baton::engine::jinja
