// JSON schema to Grammar.
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>

#include "engine/base/json.h"
#include "engine/sampling/grammar.h"

namespace baton::engine {

using Json = nlohmann::ordered_json;
using Kind = SchemaNode::Kind;

namespace {

constexpr size_t kMaxNodes = 20'000;
constexpr size_t kMaxLiterals = 4'096;
constexpr size_t kMaxNameBytes = 4'096;
constexpr int kMaxSchemaDepth = 100;

// Keywords that say nothing about which values are valid.
constexpr std::array<std::string_view, 18> kDescriptions = {
    "title",  "description", "default",  "examples",  "example",     "$schema",
    "$id",    "id",          "$comment", "$defs",     "definitions", "format",
    "strict", "deprecated",  "readOnly", "writeOnly", "nullable",    "$anchor"};
constexpr std::array<std::string_view, 15> kUnderstood = {"$ref",
                                                          "const",
                                                          "enum",
                                                          "anyOf",
                                                          "oneOf",
                                                          "allOf",
                                                          "type",
                                                          "properties",
                                                          "items",
                                                          "required",
                                                          "minLength",
                                                          "minItems",
                                                          "additionalProperties",
                                                          "maxLength",
                                                          "maxItems"};
// The first of them say all about a value.
constexpr size_t kNumComplete = 6;

bool Contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

class SchemaCompiler {
 public:
  explicit SchemaCompiler(const Json& document) : document_(document) {}

  absl::StatusOr<std::shared_ptr<const Grammar>> Compile() {
    ASSIGN_OR_RETURN(grammar_->root_, CompileAt("#", document_, 0));
    FlattenUnions();
    SetHeights();
    if (node(grammar_->root_).height >= Grammar::kMaxDepth) {
      return InvalidArgument("schema: no value fits it, or only one nested deeper than {} levels",
                             Grammar::kMaxDepth);
    }
    return grammar_;
  }

 private:
  SchemaNode& node(uint32_t index) { return grammar_->nodes_[index]; }

  absl::StatusOr<uint32_t> Add(SchemaNode made) {
    if (grammar_->nodes_.size() >= kMaxNodes) return ResourceExhausted("schema: too large");
    grammar_->nodes_.push_back(std::move(made));
    return static_cast<uint32_t>(grammar_->nodes_.size() - 1);
  }

  absl::StatusOr<uint32_t> AddUnion(std::vector<uint32_t> alternatives) {
    if (alternatives.size() == 1) return alternatives[0];
    SchemaNode made{.kind = Kind::kUnion};
    made.alternatives = std::move(alternatives);
    return Add(std::move(made));
  }

  absl::StatusOr<uint32_t> AddLiterals(std::vector<std::string> literals) {
    literals_ += literals.size();
    if (literals_ > kMaxLiterals)
      return ResourceExhausted("schema: more than {} enum values", kMaxLiterals);
    SchemaNode made{.kind = Kind::kLiterals};
    made.literals = std::move(literals);
    return Add(std::move(made));
  }

  // Any JSON at all.
  absl::StatusOr<uint32_t> Any() {
    if (any_.has_value()) return *any_;
    ASSIGN_OR_RETURN(const uint32_t any, Add({.kind = Kind::kUnion}));
    any_ = any;
    std::vector<uint32_t> alternatives;
    for (std::string_view type : {"object", "array", "string", "number", "boolean", "null"}) {
      ASSIGN_OR_RETURN(const uint32_t alternative, CompileType(type, "#", Json::object(), 0));
      alternatives.push_back(alternative);
    }
    node(any).alternatives = std::move(alternatives);
    return any;
  }

