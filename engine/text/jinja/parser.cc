#include "engine/text/jinja/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>

#include "engine/text/jinja/builtins.h"
#include "engine/text/jinja/lexer.h"

namespace baton::engine::jinja {
namespace {

using Names = std::initializer_list<std::string_view>;

bool Contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string Describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kText:
      return "template data / text";
    case Token::Kind::kOutputBegin:
      return "begin of print statement";
    case Token::Kind::kOutputEnd:
      return "end of print statement";
    case Token::Kind::kBlockBegin:
      return "begin of statement block";
    case Token::Kind::kBlockEnd:
      return "end of statement block";
    case Token::Kind::kString:
      return "string";
    case Token::Kind::kInteger:
      return "integer";
    case Token::Kind::kFloat:
      return "float";
    case Token::Kind::kEnd:
      return "end of template";
    case Token::Kind::kName:
    case Token::Kind::kOperator:
      break;
  }
  return token.text;
}

std::string Quoted(std::span<const std::string_view> names) {
  std::string text;
  for (std::string_view name : names)
    text += fmt::format("{}'{}'", text.empty() ? "" : " or ", name);
  return text;
}

// Recursive descent, one function a level of precedence, as jinja2 has them.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<Block> Run() { return ParseBlock({}); }

 private:
  using Kind = Expr::Kind;

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& Next() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  static bool IsName(const Token& token, std::string_view name) {
    return token.kind == Token::Kind::kName && token.text == name;
  }
  static bool IsOperator(const Token& token, std::string_view op) {
    return token.kind == Token::Kind::kOperator && token.text == op;
  }
  bool AtName(std::string_view name) const { return IsName(current(), name); }
  bool AtOperator(std::string_view op) const { return IsOperator(current(), op); }
  bool At(Token::Kind kind) const { return current().kind == kind; }
  bool AcceptName(std::string_view name) { return AtName(name) && (Next(), true); }
  bool AcceptOperator(std::string_view op) { return AtOperator(op) && (Next(), true); }

  absl::Status Error(std::string_view message) const {
    return SyntaxError(current().position, message);
  }
  absl::Status Expected(std::string_view what) const {
    if (At(Token::Kind::kEnd)) {
      return Error(fmt::format("unexpected end of template, expected '{}'.", what));
    }
    return Error(fmt::format("expected token '{}', got '{}'", what, Describe(current())));
  }
  absl::Status Expect(Token::Kind kind, std::string_view what) {
    if (!At(kind)) return Expected(what);
    Next();
    return absl::OkStatus();
  }
  absl::Status ExpectOperator(std::string_view op) {
    return AcceptOperator(op) ? absl::OkStatus() : Expected(op);
  }
  absl::Status ExpectName(std::string_view name) {
    return AcceptName(name) ? absl::OkStatus() : Expected(name);
  }
  absl::StatusOr<std::string> TakeName() {
    if (!At(Token::Kind::kName)) return Expected("name");
    return Next().text;
  }

  // Nodes.
  ExprPtr New(Kind kind, Position position) const {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->position = position;
    return expr;
  }
  // Takes the finished node and refuses towers, which would overflow the stack of whoever walks
  // them.
  absl::StatusOr<ExprPtr> Finish(ExprPtr expr) const {
    const auto grow = [&](const ExprPtr& child) {
      if (child != nullptr) expr->height = std::max(expr->height, child->height + 1);
    };
    for (const ExprPtr& operand : expr->operands) grow(operand);
    for (const ExprPtr& argument : expr->call.positional) grow(argument);
    for (const auto& [name, argument] : expr->call.keyword) grow(argument);
    grow(expr->call.spread);
    grow(expr->call.spread_keywords);
    if (expr->height > Budget::kMaxNesting) {
      return SyntaxError(expr->position, "the expression is nested too deeply");
    }
    return expr;
  }
  absl::StatusOr<ExprPtr> NewBinary(Kind kind, Position position, std::string_view name,
                                    ExprPtr left, ExprPtr right) const {
    ExprPtr expr = New(kind, position);
    expr->name = name;
    expr->operands.push_back(std::move(left));
    expr->operands.push_back(std::move(right));
    return Finish(std::move(expr));
  }
  ExprPtr NewConstant(Position position, Value value) const {
    ExprPtr expr = New(Kind::kConstant, position);
    expr->constant = std::move(value);
    return expr;
  }

  // One level deeper for as long as it lives.
  class Level {
   public:
    explicit Level(int& depth) : depth_(depth) { ++depth_; }
    ~Level() { --depth_; }

   private:
    int& depth_;
  };

  // Statements up to one of the tags `ends`, whose name is then current; up to the end of the
  // template without any.
  absl::StatusOr<Block> ParseBlock(std::span<const std::string_view> ends) {
    const Level level(depth_);
    if (depth_ > Budget::kMaxNesting) return Error("blocks are nested too deeply");
    Block block;
    while (true) {
      switch (current().kind) {
        case Token::Kind::kEnd:
          if (ends.empty()) return block;
          return Error(fmt::format(
              "Unexpected end of template. Jinja was looking for the following tags: {}.",
              Quoted(ends)));
        case Token::Kind::kText:
          block.push_back({.kind = Statement::Kind::kText, .position = current().position});
          block.back().text = Next().text;
          break;
        case Token::Kind::kOutputBegin: {
          Statement output{.kind = Statement::Kind::kOutput, .position = Next().position};
          ASSIGN_OR_RETURN(ExprPtr expr, ParseTuple());
          output.expressions.push_back(std::move(expr));
          RETURN_IF_ERROR(Expect(Token::Kind::kOutputEnd, "end of print statement"));
          block.push_back(std::move(output));
          break;
        }
        default: {  // kBlockBegin
          Next();
          if (At(Token::Kind::kName) && Contains(ends, current().text)) return block;
          ASSIGN_OR_RETURN(Statement statement, ParseStatement(ends));
          block.push_back(std::move(statement));
          RETURN_IF_ERROR(Expect(Token::Kind::kBlockEnd, "end of statement block"));
        }
      }
    }
  }

  // The body of a tag: its end, then statements up to `ends`.
  absl::StatusOr<Block> ParseBody(Names ends) {
    AcceptOperator(":");
    RETURN_IF_ERROR(Expect(Token::Kind::kBlockEnd, "end of statement block"));
    return ParseBlock(std::span(ends.begin(), ends.size()));
  }
  absl::Status ParseOnlyBody(Statement& statement, std::string_view end) {
    ASSIGN_OR_RETURN(Block body, ParseBody({end}));
    Next();
    statement.branches.push_back({.condition = nullptr, .body = std::move(body)});
    return absl::OkStatus();
  }

  absl::StatusOr<Statement> ParseStatement(std::span<const std::string_view> ends) {
    using Parse = absl::Status (Parser::*)(Statement&);
    struct Tag {
      std::string_view name;
      Statement::Kind kind;
      Parse parse;
    };
    using S = Statement::Kind;
    static constexpr Tag kTags[] = {
        {"for", S::kFor, &Parser::ParseFor},
        {"if", S::kIf, &Parser::ParseIf},
        {"set", S::kSet, &Parser::ParseSet},
        {"macro", S::kMacro, &Parser::ParseMacro},
        {"call", S::kCall, &Parser::ParseCallBlock},
        {"filter", S::kFilter, &Parser::ParseFilterBlock},
        {"with", S::kWith, &Parser::ParseWith},
        {"print", S::kOutput, &Parser::ParsePrint},
        {"block", S::kScope, &Parser::ParseNamedBlock},
        {"generation", S::kScope, &Parser::ParseGeneration},
        {"break", S::kBreak, &Parser::ParseLoopControl},
        {"continue", S::kContinue, &Parser::ParseLoopControl},
    };
    if (!At(Token::Kind::kName)) return Error("tag name expected");
    for (const Tag& tag : kTags) {
      if (!AtName(tag.name)) continue;
      Statement statement{.kind = tag.kind, .position = Next().position};
      RETURN_IF_ERROR((this->*tag.parse)(statement));
      return statement;
    }
    std::string message = fmt::format("Encountered unknown tag '{}'.", current().text);
    if (!ends.empty()) {
      message += fmt::format(" Jinja was looking for the following tags: {}.", Quoted(ends));
    }
    return Error(message);
  }

  absl::Status ParseFor(Statement& statement) {
    ASSIGN_OR_RETURN(statement.target, ParseTarget("in", false));
    RETURN_IF_ERROR(ExpectName("in"));
    ASSIGN_OR_RETURN(statement.value, ParseTuple({.conditional = false, .end_name = "recursive"}));
    if (AcceptName("if")) {
      ASSIGN_OR_RETURN(statement.condition, ParseExpression());
    }
    statement.recursive = AcceptName("recursive");
    const int outer_loops = std::exchange(loops_, loops_ + 1);
    ASSIGN_OR_RETURN(Block body, ParseBody({"endfor", "else"}));
    loops_ = outer_loops;
    statement.branches.push_back({.condition = nullptr, .body = std::move(body)});
    if (Next().text == "else") RETURN_IF_ERROR(ParseOnlyBody(statement, "endfor"));
    return absl::OkStatus();
  }

  absl::Status ParseIf(Statement& statement) {
    const Level may_not_run(branches_);
    while (true) {
      ASSIGN_OR_RETURN(ExprPtr condition, ParseTuple({.conditional = false}));
      ASSIGN_OR_RETURN(Block body, ParseBody({"elif", "else", "endif"}));
      statement.branches.push_back({std::move(condition), std::move(body)});
      const std::string& end = Next().text;
      if (end == "endif") return absl::OkStatus();
      if (end == "else") return ParseOnlyBody(statement, "endif");
    }
  }

  absl::Status ParseSet(Statement& statement) {
    ASSIGN_OR_RETURN(statement.target, ParseTarget("", true));
    if (AcceptOperator("=")) {
      ASSIGN_OR_RETURN(statement.value, ParseTuple());
      return absl::OkStatus();
    }
    statement.kind = Statement::Kind::kSetBlock;
    ASSIGN_OR_RETURN(statement.value, ParseFilters(New(Kind::kBlockText, statement.position)));
    return ParseOnlyBody(statement, "endset");
  }

  // Break and continue leave loops of the same function only.
  absl::Status ParseFunctionBody(Statement& statement, std::string_view end) {
    const int outer_loops = std::exchange(loops_, 0);
    macros_.push_back(statement.macro.get());
    ASSIGN_OR_RETURN(statement.macro->body, ParseBody({end}));
    Next();
    macros_.pop_back();
    loops_ = outer_loops;
    return absl::OkStatus();
  }

  absl::Status ParseMacro(Statement& statement) {
    statement.macro = std::make_unique<Macro>();
    ASSIGN_OR_RETURN(statement.macro->name, TakeName());
    RETURN_IF_ERROR(ParseSignature(*statement.macro));
    return ParseFunctionBody(statement, "endmacro");
  }

  absl::Status ParseCallBlock(Statement& statement) {
    statement.macro = std::make_unique<Macro>();
    statement.macro->name = "caller";
    if (AtOperator("(")) RETURN_IF_ERROR(ParseSignature(*statement.macro));
    ASSIGN_OR_RETURN(statement.value, ParseExpression());
    if (statement.value->kind != Kind::kCall) {
      return SyntaxError(statement.value->position, "expected call");
    }
    return ParseFunctionBody(statement, "endcall");
  }

  absl::Status ParseSignature(Macro& macro) {
    RETURN_IF_ERROR(ExpectOperator("("));
    while (!AtOperator(")")) {
      if (!macro.parameters.empty()) RETURN_IF_ERROR(ExpectOperator(","));
      ASSIGN_OR_RETURN(std::string parameter, TakeName());
      macro.parameters.push_back(std::move(parameter));
      if (AcceptOperator("=")) {
        ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
        macro.defaults.push_back(std::move(value));
      } else if (!macro.defaults.empty()) {
        return Error("non-default argument follows default argument");
      }
    }
    return ExpectOperator(")");
  }

  absl::Status ParseFilterBlock(Statement& statement) {
    ASSIGN_OR_RETURN(statement.value, ParseFilter(New(Kind::kBlockText, statement.position)));
    ASSIGN_OR_RETURN(statement.value, ParseFilters(std::move(statement.value)));
    return ParseOnlyBody(statement, "endfilter");
  }

  absl::Status ParseWith(Statement& statement) {
    while (!At(Token::Kind::kBlockEnd)) {
      if (!statement.expressions.empty()) RETURN_IF_ERROR(ExpectOperator(","));
      ASSIGN_OR_RETURN(ExprPtr target, ParseTarget("", false));
      RETURN_IF_ERROR(ExpectOperator("="));
      ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
      statement.expressions.push_back(std::move(target));
      statement.expressions.push_back(std::move(value));
    }
    return ParseOnlyBody(statement, "endwith");
  }

  absl::Status ParsePrint(Statement& statement) {
    while (!At(Token::Kind::kBlockEnd)) {
      if (!statement.expressions.empty()) RETURN_IF_ERROR(ExpectOperator(","));
      ASSIGN_OR_RETURN(ExprPtr expr, ParseExpression());
      statement.expressions.push_back(std::move(expr));
    }
    return absl::OkStatus();
  }

  // There is no template to inherit from, so a block stands where it is.
  absl::Status ParseNamedBlock(Statement& statement) {
    ASSIGN_OR_RETURN(const std::string name, TakeName());
    AcceptName("scoped");
    AcceptName("required");
    RETURN_IF_ERROR(ParseOnlyBody(statement, "endblock"));
    AcceptName(name);
    return absl::OkStatus();
  }

  // Marks what the model wrote, for training; its text passes through.
  absl::Status ParseGeneration(Statement& statement) {
    const int outer_loops = std::exchange(loops_, 0);
    RETURN_IF_ERROR(ParseOnlyBody(statement, "endgeneration"));
    loops_ = outer_loops;
    return absl::OkStatus();
  }

  absl::Status ParseLoopControl(Statement& statement) {
    if (loops_ > 0) return absl::OkStatus();
    return SyntaxError(statement.position, "break and continue belong into a loop");
  }

  // Targets: names, tuples of them, and where `with_namespace` also ns.name.
  absl::StatusOr<ExprPtr> ParseTarget(std::string_view end_name, bool with_namespace) {
    ASSIGN_OR_RETURN(
        ExprPtr target,
        ParseTuple({.end_name = end_name, .primary_only = true, .with_namespace = with_namespace}));
    RETURN_IF_ERROR(CheckTarget(*target));
    return target;
  }

  static absl::Status CheckTarget(const Expr& target) {
    if (target.kind == Kind::kTuple || target.kind == Kind::kList) {
      for (const ExprPtr& operand : target.operands) RETURN_IF_ERROR(CheckTarget(*operand));
      return absl::OkStatus();
    }
    if (target.kind == Kind::kName || target.kind == Kind::kNamespace) return absl::OkStatus();
    return SyntaxError(target.position, "can't assign to this expression");
  }

  // Expressions.
  struct TupleOptions {
    bool conditional = true;
    std::string_view end_name = "";  // a name that ends the tuple
    bool primary_only = false;
    bool with_namespace = false;
    bool parenthesized = false;
  };

  absl::StatusOr<ExprPtr> ParseTuple() { return ParseTuple(TupleOptions{}); }
  absl::StatusOr<ExprPtr> ParseTuple(TupleOptions options) {
    ExprPtr tuple = New(Kind::kTuple, current().position);
    bool is_tuple = false;
    while (true) {
      if (!tuple->operands.empty()) RETURN_IF_ERROR(ExpectOperator(","));
      if (At(Token::Kind::kOutputEnd) || At(Token::Kind::kBlockEnd) || AtOperator(")") ||
          (!options.end_name.empty() && AtName(options.end_name))) {
        break;
      }
      ASSIGN_OR_RETURN(ExprPtr item, options.primary_only ? ParsePrimary(options.with_namespace)
                                                          : ParseExpression(options.conditional));
      tuple->operands.push_back(std::move(item));
      if (!AtOperator(",")) break;
      is_tuple = true;
    }
    if (!is_tuple) {
      if (!tuple->operands.empty()) return std::move(tuple->operands[0]);
      if (!options.parenthesized) {
        return Error(fmt::format("Expected an expression, got '{}'", Describe(current())));
      }
    }
    return Finish(std::move(tuple));
  }

  absl::StatusOr<ExprPtr> ParseExpression(bool conditional = true) {
    const Level level(depth_);
    if (depth_ > Budget::kMaxNesting) return Error("the expression is nested too deeply");
    return conditional ? ParseConditional() : ParseOr();
  }

  absl::StatusOr<ExprPtr> ParseConditional() {
    Position position = current().position;
    ASSIGN_OR_RETURN(ExprPtr then, ParseOr());
    while (AcceptName("if")) {
      const Level may_not_run(branches_);
      ExprPtr expr = New(Kind::kConditional, position);
      expr->operands.push_back(std::move(then));
      ASSIGN_OR_RETURN(ExprPtr condition, ParseOr());
      expr->operands.push_back(std::move(condition));
      ExprPtr otherwise;
      if (AcceptName("else")) {
        ASSIGN_OR_RETURN(otherwise, ParseExpression());
      }
      expr->operands.push_back(std::move(otherwise));
      ASSIGN_OR_RETURN(then, Finish(std::move(expr)));
      position = current().position;
    }
    return then;
  }

  absl::StatusOr<ExprPtr> ParseOr() {
    ASSIGN_OR_RETURN(ExprPtr left, ParseAnd());
    while (AtName("or")) {
      const Position position = Next().position;
      ASSIGN_OR_RETURN(ExprPtr right, ParseAnd());
      ASSIGN_OR_RETURN(left,
                       NewBinary(Kind::kOr, position, "or", std::move(left), std::move(right)));
    }
    return left;
  }

  absl::StatusOr<ExprPtr> ParseAnd() {
    ASSIGN_OR_RETURN(ExprPtr left, ParseNot());
    while (AtName("and")) {
      const Position position = Next().position;
      ASSIGN_OR_RETURN(ExprPtr right, ParseNot());
      ASSIGN_OR_RETURN(left,
                       NewBinary(Kind::kAnd, position, "and", std::move(left), std::move(right)));
    }
    return left;
  }

  absl::StatusOr<ExprPtr> ParseNot() {
    if (!AtName("not")) return ParseCompare();
    const Level level(depth_);
    if (depth_ > Budget::kMaxNesting) return Error("the expression is nested too deeply");
    const Position position = Next().position;
    ASSIGN_OR_RETURN(ExprPtr operand, ParseNot());
    return NewUnary(position, "not", std::move(operand));
  }

  absl::StatusOr<ExprPtr> NewUnary(Position position, std::string_view op, ExprPtr operand) {
    ExprPtr expr = New(Kind::kUnary, position);
    expr->name = op;
    expr->operands.push_back(std::move(operand));
    return Finish(std::move(expr));
  }

  // "", if there is no comparison here.
  std::string AcceptComparison() {
    static constexpr std::array<std::string_view, 6> kComparisons = {"==", "!=", "<",
                                                                     "<=", ">",  ">="};
    if (At(Token::Kind::kOperator) && Contains(kComparisons, current().text)) return Next().text;
    if (AcceptName("in")) return "in";
    if (AtName("not") && IsName(ahead(), "in")) {
      Next();
      Next();
      return "not in";
    }
    return "";
  }

  absl::StatusOr<ExprPtr> ParseCompare() {
    const Position position = current().position;
    ASSIGN_OR_RETURN(ExprPtr left, ParseSum());
    std::string op = AcceptComparison();
    if (op.empty()) return left;
    ExprPtr expr = New(Kind::kCompare, position);
    expr->operands.push_back(std::move(left));
    for (; !op.empty(); op = AcceptComparison()) {
      ASSIGN_OR_RETURN(ExprPtr right, ParseSum());
      expr->operators.push_back(std::move(op));
      expr->operands.push_back(std::move(right));
    }
    return Finish(std::move(expr));
  }

  using Operand = absl::StatusOr<ExprPtr> (Parser::*)();
  absl::StatusOr<ExprPtr> ParseLeftToRight(std::span<const std::string_view> ops, Operand operand) {
    ASSIGN_OR_RETURN(ExprPtr left, (this->*operand)());
    while (At(Token::Kind::kOperator) && Contains(ops, current().text)) {
      const Token& op = Next();
      ASSIGN_OR_RETURN(ExprPtr right, (this->*operand)());
      ASSIGN_OR_RETURN(
          left, NewBinary(Kind::kBinary, op.position, op.text, std::move(left), std::move(right)));
    }
    return left;
  }

  absl::StatusOr<ExprPtr> ParseSum() {
    static constexpr std::array<std::string_view, 2> kSums = {"+", "-"};
    return ParseLeftToRight(kSums, &Parser::ParseConcat);
  }

  absl::StatusOr<ExprPtr> ParseConcat() {
    const Position position = current().position;
    ASSIGN_OR_RETURN(ExprPtr first, ParseProduct());
    if (!AtOperator("~")) return first;
    ExprPtr expr = New(Kind::kConcat, position);
    expr->operands.push_back(std::move(first));
    while (AcceptOperator("~")) {
      ASSIGN_OR_RETURN(ExprPtr next, ParseProduct());
      expr->operands.push_back(std::move(next));
    }
    return Finish(std::move(expr));
  }

  absl::StatusOr<ExprPtr> ParseProduct() {
    static constexpr std::array<std::string_view, 4> kProducts = {"*", "/", "//", "%"};
    return ParseLeftToRight(kProducts, &Parser::ParsePower);
  }

  absl::StatusOr<ExprPtr> ParsePower() {
    static constexpr std::array<std::string_view, 1> kPowers = {"**"};
    return ParseLeftToRight(kPowers, &Parser::ParseFilteredUnary);
  }

  // A filter binds less tightly than a sign: -1|abs is (-1)|abs.
  absl::StatusOr<ExprPtr> ParseFilteredUnary() {
    ASSIGN_OR_RETURN(ExprPtr expr, ParseUnary());
    while (true) {
      if (AtOperator("|")) {
        ASSIGN_OR_RETURN(expr, ParseFilters(std::move(expr)));
      } else if (AtName("is")) {
        ASSIGN_OR_RETURN(expr, ParseTest(std::move(expr)));
      } else if (AtOperator("(")) {
        ASSIGN_OR_RETURN(expr, ParseCall(std::move(expr)));
      } else {
        return expr;
      }
    }
  }

  absl::StatusOr<ExprPtr> ParseUnary() {
    ExprPtr expr;
    if (AtOperator("-") || AtOperator("+")) {
      const Level level(depth_);
      if (depth_ > Budget::kMaxNesting) return Error("the expression is nested too deeply");
      const Token& op = Next();
      ASSIGN_OR_RETURN(ExprPtr operand, ParseUnary());
      ASSIGN_OR_RETURN(expr, NewUnary(op.position, op.text, std::move(operand)));
    } else {
      ASSIGN_OR_RETURN(expr, ParsePrimary(false));
    }
    return ParsePostfix(std::move(expr));
  }

  absl::StatusOr<ExprPtr> ParsePrimary(bool with_namespace) {
    const Token& token = current();
    switch (token.kind) {
      case Token::Kind::kName:
        Next();
        return ParseNameOrLiteral(token, with_namespace);
      case Token::Kind::kString: {
        std::string text;
        while (At(Token::Kind::kString)) text += Next().text;
        return NewConstant(token.position, Value::String(text));
      }
      case Token::Kind::kInteger:
        Next();
        return NewConstant(token.position, Value(token.integer));
      case Token::Kind::kFloat:
        Next();
        return NewConstant(token.position, Value(token.number));
      default:
        break;
    }
    if (AcceptOperator("(")) {
      ASSIGN_OR_RETURN(ExprPtr expr, ParseTuple({.parenthesized = true}));
      RETURN_IF_ERROR(ExpectOperator(")"));
      return expr;
    }
    if (AtOperator("[")) return ParseList();
    if (AtOperator("{")) return ParseDict();
    return Error(fmt::format("unexpected '{}'", Describe(token)));
  }

  absl::StatusOr<ExprPtr> ParseNameOrLiteral(const Token& token, bool with_namespace) {
    const std::string& name = token.text;
    if (name == "true" || name == "True") return NewConstant(token.position, Value(true));
    if (name == "false" || name == "False") return NewConstant(token.position, Value(false));
    if (name == "none" || name == "None") return NewConstant(token.position, Value::None{});
    ExprPtr expr = New(Kind::kName, token.position);
    expr->name = name;
    if (with_namespace && AcceptOperator(".")) {
      expr->kind = Kind::kNamespace;
      ASSIGN_OR_RETURN(expr->attribute, TakeName());
    }
    for (Macro* macro : macros_) {
      macro->uses_varargs |= name == "varargs";
      macro->uses_kwargs |= name == "kwargs";
      macro->uses_caller |= name == "caller";
    }
    return expr;
  }

  absl::StatusOr<ExprPtr> ParseList() {
    ExprPtr list = New(Kind::kList, Next().position);
    while (!AtOperator("]")) {
      if (!list->operands.empty()) RETURN_IF_ERROR(ExpectOperator(","));
      if (AtOperator("]")) break;
      ASSIGN_OR_RETURN(ExprPtr item, ParseExpression());
      list->operands.push_back(std::move(item));
    }
    RETURN_IF_ERROR(ExpectOperator("]"));
    return Finish(std::move(list));
  }

  absl::StatusOr<ExprPtr> ParseDict() {
    ExprPtr dict = New(Kind::kDict, Next().position);
    while (!AtOperator("}")) {
      if (!dict->operands.empty()) RETURN_IF_ERROR(ExpectOperator(","));
      if (AtOperator("}")) break;
      ASSIGN_OR_RETURN(ExprPtr key, ParseExpression());
      RETURN_IF_ERROR(ExpectOperator(":"));
      ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
      dict->operands.push_back(std::move(key));
      dict->operands.push_back(std::move(value));
    }
    RETURN_IF_ERROR(ExpectOperator("}"));
    return Finish(std::move(dict));
  }

  absl::StatusOr<ExprPtr> ParsePostfix(ExprPtr expr) {
    while (true) {
      if (AtOperator(".")) {
        ASSIGN_OR_RETURN(expr, ParseAttribute(std::move(expr)));
      } else if (AtOperator("[")) {
        ASSIGN_OR_RETURN(expr, ParseItem(std::move(expr)));
      } else if (AtOperator("(")) {
        ASSIGN_OR_RETURN(expr, ParseCall(std::move(expr)));
      } else {
        return expr;
      }
    }
  }

  absl::StatusOr<ExprPtr> ParseAttribute(ExprPtr object) {
    const Position position = Next().position;
    const Token& name = current();
    if (name.kind == Token::Kind::kInteger) {
      Next();
      return NewBinary(Kind::kItem, position, "", std::move(object),
                       NewConstant(name.position, Value(name.integer)));
    }
    if (name.kind != Token::Kind::kName) return Error("expected name or number");
    ExprPtr expr = New(Kind::kAttribute, position);
    expr->name = Next().text;
    expr->operands.push_back(std::move(object));
    return Finish(std::move(expr));
  }

  absl::StatusOr<ExprPtr> ParseItem(ExprPtr object) {
    const Position position = Next().position;
    std::vector<ExprPtr> subscripts;
    while (!AtOperator("]")) {
      if (!subscripts.empty()) RETURN_IF_ERROR(ExpectOperator(","));
      ASSIGN_OR_RETURN(ExprPtr subscript, ParseSubscript());
      subscripts.push_back(std::move(subscript));
    }
    RETURN_IF_ERROR(ExpectOperator("]"));
    if (subscripts.size() == 1) {
      return NewBinary(Kind::kItem, position, "", std::move(object), std::move(subscripts[0]));
    }
    ExprPtr tuple = New(Kind::kTuple, position);
    for (const ExprPtr& subscript : subscripts) {
      if (subscript->kind == Kind::kSlice) return SyntaxError(position, "a slice in a tuple");
    }
    tuple->operands = std::move(subscripts);
    ASSIGN_OR_RETURN(tuple, Finish(std::move(tuple)));
    return NewBinary(Kind::kItem, position, "", std::move(object), std::move(tuple));
  }

  absl::StatusOr<ExprPtr> ParseSubscript() {
    ExprPtr slice = New(Kind::kSlice, current().position);
    slice->operands.resize(3);
    if (!AtOperator(":")) {
      ASSIGN_OR_RETURN(slice->operands[0], ParseExpression());
      if (!AtOperator(":")) return std::move(slice->operands[0]);
    }
    for (size_t part = 1; part < 3 && AcceptOperator(":"); ++part) {
      if (AtOperator(":") || AtOperator("]") || AtOperator(",")) continue;
      ASSIGN_OR_RETURN(slice->operands[part], ParseExpression());
    }
    return Finish(std::move(slice));
  }

  absl::StatusOr<ExprPtr> ParseCall(ExprPtr callee) {
    ExprPtr expr = New(Kind::kCall, current().position);
    expr->operands.push_back(std::move(callee));
    RETURN_IF_ERROR(ParseArguments(expr->call));
    return Finish(std::move(expr));
  }

  absl::Status ParseArguments(CallArguments& call) {
    RETURN_IF_ERROR(ExpectOperator("("));
    const auto invalid = [&] { return Error("invalid syntax for function call expression"); };
    for (bool first = true; !AtOperator(")"); first = false) {
      if (!first) RETURN_IF_ERROR(ExpectOperator(","));
      if (!first && AtOperator(")")) break;
      if (AcceptOperator("*")) {
        if (call.spread != nullptr || call.spread_keywords != nullptr) return invalid();
        ASSIGN_OR_RETURN(call.spread, ParseExpression());
      } else if (AcceptOperator("**")) {
        if (call.spread_keywords != nullptr) return invalid();
        ASSIGN_OR_RETURN(call.spread_keywords, ParseExpression());
      } else if (At(Token::Kind::kName) && IsOperator(ahead(), "=")) {
        if (call.spread_keywords != nullptr) return invalid();
        std::string name = Next().text;
        Next();
        ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
        call.keyword.emplace_back(std::move(name), std::move(value));
      } else {
        if (call.spread != nullptr || call.spread_keywords != nullptr || !call.keyword.empty()) {
          return invalid();
        }
        ASSIGN_OR_RETURN(ExprPtr value, ParseExpression());
        call.positional.push_back(std::move(value));
      }
    }
    return ExpectOperator(")");
  }

  absl::StatusOr<ExprPtr> ParseFilters(ExprPtr expr) {
    while (AcceptOperator("|")) {
      ASSIGN_OR_RETURN(expr, ParseFilter(std::move(expr)));
    }
    return expr;
  }

  absl::StatusOr<std::string> ParseDottedName() {
    ASSIGN_OR_RETURN(std::string name, TakeName());
    while (AcceptOperator(".")) {
      ASSIGN_OR_RETURN(const std::string part, TakeName());
      name += "." + part;
    }
    return name;
  }

  absl::StatusOr<ExprPtr> ParseFilter(ExprPtr operand) {
    ExprPtr expr = New(Kind::kFilter, current().position);
    ASSIGN_OR_RETURN(expr->name, ParseDottedName());
    // As in jinja2: where it may never run, an unknown filter is an error only when it does.
    if (branches_ == 0 && FindFilter(expr->name) == nullptr) {
      return SyntaxError(expr->position, fmt::format("No filter named '{}'.", expr->name));
    }
    expr->operands.push_back(std::move(operand));
    if (AtOperator("(")) RETURN_IF_ERROR(ParseArguments(expr->call));
    return Finish(std::move(expr));
  }

  // Whether what follows "is name" is its argument, without parentheses: "is divisibleby 3".
  bool AtTestArgument() const {
    switch (current().kind) {
      case Token::Kind::kString:
      case Token::Kind::kInteger:
      case Token::Kind::kFloat:
        return true;
      case Token::Kind::kName:
        return !AtName("else") && !AtName("or") && !AtName("and");
      default:
        return AtOperator("[") || AtOperator("{");
    }
  }

  absl::StatusOr<ExprPtr> ParseTest(ExprPtr operand) {
    const Position position = Next().position;
    const bool negated = AcceptName("not");
    ExprPtr expr = New(Kind::kTest, position);
    ASSIGN_OR_RETURN(expr->name, ParseDottedName());
    if (branches_ == 0 && FindTest(expr->name) == nullptr) {
      return SyntaxError(expr->position, fmt::format("No test named '{}'.", expr->name));
    }
    expr->operands.push_back(std::move(operand));
    if (AtOperator("(")) {
      RETURN_IF_ERROR(ParseArguments(expr->call));
    } else if (AtTestArgument()) {
      if (AtName("is")) return Error("You cannot chain multiple tests with is");
      ASSIGN_OR_RETURN(ExprPtr argument, ParsePrimary(false));
      ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
      expr->call.positional.push_back(std::move(argument));
    }
    ASSIGN_OR_RETURN(expr, Finish(std::move(expr)));
    return negated ? NewUnary(position, "not", std::move(expr)) : std::move(expr);
  }

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  int branches_ = 0;  // {% if %} and inline if around here: code that may never run
  int loops_ = 0;     // loops around here that break and continue can leave
  std::vector<Macro*> macros_;
};

}  // namespace

absl::StatusOr<Block> ParseTemplate(std::string_view source) {
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace baton::engine::jinja
