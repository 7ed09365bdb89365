#include "engine/text/jinja/json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/text/jinja/unicode.h"

namespace baton::engine::jinja {
namespace {

class JsonReader {
 public:
  JsonReader(Budget& budget, bool trusted) : budget_(budget), trusted_(trusted) {}

  absl::StatusOr<Value> Read(const nlohmann::ordered_json& json, int nesting) {
    using Type = nlohmann::ordered_json::value_t;
    switch (json.type()) {
      case Type::boolean:
        return Value(json.get<bool>());
      case Type::number_integer:
        return Value(json.get<int64_t>());
      case Type::number_unsigned: {
        const uint64_t number = json.get<uint64_t>();
        constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
        return number <= kMax ? Value(static_cast<int64_t>(number))
                              : Value(static_cast<double>(number));
      }
      case Type::number_float:
        return Value(json.get<double>());
      case Type::string:
        return ReadString(json.get_ref<const std::string&>());
      case Type::array:
      case Type::object:
        break;
      default:
        return Value(Value::None{});
    }
    if (nesting >= Budget::kMaxNesting) {
      return ResourceExhausted("the input is nested deeper than {} levels", Budget::kMaxNesting);
    }
    return json.is_array() ? ReadArray(json, nesting) : ReadObject(json, nesting);
  }

 private:
  Value ReadString(const std::string& bytes) const {
    return trusted_ ? Value::String(bytes) : Value(Text::Data(bytes));
  }

  absl::StatusOr<Value> ReadArray(const nlohmann::ordered_json& json, int nesting) {
    Values items;
    for (const auto& item : json) {
      ASSIGN_OR_RETURN(Value value, Read(item, nesting + 1));
      items.push_back(std::move(value));
    }
    return MakeSequence(budget_, std::move(items));
  }

  absl::StatusOr<Value> ReadObject(const nlohmann::ordered_json& json, int nesting) {
    Dict dict;
    for (const auto& [key, item] : json.items()) {
      ASSIGN_OR_RETURN(Value value, Read(item, nesting + 1));
      dict.Set(ReadString(key), std::move(value));
    }
    return MakeDict(budget_, std::move(dict));
  }

  Budget& budget_;
  bool trusted_;
};

class JsonWriter {
 public:
  JsonWriter(Budget& budget, const JsonStyle& style) : budget_(budget), style_(style) {}

  absl::Status Write(const Value& value, int nesting) {
    RETURN_IF_ERROR(budget_.Steps(1));
    if (value.is_none()) return Put("null");
    if (value.is_bool()) return Put(value.boolean() ? "true" : "false");
    if (value.is_int()) return Put(std::to_string(value.integer()));
    if (value.is_float()) return Put(FloatText(value.number()));
    if (value.is_string()) return WriteString(value.text());
    if (value.is_dict()) return WriteDict(value.dict(), nesting);
    if (value.is_sequence() &&
        (value.sequence().is_tuple() || value.sequence().kind == Sequence::Kind::kList)) {
      return WriteList(value.sequence().items, nesting);
    }
    return InvalidArgument("Object of type {} is not JSON serializable", value.type_name());
  }

  Text Take() { return std::move(out_); }

 private:
  static std::string FloatText(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return FloatRepr(value);
  }

  absl::Status Put(std::string_view literal) {
    RETURN_IF_ERROR(budget_.Bytes(literal.size()));
    out_.Append(literal);
    return absl::OkStatus();
  }

  absl::Status NewLine(int nesting) {
    if (!style_.indented) return absl::OkStatus();
    RETURN_IF_ERROR(Put("\n"));
    for (int i = 0; i < nesting; ++i) RETURN_IF_ERROR(Put(style_.indent));
    return absl::OkStatus();
  }

  absl::Status WriteList(const Values& items, int nesting) {
    if (items.empty()) return Put("[]");
    RETURN_IF_ERROR(Put("["));
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) RETURN_IF_ERROR(Put(style_.item_separator));
      RETURN_IF_ERROR(NewLine(nesting + 1));
      RETURN_IF_ERROR(Write(items[i], nesting + 1));
    }
    RETURN_IF_ERROR(NewLine(nesting));
    return Put("]");
  }

  absl::Status WriteDict(const Dict& dict, int nesting) {
    if (dict.size() == 0) return Put("{}");
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items()) items.push_back(&item);
    if (style_.sort_keys) {
      absl::Status status;
      std::stable_sort(items.begin(), items.end(), [&](const auto* a, const auto* b) {
        const absl::StatusOr<int> order = Compare(budget_, "<", a->first, b->first);
        status.Update(order.status());
        return order.ok() && *order < 0;
      });
      RETURN_IF_ERROR(status);
    }
    RETURN_IF_ERROR(Put("{"));
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) RETURN_IF_ERROR(Put(style_.item_separator));
      RETURN_IF_ERROR(NewLine(nesting + 1));
      RETURN_IF_ERROR(WriteKey(items[i]->first));
      RETURN_IF_ERROR(Put(style_.key_separator));
      RETURN_IF_ERROR(Write(items[i]->second, nesting + 1));
    }
    RETURN_IF_ERROR(NewLine(nesting));
    return Put("}");
  }

  absl::Status WriteKey(const Value& key) {
    if (key.is_string()) return WriteString(key.text());
    if (!key.is_number() && !key.is_none()) {
      return InvalidArgument("keys must be str, int, float, bool or None, not {}", key.type_name());
    }
    RETURN_IF_ERROR(Put("\""));
    RETURN_IF_ERROR(Write(key, 0));
    return Put("\"");
  }

  absl::Status WriteString(const Text& text) {
    RETURN_IF_ERROR(budget_.Bytes(2 + text.size() * 2));
    out_.Append("\"");
    text.ForEachPiece([&](std::string_view piece, bool data) {
      std::string escaped;
      for (size_t i = 0; i < piece.size();) {
        const CodePoint c = DecodeAt(piece, i);
        AppendEscaped(piece.substr(i, c.size), c.value, escaped);
        i += c.size;
      }
      out_.Append(escaped, data);
    });
    out_.Append("\"");
    return absl::OkStatus();
  }

  void AppendEscaped(std::string_view bytes, char32_t c, std::string& out) const {
    static constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    if (c < 0x80) {
      if (const size_t i = kEscaped.find(static_cast<char>(c)); i != std::string_view::npos) {
        out += '\\';
        out += kLetters[i];
        return;
      }
    }
    if (c < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else if (c < 0x80 || !style_.ensure_ascii || c == kInvalid) {
      out += bytes;
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      const uint32_t pair = static_cast<uint32_t>(c) - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (pair >> 10), 0xDC00 + (pair & 0x3FF));
    }
  }

  Budget& budget_;
  const JsonStyle& style_;
  Text out_;
};

}  // namespace

absl::StatusOr<Value> FromJson(Budget& budget, const nlohmann::ordered_json& json, bool trusted) {
  return JsonReader(budget, trusted).Read(json, 0);
}

absl::StatusOr<Text> ToJson(Budget& budget, const Value& value, const JsonStyle& style) {
  JsonWriter writer(budget, style);
  RETURN_IF_ERROR(writer.Write(value, 0));
  return writer.Take();
}

}  // namespace baton::engine::jinja