  absl::StatusOr<uint32_t> CompileAt(const std::string& place, const Json& schema, int depth) {
    if (depth > kMaxSchemaDepth) return InvalidArgument("schema: nested too deeply");
    if (schema.is_boolean()) {
      return schema.get<bool>() ? Any() : AddLiterals({});  // false: nothing
    }
    if (!schema.is_object()) return InvalidArgument("schema: {} is not an object", place);
    for (const auto& [keyword, value] : schema.items()) {
      if (Contains(kUnderstood, keyword) || Contains(kDescriptions, keyword)) continue;
      return InvalidArgument("schema: {}: keyword '{}' is not supported", place, keyword);
    }
    RETURN_IF_ERROR(CheckSiblings(place, schema));
    if (schema.contains("$ref")) return CompileReference(place, schema["$ref"], depth);
    if (schema.contains("const")) return CompileEnum(place, Json::array({schema["const"]}));
    if (schema.contains("enum")) return CompileEnum(place, schema["enum"]);
    for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
      if (schema.contains(keyword)) return CompileUnion(place, keyword, schema[keyword], depth);
    }
    return CompileTypes(place, schema, depth);
  }

  // What stands beside a keyword that says all would be lost.
  static absl::Status CheckSiblings(const std::string& place, const Json& schema) {
    for (size_t i = 0; i < kNumComplete; ++i) {
      if (!schema.contains(kUnderstood[i])) continue;
      const bool lists_values = kUnderstood[i] == "const" || kUnderstood[i] == "enum";
      for (std::string_view other : kUnderstood) {
        if (other == kUnderstood[i] || !schema.contains(other)) continue;
        if (lists_values && other == "type") continue;
        return InvalidArgument("schema: {}: '{}' beside '{}' is not supported", place, other,
                               kUnderstood[i]);
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> CompileReference(const std::string& place, const Json& reference,
                                            int depth) {
    if (!reference.is_string() || !reference.get_ref<const std::string&>().starts_with('#')) {
      return InvalidArgument("schema: {}: only references into the schema itself are supported",
                             place);
    }
    const std::string& target = reference.get_ref<const std::string&>();
    if (const auto known = references_.find(target); known != references_.end())
      return known->second;
    const Json* schema = nullptr;
    try {
      const Json::json_pointer pointer(target.substr(1));
      if (document_.contains(pointer)) schema = &document_.at(pointer);
    } catch (const nlohmann::json::exception&) {
      schema = nullptr;  // not a pointer at all
    }
    if (schema == nullptr) return InvalidArgument("schema: {}: '{}' is not there", place, target);
    // A node of its own first, so that what it refers to may refer back.
    ASSIGN_OR_RETURN(const uint32_t made, Add({.kind = Kind::kUnion}));
    references_[target] = made;
    ASSIGN_OR_RETURN(const uint32_t compiled, CompileAt(target, *schema, depth + 1));
    node(made).alternatives = {compiled};
    return made;
  }

  absl::StatusOr<uint32_t> CompileEnum(const std::string& place, const Json& values) {
    if (!values.is_array() || values.empty()) {
      return InvalidArgument("schema: {}: enum is not a list of values", place);
    }
    std::vector<std::string> literals;
    for (const Json& value : values) {
      try {
        literals.push_back(value.dump());
      } catch (const nlohmann::json::exception&) {
        return InvalidArgument("schema: {}: a value is not valid UTF-8", place);
      }
    }
    return AddLiterals(std::move(literals));
  }

  absl::StatusOr<uint32_t> CompileUnion(const std::string& place, const std::string& keyword,
                                        const Json& schemas, int depth) {
    if (!schemas.is_array() || schemas.empty()) {
      return InvalidArgument("schema: {}: {} is not a list of schemas", place, keyword);
    }
    if (keyword == "allOf" && schemas.size() > 1) {
      return InvalidArgument("schema: {}: allOf of more than one is not supported", place);
    }
    std::vector<uint32_t> alternatives;
    for (size_t i = 0; i < schemas.size(); ++i) {
      ASSIGN_OR_RETURN(
          const uint32_t alternative,
          CompileAt(fmt::format("{}/{}/{}", place, keyword, i), schemas[i], depth + 1));
      alternatives.push_back(alternative);
    }
    return AddUnion(std::move(alternatives));
  }

  absl::StatusOr<uint32_t> CompileTypes(const std::string& place, const Json& schema, int depth) {
    if (!schema.contains("type")) {
      if (schema.contains("properties")) return CompileType("object", place, schema, depth);
      if (schema.contains("items")) return CompileType("array", place, schema, depth);
      return Any();
    }
    const Json& types = schema["type"];
    std::vector<uint32_t> alternatives;
    for (const Json& type : types.is_array() ? types : Json::array({types})) {
      if (!type.is_string()) return InvalidArgument("schema: {}: type is not a name", place);
      ASSIGN_OR_RETURN(const uint32_t alternative,
                       CompileType(type.get_ref<const std::string&>(), place, schema, depth));
      alternatives.push_back(alternative);
    }
    if (schema.value("nullable", Json(false)) == Json(true)) {
      ASSIGN_OR_RETURN(const uint32_t null, AddLiterals({"null"}));
      alternatives.push_back(null);
    }
    if (alternatives.empty()) return InvalidArgument("schema: {}: no type", place);
    return AddUnion(std::move(alternatives));
  }

  absl::StatusOr<uint32_t> CompileType(std::string_view type, const std::string& place,
                                       const Json& schema, int depth) {
    if (type == "null") return AddLiterals({"null"});
    if (type == "boolean") return AddLiterals({"true", "false"});
    if (type == "number") return Add({.kind = Kind::kNumber});
    if (type == "integer") return Add({.kind = Kind::kInteger});
    if (type == "string") {
      SchemaNode made{.kind = Kind::kString};
      RETURN_IF_ERROR(ReadBounds(place, schema, "minLength", "maxLength", made));
      return Add(std::move(made));
    }
    if (type == "array") return CompileArray(place, schema, depth);
    if (type == "object") return CompileObject(place, schema, depth);
    return InvalidArgument("schema: {}: type '{}' is not known", place, type);
  }

  static absl::Status ReadBounds(const std::string& place, const Json& schema, const char* min,
                                 const char* max, SchemaNode& made) {
    for (const char* keyword : {min, max}) {
      if (!schema.contains(keyword)) continue;
      const Json& bound = schema[keyword];
      if (!bound.is_number_unsigned() || bound.get<uint64_t>() > 1'000'000) {
        return InvalidArgument("schema: {}: {} is not a number from 0 to 1000000", place, keyword);
      }
      (keyword == min ? made.min : made.max) = bound.get<uint32_t>();
    }
    if (made.min <= made.max) return absl::OkStatus();
    return InvalidArgument("schema: {}: {} is over {}", place, min, max);
  }

  absl::StatusOr<uint32_t> CompileArray(const std::string& place, const Json& schema, int depth) {
    SchemaNode made{.kind = Kind::kArray};
    RETURN_IF_ERROR(ReadBounds(place, schema, "minItems", "maxItems", made));
    ASSIGN_OR_RETURN(const uint32_t index, Add(std::move(made)));
    absl::StatusOr<uint32_t> items =
        schema.contains("items") ? CompileAt(place + "/items", schema["items"], depth + 1) : Any();
    ASSIGN_OR_RETURN(node(index).items, std::move(items));
    return index;
  }

  absl::StatusOr<uint32_t> CompileObject(const std::string& place, const Json& schema, int depth) {
    ASSIGN_OR_RETURN(const uint32_t index, Add({.kind = Kind::kObject}));
    const Json properties = schema.value("properties", Json::object());
    const Json required = schema.value("required", Json::array());
    const Json additional = schema.value("additionalProperties", Json(properties.empty()));
    if (!properties.is_object() || !required.is_array()) {
      return InvalidArgument("schema: {}: properties is no object or required no list", place);
    }
    std::vector<SchemaNode::Property> compiled;
    for (const auto& [key, value] : properties.items()) {
      if (key.size() > kMaxNameBytes)
        return InvalidArgument("schema: {}: a property's name is too long", place);
      ASSIGN_OR_RETURN(const uint32_t property,
                       CompileAt(place + "/properties/" + key, value, depth + 1));
      const bool is_required =
          std::find(required.begin(), required.end(), Json(key)) != required.end();
      compiled.push_back({KeyText(key), property, is_required});
    }
    uint32_t others = SchemaNode::kNone;
    if (additional != Json(false)) {
      ASSIGN_OR_RETURN(others, CompileAt(place + "/additionalProperties", additional, depth + 1));
    }
    for (const Json& key : required) {
      if (!key.is_string() || key.get_ref<const std::string&>().size() > kMaxNameBytes) {
        return InvalidArgument("schema: {}: required is not a list of names", place);
      }
      if (properties.contains(key.get_ref<const std::string&>())) continue;
      if (others == SchemaNode::kNone) {
        return InvalidArgument("schema: {}: '{}' is required, but not allowed", place,
                               key.get_ref<const std::string&>());
      }
      compiled.push_back({KeyText(key.get_ref<const std::string&>()), others, true});
    }
    node(index).properties = std::move(compiled);
    node(index).additional = others;
    return index;
  }

  // After the opening quote.
  static std::string KeyText(const std::string& key) { return Json(key).dump().substr(1); }

  // Unions of unions become one of their members, and circles of references come apart.
  void FlattenUnions() {
    for (SchemaNode& each : grammar_->nodes_) {
      if (each.kind != Kind::kUnion) continue;
      std::vector<uint32_t> open = each.alternatives, flat;
      std::set<uint32_t> seen;
      while (!open.empty()) {
        const uint32_t next = open.back();
        open.pop_back();
        if (!seen.insert(next).second) continue;
        if (node(next).kind == Kind::kUnion) {
          open.insert(open.end(), node(next).alternatives.begin(), node(next).alternatives.end());
        } else {
          flat.push_back(next);
        }
      }
      each.alternatives = std::move(flat);
    }
  }

  // The least nesting of a value of each node: rises to a fixed point from "none fits".
  void SetHeights() {
    constexpr uint32_t kNothing = 1'000'000;
    for (SchemaNode& each : grammar_->nodes_) each.height = kNothing;
    for (bool changed = true; changed;) {
      changed = false;
      for (SchemaNode& each : grammar_->nodes_) {
        const uint32_t height = std::min(HeightOf(each), kNothing);
        changed |= height < each.height;
        each.height = std::min(height, each.height);
      }
    }
  }

  uint32_t HeightOf(const SchemaNode& of) {
    uint32_t height = of.kind == Kind::kUnion ? UINT32_MAX : 0;
    switch (of.kind) {
      case Kind::kUnion:
        for (uint32_t alternative : of.alternatives) {
          height = std::min(height, node(alternative).height);
        }
        return height;
      case Kind::kLiterals:
        return of.literals.empty() ? UINT32_MAX : 0;
      case Kind::kArray:
        return of.min > 0 ? node(of.items).height + 1 : 1;
      case Kind::kObject:
        for (const SchemaNode::Property& property : of.properties) {
          if (property.required) height = std::max(height, node(property.value).height);
        }
        return height + 1;
      default:
        return 0;
    }
  }

  const Json& document_;
  std::shared_ptr<Grammar> grammar_ = std::make_shared<Grammar>();
  std::map<std::string, uint32_t> references_;
  std::optional<uint32_t> any_;
  size_t literals_ = 0;
};

absl::StatusOr<std::shared_ptr<const Grammar>> Grammar::FromJsonSchema(std::string_view schema) {
  ASSIGN_OR_RETURN(const Json document, ParseJson(schema, "schema"));
  return SchemaCompiler(document).Compile();
}

}  // namespace baton::engine
