#include "engine/sampling/grammar.h"

#include <algorithm>

namespace baton::engine {
namespace {

using Frame = GrammarFrame;
using FrameKind = GrammarFrame::Kind;
using NodeKind = SchemaNode::Kind;

// What the next byte of a string must be. Half of a surrogate pair is never written.
enum StringPart : uint32_t {
  kPlain,   // a character, an escape or the closing quote
  kEscape,  // after the backslash
  kHex1,    // digits after \u
  kHex2,
  kHex2OfD,  // \ud800 to \udfff are surrogates
  kHex3,
  kHex4,
  kTail1,  // bytes that a character still needs, in UTF-8
  kTail2,
  kTail3,
  kAfterE0,
  kAfterED,
  kAfterF0,
  kAfterF4,
};

enum NumberPart : uint32_t {
  kSign,
  kZero,
  kWhole,
  kPoint,
  kFraction,
  kExponent,
  kExponentSign,
  kExponentDigits,
};

// Of the whole part and of the fraction, so that every number written can be read back.
constexpr uint32_t kMaxDigits = 18;
constexpr uint32_t kMaxExponentDigits = 2;

bool IsSpace(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }
bool IsDigit(uint8_t byte) { return byte >= '0' && byte <= '9'; }
bool IsHex(uint8_t byte) { return IsDigit(byte) || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f'); }
bool IsBetween(uint8_t byte, uint8_t low, uint8_t high) { return byte >= low && byte <= high; }

// The part after `byte`; kBad where it may not come. The closing quote is the caller's.
constexpr uint32_t kBad = UINT32_MAX;
uint32_t NextStringPart(uint32_t part, uint8_t byte) {
  const bool tail = IsBetween(byte, 0x80, 0xBF);
  switch (part) {
    case kPlain:
      if (byte == '\\') return kEscape;
      if (byte < 0x20 || byte == '"') return kBad;
      if (byte < 0x80) return kPlain;
      if (byte == 0xE0) return kAfterE0;
      if (byte == 0xED) return kAfterED;
      if (byte == 0xF0) return kAfterF0;
      if (byte == 0xF4) return kAfterF4;
      if (IsBetween(byte, 0xC2, 0xDF)) return kTail1;
      if (IsBetween(byte, 0xE1, 0xEF)) return kTail2;
      return IsBetween(byte, 0xF1, 0xF3) ? kTail3 : kBad;
    case kEscape:
      if (byte == 'u') return kHex1;
      return std::string_view("\"\\/bfnrt").find(static_cast<char>(byte)) != std::string_view::npos
                 ? kPlain
                 : kBad;
    case kHex1:
      return !IsHex(byte) ? kBad : (byte | 0x20) == 'd' ? kHex2OfD : kHex2;
    case kHex2:
      return IsHex(byte) ? kHex3 : kBad;
    case kHex2OfD:
      return IsBetween(byte, '0', '7') ? kHex3 : kBad;
    case kHex3:
      return IsHex(byte) ? kHex4 : kBad;
    case kHex4:
      return IsHex(byte) ? kPlain : kBad;
    case kTail1:
      return tail ? kPlain : kBad;
    case kTail2:
      return tail ? kTail1 : kBad;
    case kTail3:
      return tail ? kTail2 : kBad;
    case kAfterE0:
      return IsBetween(byte, 0xA0, 0xBF) ? kTail1 : kBad;
    case kAfterED:
      return IsBetween(byte, 0x80, 0x9F) ? kTail1 : kBad;
    case kAfterF0:
      return IsBetween(byte, 0x90, 0xBF) ? kTail2 : kBad;
    case kAfterF4:
      return IsBetween(byte, 0x80, 0x8F) ? kTail2 : kBad;
    default:
      return kBad;
  }
}

uint32_t NextNumberPart(uint32_t part, uint8_t byte, bool integer) {
  const bool digit = IsDigit(byte);
  const bool exponent = !integer && (byte | 0x20) == 'e';
  switch (part) {
    case kSign:
      return byte == '0' ? kZero : digit ? kWhole : kBad;
    case kZero:
    case kWhole:
      if (digit) return part == kWhole ? kWhole : kBad;
      return byte == '.' && !integer ? kPoint : exponent ? kExponent : kBad;
    case kPoint:
      return digit ? kFraction : kBad;
    case kFraction:
      return digit ? kFraction : exponent ? kExponent : kBad;
    case kExponent:
      if (byte == '+' || byte == '-') return kExponentSign;
      return digit ? kExponentDigits : kBad;
    case kExponentSign:
    case kExponentDigits:
      return digit ? kExponentDigits : kBad;
    default:
      return kBad;
  }
}

bool NumberMayEnd(uint32_t part) {
  return part == kZero || part == kWhole || part == kFraction || part == kExponentDigits;
}

// One byte, along all ways to read it.
class Step {
 public:
  Step(const Grammar& grammar, uint8_t byte, std::vector<GrammarStack>& next)
      : grammar_(grammar), byte_(byte), next_(next) {}

  void Run(GrammarStack stack) {
    if (stack.empty()) return;
    switch (stack.back().kind) {
      case FrameKind::kValue:
        return Value(std::move(stack));
      case FrameKind::kLiteral:
        return Literal(std::move(stack));
      case FrameKind::kKey:
        return Key(std::move(stack));
      case FrameKind::kFreeKey:
        return FreeKey(std::move(stack));
      case FrameKind::kColon:
        return Colon(std::move(stack));
      case FrameKind::kString:
        return String(std::move(stack));
      case FrameKind::kNumber:
        return Number(std::move(stack));
      case FrameKind::kArrayOpen:
      case FrameKind::kArrayNext:
        return Array(std::move(stack));
      case FrameKind::kObjectOpen:
      case FrameKind::kObjectNext:
      case FrameKind::kObjectKey:
        return Object(std::move(stack));
    }
  }

 private:
  static constexpr uint32_t kSpaces = Grammar::kMaxSpaces;

  const SchemaNode& NodeOf(const Frame& frame) const { return grammar_.node(frame.node); }
  void Keep(GrammarStack stack) { next_.push_back(std::move(stack)); }
  void Pop(GrammarStack stack) {
    stack.pop_back();
    Keep(std::move(stack));
  }
  // A space uses up one of those in `left`.
  void Space(GrammarStack stack, uint32_t& left) {
    if (left == 0) return;
    --left;
    Keep(std::move(stack));
  }

  // Whether a value of the node stays within the depth, inside the containers of the stack.
  bool Fits(const GrammarStack& stack, uint32_t node) const {
    const auto is_container = [](const Frame& frame) {
      return frame.kind >= FrameKind::kArrayOpen;
    };
    const auto depth = std::count_if(stack.begin(), stack.end(), is_container);
    return static_cast<uint32_t>(depth) + grammar_.node(node).height <= Grammar::kMaxDepth;
  }

  void Value(GrammarStack stack) {
    Frame& top = stack.back();
    if (IsSpace(byte_)) return Space(std::move(stack), top.a);
    const SchemaNode& node = NodeOf(top);
    if (node.kind == NodeKind::kUnion) {
      for (uint32_t alternative : node.alternatives) ValueOf(stack, alternative);
    } else {
      ValueOf(stack, top.node);
    }
  }

  // The first byte of a value of `index`, which is no union, in place of the top of the stack.
  void ValueOf(const GrammarStack& stack, uint32_t index) {
    const SchemaNode& node = grammar_.node(index);
    const auto replace = [&](Frame frame) {
      GrammarStack replaced = stack;
      replaced.back() = frame;
      Keep(std::move(replaced));
    };
    GrammarStack below(stack.begin(), stack.end() - 1);
    switch (node.kind) {
      case NodeKind::kLiterals:
        for (uint32_t i = 0; i < node.literals.size(); ++i) {
          if (static_cast<uint8_t>(node.literals[i][0]) != byte_) continue;
          if (node.literals[i].size() == 1) {
            Keep(below);
          } else {
            replace({FrameKind::kLiteral, index, i, 1});
          }
        }
        break;
      case NodeKind::kString:
        if (byte_ == '"') replace({FrameKind::kString, index, kPlain, 0});
        break;
      case NodeKind::kNumber:
      case NodeKind::kInteger:
        if (byte_ == '-') replace({FrameKind::kNumber, index, kSign, 0});
        if (IsDigit(byte_)) replace({FrameKind::kNumber, index, byte_ == '0' ? kZero : kWhole, 1});
        break;
      case NodeKind::kArray:
        if (byte_ == '[' && Fits(below, index)) replace({FrameKind::kArrayOpen, index, 0, kSpaces});
        break;
      case NodeKind::kObject:
        if (byte_ == '{' && Fits(below, index))
          replace({FrameKind::kObjectOpen, index, 0, kSpaces});
        break;
      case NodeKind::kUnion:
        break;
    }
  }

  void Literal(GrammarStack stack) {
    Frame& top = stack.back();
    const std::string& text = NodeOf(top).literals[top.a];
    if (static_cast<uint8_t>(text[top.b]) != byte_) return;
    if (++top.b == text.size()) return Pop(std::move(stack));
    Keep(std::move(stack));
  }

  // After a key: a colon, then the value.
  void ExpectValue(GrammarStack stack, uint32_t node) {
    stack.back() = {FrameKind::kValue, node, kSpaces, 0};
    stack.push_back({FrameKind::kColon, 0, 0, kSpaces});
    Keep(std::move(stack));
  }

  void Key(GrammarStack stack) {
    Frame& top = stack.back();
    const SchemaNode::Property& property = NodeOf(top).properties[top.a];
    if (static_cast<uint8_t>(property.key[top.b]) != byte_) return;
    if (++top.b == property.key.size()) return ExpectValue(std::move(stack), property.value);
    Keep(std::move(stack));
  }

  // `equal` bytes before this one are the beginning of property `index`'s key: the first property
  // that goes on with this byte too, as index + 1 above `equal` + 1; 0 if none does. Both fit: keys
  // have less than 64 KiB, see the compiler.
  uint32_t Excluded(const SchemaNode& node, uint32_t state) const {
    const uint32_t first = state >> 16, equal = state & 0xFFFF;
    if (first == 0) return 0;
    const std::string_view prefix =
        std::string_view(node.properties[first - 1].key).substr(0, equal);
    for (uint32_t i = first - 1; i < node.properties.size(); ++i) {
      const std::string_view key = node.properties[i].key;
      if (key.size() > equal && key.starts_with(prefix) &&
          static_cast<uint8_t>(key[equal]) == byte_) {
        return (i + 1) << 16 | (equal + 1);
      }
    }
    return 0;
  }

  // No escapes in here: a key is then equal to a property's exactly if its bytes are.
  void FreeKey(GrammarStack stack) {
    Frame& top = stack.back();
    const SchemaNode& node = NodeOf(top);
    const uint32_t excluded = Excluded(node, top.b);
    if (byte_ == '"') {
      if (top.a == kPlain && excluded == 0) ExpectValue(std::move(stack), node.additional);
      return;
    }
    top.a = NextStringPart(top.a, byte_);
    top.b = excluded;
    if (top.a != kBad && top.a != kEscape) Keep(std::move(stack));
  }

  void Colon(GrammarStack stack) {
    if (IsSpace(byte_)) {
      uint32_t& left = stack.back().b;
      return Space(std::move(stack), left);
    }
    if (byte_ == ':') Pop(std::move(stack));
  }

  void String(GrammarStack stack) {
    Frame& top = stack.back();
    const SchemaNode& node = NodeOf(top);
    if (top.a == kPlain) {
      if (byte_ == '"') {
        if (top.b >= node.min) Pop(std::move(stack));
        return;
      }
      if (top.b >= node.max) return;
      // Beyond what matters nothing is counted, so that states repeat.
      if (node.max != SchemaNode::kUnlimited || top.b < node.min) ++top.b;
    }
    top.a = NextStringPart(top.a, byte_);
    if (top.a != kBad) Keep(std::move(stack));
  }

  void Number(GrammarStack stack) {
    Frame& top = stack.back();
    const uint32_t next = NextNumberPart(top.a, byte_, NodeOf(top).kind == NodeKind::kInteger);
    if (next == kBad) {
      if (!NumberMayEnd(top.a)) return;
      stack.pop_back();
      return Run(std::move(stack));
    }
    const bool starts_part = next == kPoint || next == kExponent;
    const uint32_t limit = next == kExponentDigits ? kMaxExponentDigits : kMaxDigits;
    if (IsDigit(byte_) && top.b >= limit) return;
    top.a = next;
    top.b = starts_part ? 0 : top.b + (IsDigit(byte_) ? 1 : 0);
    Keep(std::move(stack));
  }

  void Array(GrammarStack stack) {
    Frame& top = stack.back();
    const SchemaNode& node = NodeOf(top);
    if (IsSpace(byte_)) return Space(std::move(stack), top.b);
    const uint32_t count = top.kind == FrameKind::kArrayOpen ? 0 : top.a;
    if (byte_ == ']') {
      if (count >= node.min) Pop(std::move(stack));
      return;
    }
    if (count >= node.max || !Fits(stack, node.items)) return;
    const bool is_first = top.kind == FrameKind::kArrayOpen;
    if (!is_first && byte_ != ',') return;
    const bool counts = node.max != SchemaNode::kUnlimited || count < node.min;
    top = {FrameKind::kArrayNext, top.node, count + (counts ? 1 : 0), kSpaces};
    stack.push_back({FrameKind::kValue, node.items, is_first ? 0 : kSpaces, 0});
    if (is_first) return Run(std::move(stack));
    Keep(std::move(stack));
  }

  void Object(GrammarStack stack) {
    Frame& top = stack.back();
    const SchemaNode& node = NodeOf(top);
    if (IsSpace(byte_)) return Space(std::move(stack), top.b);
    if (byte_ == '"' && top.kind != FrameKind::kObjectNext) return Keys(std::move(stack));
    if (byte_ == '}' && top.kind != FrameKind::kObjectKey) {
      const bool complete = std::none_of(node.properties.begin() + top.a, node.properties.end(),
                                         [](const auto& property) { return property.required; });
      if (complete) Pop(std::move(stack));
      return;
    }
    if (byte_ != ',' || top.kind != FrameKind::kObjectNext) return;
    std::vector<GrammarStack> keys;
    Step(grammar_, '"', keys).Keys(stack);
    if (keys.empty()) return;
    top = {FrameKind::kObjectKey, top.node, top.a, kSpaces};
    Keep(std::move(stack));
  }

  // Each key that may come now: those up to the next required one; others only after all of the
  // schema's.
  void Keys(GrammarStack stack) {
    const Frame top = stack.back();
    const SchemaNode& node = NodeOf(top);
    const auto offer = [&](uint32_t value, uint32_t next, Frame key) {
      if (!Fits(stack, value)) return;
      GrammarStack with_key = stack;
      with_key.back() = {FrameKind::kObjectNext, top.node, next, kSpaces};
      with_key.push_back(key);
      Keep(std::move(with_key));
    };
    const uint32_t count = static_cast<uint32_t>(node.properties.size());
    for (uint32_t i = top.a; i < count; ++i) {
      offer(node.properties[i].value, i + 1, {FrameKind::kKey, top.node, i, 0});
      if (node.properties[i].required) return;
    }
    if (node.additional == SchemaNode::kNone) return;
    const uint32_t excluded = count > 0 ? 1u << 16 : 0;
    offer(node.additional, count, {FrameKind::kFreeKey, top.node, kPlain, excluded});
  }

  const Grammar& grammar_;
  const uint8_t byte_;
  std::vector<GrammarStack>& next_;
};

}  // namespace

GrammarState::GrammarState(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)),
      stacks_{{{GrammarFrame::Kind::kValue, grammar_->root(), 0, 0}}} {}

bool GrammarState::AdvanceByte(uint8_t byte) {
  std::vector<GrammarStack> next;
  for (const GrammarStack& stack : stacks_) AdvanceStack(*grammar_, stack, byte, next);
  std::sort(next.begin(), next.end());
  next.erase(std::unique(next.begin(), next.end()), next.end());
  stacks_ = std::move(next);
  return !dead();
}

bool GrammarState::Advance(std::string_view bytes) {
  for (char byte : bytes) {
    if (!AdvanceByte(static_cast<uint8_t>(byte))) return false;
  }
  return !dead();
}

bool GrammarState::complete() const { return std::any_of(stacks_.begin(), stacks_.end(), MayEnd); }

void AdvanceStack(const Grammar& grammar, const GrammarStack& stack, uint8_t byte,
                  std::vector<GrammarStack>& next) {
  Step(grammar, byte, next).Run(stack);
}

bool MayEnd(const GrammarStack& stack) {
  if (stack.empty()) return true;
  return stack.size() == 1 && stack[0].kind == FrameKind::kNumber && NumberMayEnd(stack[0].a);
}

uint32_t PlainCharactersLeft(const Grammar& grammar, const GrammarStack& stack) {
  if (stack.empty() || stack.back().a != kPlain) return 0;
  // Which keys are not free shows at the closing quote only.
  if (stack.back().kind == FrameKind::kFreeKey) return SchemaNode::kUnlimited;
  if (stack.back().kind != FrameKind::kString) return 0;
  const SchemaNode& node = grammar.node(stack.back().node);
  return node.max == SchemaNode::kUnlimited ? node.max : node.max - stack.back().b;
}

uint32_t CountPlainCharacters(std::string_view bytes) {
  uint32_t part = kPlain, count = 0;
  for (char c : bytes) {
    count += part == kPlain ? 1 : 0;
    part = NextStringPart(part, static_cast<uint8_t>(c));
    if (part == kBad || part == kEscape) return 0;
  }
  return part == kPlain ? count : 0;
}

}  // namespace baton::engine
