#include "coordinator/open_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "engine/base/json.h"

namespace baton::coordinator {

using engine::SamplingParams;
using engine::TokenId;
using Json = nlohmann::ordered_json;

namespace {

constexpr size_t kMaxTokens = 1u << 24;  // of a request, in a journal of unknown origin

// Names of the members in the journal. Floats pass through JSON's doubles unchanged.
template <typename T>
struct Member {
  const char* name;
  T SamplingParams::*member;
};
constexpr Member<float> kFloats[] = {
    {"temperature", &SamplingParams::temperature},
    {"top_p", &SamplingParams::top_p},
    {"min_p", &SamplingParams::min_p},
    {"repetition_penalty", &SamplingParams::repetition_penalty},
    {"presence_penalty", &SamplingParams::presence_penalty},
    {"frequency_penalty", &SamplingParams::frequency_penalty},
};
constexpr Member<int32_t> kIntegers[] = {
    {"top_k", &SamplingParams::top_k},
    {"top_logprobs", &SamplingParams::top_logprobs},
};

Json ToJson(const OpenRequest& request) {
  Json json;
  json["prompt"] = request.prompt;
  json["answer"] = request.answer;
  json["stop"] = request.stop;
  json["ignore_eos"] = request.ignore_eos;
  json["max_tokens"] = request.max_tokens;
  json["priority"] = request.priority;
  json["speculation"] = request.speculation;
  json["grammar_json_schema"] = request.grammar_json_schema;
  json["seed"] = request.sampling.seed;
  for (const auto& [name, member] : kFloats) json[name] = request.sampling.*member;
  for (const auto& [name, member] : kIntegers) json[name] = request.sampling.*member;
  json["logit_bias"] = request.sampling.logit_bias;
  return json;
}

template <typename T>
bool IsInteger(const Json& value) {
  if (value.is_number_unsigned()) return std::in_range<T>(value.get<uint64_t>());
  return value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
}

bool AreTokens(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), IsInteger<TokenId>);
}

bool IsLogitBias(const Json& value) {
  return value.is_array() && value.size() == 2 && IsInteger<TokenId>(value[0]);
}

// The library's own conversions take any number for any other, as 1e19 for an int. Throws where a
// member is not there.
bool IntegersFit(const Json& json) {
  const Json& bias = json.at("logit_bias");
  return AreTokens(json.at("prompt")) && AreTokens(json.at("answer")) &&
         IsInteger<int32_t>(json.at("max_tokens")) && IsInteger<int32_t>(json.at("priority")) &&
         IsInteger<uint64_t>(json.at("seed")) && bias.is_array() &&
         std::all_of(bias.begin(), bias.end(), IsLogitBias) &&
         std::ranges::all_of(kIntegers, [&](const Member<int32_t>& member) {
           return IsInteger<int32_t>(json.at(member.name));
         });
}

// nullopt: not what ToJson writes.
std::optional<OpenRequest> FromJson(const Json& json) {
  try {
    if (!IntegersFit(json)) return std::nullopt;
    OpenRequest request;
    json.at("prompt").get_to(request.prompt);
    json.at("answer").get_to(request.answer);
    json.at("stop").get_to(request.stop);
    json.at("ignore_eos").get_to(request.ignore_eos);
    json.at("max_tokens").get_to(request.max_tokens);
    json.at("priority").get_to(request.priority);
    json.at("speculation").get_to(request.speculation);
    json.at("grammar_json_schema").get_to(request.grammar_json_schema);
    json.at("seed").get_to(request.sampling.seed);
    for (const auto& [name, member] : kFloats) json.at(name).get_to(request.sampling.*member);
    for (const auto& [name, member] : kIntegers) json.at(name).get_to(request.sampling.*member);
    json.at("logit_bias").get_to(request.sampling.logit_bias);
    return request;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

std::string ToLine(const Json& json) { return engine::JsonText(json) + "\n"; }

void ReadLine(std::string_view line, std::unordered_map<std::string, OpenRequest>* open) {
  const absl::StatusOr<Json> parsed = engine::ParseJson(line, "journal");
  if (!parsed.ok() || !parsed->is_object()) return;
  const Json& json = *parsed;
  if (const auto id = json.find("open"); id != json.end() && id->is_string()) {
    std::optional<OpenRequest> request = FromJson(json);
    if (request && request->prompt.size() + request->answer.size() <= kMaxTokens) {
      (*open)[id->get<std::string>()] = *std::move(request);
    }
  } else if (const auto of = json.find("of"); of != json.end() && of->is_string()) {
    const auto entry = open->find(of->get<std::string>());
    const auto token = json.find("token");
    if (entry != open->end() && token != json.end() && IsInteger<TokenId>(*token)) {
      entry->second.answer.push_back(token->get<TokenId>());
    }
  } else if (const auto ended = json.find("end"); ended != json.end() && ended->is_string()) {
    open->erase(ended->get<std::string>());
  }
}

}  // namespace

std::string JournalHeadLine(std::string_view fingerprint) {
  return ToLine(Json{{"model", fingerprint}});
}

std::string JournalOpenLine(std::string_view id, const OpenRequest& request) {
  Json json = ToJson(request);
  json["open"] = id;
  return ToLine(json);
}

std::string JournalTokenLine(std::string_view id, TokenId token) {
  return fmt::format("{{\"of\":\"{}\",\"token\":{}}}\n", id, token);
}

std::string JournalEndLine(std::string_view id) { return fmt::format("{{\"end\":\"{}\"}}\n", id); }

std::unordered_map<std::string, OpenRequest> ReadJournal(std::string_view journal,
                                                         std::string_view fingerprint) {
  std::unordered_map<std::string, OpenRequest> open;
  bool known_model = false;
  while (true) {
    const size_t end = journal.find('\n');
    if (end == std::string_view::npos) return open;
    const std::string_view line = journal.substr(0, end);
    journal.remove_prefix(end + 1);
    if (known_model) {
      ReadLine(line, &open);
      continue;
    }
    const absl::StatusOr<Json> first = engine::ParseJson(line, "journal");
    if (!first.ok() || !first->is_object()) return open;
    const auto model = first->find("model");
    if (model == first->end() || *model != Json(fingerprint)) return open;
    known_model = true;
  }
}

}  // namespace baton::coordinator
