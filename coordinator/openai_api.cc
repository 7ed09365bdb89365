#include "coordinator/openai_api.h"

#include <limits>
#include <optional>
#include <utility>

#include "engine/base/json.h"
#include "engine/sampling/grammar.h"
#include "engine/text/utf8.h"

namespace baton::coordinator {
namespace {

constexpr size_t kMaxChoices = 16;

// ---- bodies to requests

absl::Status WrongType(std::string_view name, const Json& value, std::string_view expected) {
  return InvalidArgument("{}: got {} {}, expected {}", name, value.type_name(),
                         value.is_primitive() ? engine::JsonText(value) : "", expected);
}

absl::Status ReadFloat(std::string_view name, const Json& value, float* to) {
  if (!value.is_number()) return WrongType(name, value, "a number");
  *to = value.get<float>();
  return absl::OkStatus();
}

absl::Status ReadInt(std::string_view name, const Json& value, int64_t least, int64_t most,
                     int64_t* to) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(most))) {
    return WrongType(name, value, fmt::format("an integer of {} to {}", least, most));
  }
  *to = value.get<int64_t>();
  if (*to < least || *to > most)
    return WrongType(name, value, fmt::format("an integer of {} to {}", least, most));
  return absl::OkStatus();
}

absl::Status ReadInt32(std::string_view name, const Json& value, int32_t least, int32_t* to) {
  int64_t wide = 0;
  RETURN_IF_ERROR(ReadInt(name, value, least, std::numeric_limits<int32_t>::max(), &wide));
  *to = static_cast<int32_t>(wide);
  return absl::OkStatus();
}

absl::Status ReadBool(std::string_view name, const Json& value, bool* to) {
  if (!value.is_boolean()) return WrongType(name, value, "true or false");
  *to = value.get<bool>();
  return absl::OkStatus();
}

absl::Status ReadStops(const Json& value, GenerationRequest* request) {
  const Json list = value.is_array() ? value : Json::array({value});
  for (const Json& stop : list) {
    if (!stop.is_string()) return WrongType("stop", stop, "a string or an array of strings");
    request->stop.push_back(stop.get<std::string>());
  }
  return absl::OkStatus();
}

absl::Status ReadLogitBias(const Json& value, engine::SamplingParams* sampling) {
  if (!value.is_object())
    return WrongType("logit_bias", value, "an object of token ids and numbers");
  for (const auto& [key, bias] : value.items()) {
    if (key.empty() || key.size() > 9 || key.find_first_not_of("0123456789") != key.npos) {
      return InvalidArgument("logit_bias: got key '{}', expected a token id", key.substr(0, 32));
    }
    float number = 0;
    RETURN_IF_ERROR(ReadFloat("logit_bias", bias, &number));
    sampling->logit_bias.emplace_back(std::stoi(key), number);
  }
  return absl::OkStatus();
}

absl::Status ReadResponseFormat(const Json& value, GenerationRequest* request) {
  if (!value.is_object() || !value.contains("type") || !value["type"].is_string()) {
    return WrongType("response_format", value, "an object with a type");
  }
  const std::string type = value["type"].get<std::string>();
  if (type == "text") return absl::OkStatus();
  if (type == "json_object") {
    request->grammar_json_schema = R"({"type":"object"})";
    return absl::OkStatus();
  }
  if (type != "json_schema") {
    return InvalidArgument(
        "response_format: got type {}, expected text, json_object or json_schema", type);
  }
  if (!value.contains("json_schema") || !value["json_schema"].is_object() ||
      !value["json_schema"].contains("schema")) {
    return InvalidArgument(
        "response_format.json_schema: got no schema, expected {{\"name\", \"schema\"}}");
  }
  request->grammar_json_schema = engine::JsonText(value["json_schema"]["schema"]);
  return Prefixed(engine::Grammar::FromJsonSchema(request->grammar_json_schema).status(),
                  "response_format.json_schema");
}

absl::Status ReadStreamOptions(const Json& value, OpenAiCall* call) {
  if (!value.is_object()) return WrongType("stream_options", value, "an object");
  if (!value.contains("include_usage")) return absl::OkStatus();
  return ReadBool("stream_options.include_usage", value["include_usage"], &call->include_usage);
}

// What a parameter is read into while a body is parsed.
struct Draft {
  OpenAiCall* call;
  GenerationRequest* request;  // of the first choice; the others are copies
  int64_t choices = 1;
  std::optional<int32_t> top_logprobs;
};

struct Parameter {
  std::string_view name;
  absl::Status (*read)(std::string_view name, const Json& value, Draft* draft);
  bool chat = true;
  bool completion = true;
};

template <float engine::SamplingParams::*member>
absl::Status Float(std::string_view name, const Json& value, Draft* draft) {
  return ReadFloat(name, value, &(draft->request->sampling.*member));
}

absl::Status MaxTokens(std::string_view name, const Json& value, Draft* draft) {
  int32_t count = 0;
  RETURN_IF_ERROR(ReadInt32(name, value, 0, &count));
  draft->request->max_tokens = count;
  return absl::OkStatus();
}

constexpr Parameter kParameters[] = {
    {"model",
     [](std::string_view name, const Json& value, Draft* draft) {
       if (!value.is_string()) return WrongType(name, value, "a string");
       draft->call->model = value.get<std::string>();
       return absl::OkStatus();
     }},
    {"temperature", Float<&engine::SamplingParams::temperature>},
    {"top_p", Float<&engine::SamplingParams::top_p>},
    {"min_p", Float<&engine::SamplingParams::min_p>},
    {"presence_penalty", Float<&engine::SamplingParams::presence_penalty>},
    {"frequency_penalty", Float<&engine::SamplingParams::frequency_penalty>},
    {"repetition_penalty", Float<&engine::SamplingParams::repetition_penalty>},
    {"top_k",
     [](std::string_view name, const Json& value, Draft* draft) {
       return ReadInt32(name, value, -1, &draft->request->sampling.top_k);
     }},
    {"seed",
     [](std::string_view name, const Json& value, Draft* draft) {
       int64_t seed = 0;
       RETURN_IF_ERROR(ReadInt(name, value, std::numeric_limits<int64_t>::min(),
                               std::numeric_limits<int64_t>::max(), &seed));
       draft->request->sampling.seed = static_cast<uint64_t>(seed);
       draft->request->has_seed = true;
       return absl::OkStatus();
     }},
    {"max_tokens", MaxTokens},
    {"max_completion_tokens", MaxTokens, true, false},  // after max_tokens: it wins
    {"stop", [](std::string_view, const Json& value,
                Draft* draft) { return ReadStops(value, draft->request); }},
    {"logit_bias", [](std::string_view, const Json& value,
                      Draft* draft) { return ReadLogitBias(value, &draft->request->sampling); }},
    {"n", [](std::string_view name, const Json& value,
             Draft* draft) { return ReadInt(name, value, 1, kMaxChoices, &draft->choices); }},
    {"stream", [](std::string_view name, const Json& value,
                  Draft* draft) { return ReadBool(name, value, &draft->call->stream); }},
    {"stream_options", [](std::string_view, const Json& value,
                          Draft* draft) { return ReadStreamOptions(value, draft->call); }},
    {"response_format",
     [](std::string_view, const Json& value, Draft* draft) {
       return ReadResponseFormat(value, draft->request);
     },
     true, false},
    {"top_logprobs",
     [](std::string_view name, const Json& value, Draft* draft) {
       return ReadInt32(name, value, 0, &draft->top_logprobs.emplace());
     },
     true, false},
    {"ignore_eos", [](std::string_view name, const Json& value,
                      Draft* draft) { return ReadBool(name, value, &draft->request->ignore_eos); }},
    {"priority",
     [](std::string_view name, const Json& value, Draft* draft) {
       return ReadInt32(name, value, std::numeric_limits<int32_t>::min(),
                        &draft->request->priority);
     }},
    {"echo",
     [](std::string_view name, const Json& value, Draft* draft) {
       return ReadBool(name, value, &draft->call->echo);
     },
     false, true},
};

absl::Status ReadParameters(OpenAiEndpoint endpoint, const Json& body, Draft* draft) {
  for (const Parameter& parameter : kParameters) {
    if (!(endpoint == OpenAiEndpoint::kChat ? parameter.chat : parameter.completion)) continue;
    const auto found = body.find(std::string(parameter.name));
    if (found == body.end() || found->is_null()) continue;
    RETURN_IF_ERROR(parameter.read(parameter.name, *found, draft));
  }
  return absl::OkStatus();
}

absl::Status ReadChatLogprobs(const Json& body, Draft* draft) {
  if (body.contains("logprobs") && !body["logprobs"].is_null()) {
    RETURN_IF_ERROR(ReadBool("logprobs", body["logprobs"], &draft->call->logprobs));
  }
  if (draft->top_logprobs && !draft->call->logprobs) {
    return InvalidArgument("top_logprobs: got {}, expected logprobs: true beside it",
                           *draft->top_logprobs);
  }
  if (draft->call->logprobs)
    draft->request->sampling.top_logprobs = draft->top_logprobs.value_or(0);
  return absl::OkStatus();
}

absl::Status ReadCompletionLogprobs(const Json& body, Draft* draft) {
  if (!body.contains("logprobs") || body["logprobs"].is_null()) return absl::OkStatus();
  draft->call->logprobs = true;
  return ReadInt32("logprobs", body["logprobs"], 0, &draft->request->sampling.top_logprobs);
}

// Content in parts becomes one text: templates know nothing else.
absl::Status JoinContent(std::string_view place, Json* content) {
  if (content->is_null()) *content = "";
  if (!content->is_array()) return absl::OkStatus();
  std::string text;
  for (size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    if (!part.is_object() || part.value("type", Json()) != "text" || !part.contains("text") ||
        !part["text"].is_string()) {
      return InvalidArgument(
          "{}.content[{}]: got {}, expected {{\"type\": \"text\", \"text\": …}}", place, i,
          part.is_object() ? engine::JsonText(part.value("type", Json())) : "no object");
    }
    text += part["text"].get_ref<const std::string&>();
  }
  *content = std::move(text);
  return absl::OkStatus();
}

// As templates expect messages: one text each, and the arguments of calls as objects.
absl::Status NormalizeMessage(std::string_view place, Json* message) {
  if (!message->is_object()) return absl::OkStatus();  // refused further on
  if (message->value("role", Json()) == "developer") (*message)["role"] = "system";
  if (message->contains("content")) RETURN_IF_ERROR(JoinContent(place, &(*message)["content"]));
  if (!message->contains("tool_calls") || !(*message)["tool_calls"].is_array())
    return absl::OkStatus();
  for (Json& call : (*message)["tool_calls"]) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Json& function = call["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
    // A model may have written what is no JSON: it stays text.
    absl::StatusOr<Json> arguments =
        engine::ParseJson(function["arguments"].get_ref<const std::string&>(), "arguments");
    if (arguments.ok() && arguments->is_object()) function["arguments"] = *std::move(arguments);
  }
  return absl::OkStatus();
}

absl::StatusOr<ChatPrompt> ReadChatPrompt(const Json& body) {
  if (!body.contains("messages"))
    return InvalidArgument("messages: got none, expected an array of messages");
  Json messages = body["messages"];
  if (!messages.is_array() || messages.empty()) {
    return InvalidArgument("messages: got {}, expected an array of at least one message",
                           messages.is_array() ? "an empty array" : messages.type_name());
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    RETURN_IF_ERROR(NormalizeMessage(fmt::format("messages[{}]", i), &messages[i]));
  }
  ChatPrompt prompt{
      .messages_json = engine::JsonText(messages), .tools_json = {}, .template_args_json = {}};
  if (body.contains("chat_template_kwargs") && !body["chat_template_kwargs"].is_null()) {
    if (!body["chat_template_kwargs"].is_object()) {
      return WrongType("chat_template_kwargs", body["chat_template_kwargs"], "an object");
    }
    prompt.template_args_json = engine::JsonText(body["chat_template_kwargs"]);
  }
  return prompt;
}

bool IsTokenArray(const Json& value) {
  if (!value.is_array() || value.empty()) return false;
  for (const Json& id : value) {
    if (!id.is_number_integer()) return false;
  }
  return true;
}

absl::StatusOr<std::variant<TextPrompt, TokenPrompt, ChatPrompt>> ReadOnePrompt(const Json& value) {
  // As a model's own text: control tokens written in it are meant.
  if (value.is_string()) return TextPrompt{.text = value.get<std::string>(), .parse_special = true};
  if (!IsTokenArray(value))
    return WrongType("prompt", value, "a string, an array of token ids, or an array of those");
  TokenPrompt prompt;
  for (const Json& id : value) {
    RETURN_IF_ERROR(ReadInt32("prompt", id, 0, &prompt.ids.emplace_back()));
  }
  return prompt;
}

absl::StatusOr<std::vector<GenerationRequest>> ReadCompletionPrompts(
    const Json& body, const GenerationRequest& base) {
  if (!body.contains("prompt") || body["prompt"].is_null())
    return InvalidArgument("prompt: got none, expected a string");
  const Json& prompt = body["prompt"];
  const bool several = prompt.is_array() && !IsTokenArray(prompt);
  if (several && (prompt.empty() || prompt.size() > kMaxChoices)) {
    return InvalidArgument("prompt: got an array of {}, expected 1 to {} prompts", prompt.size(),
                           kMaxChoices);
  }
  std::vector<GenerationRequest> requests;
  for (const Json& one : several ? prompt : Json::array({prompt})) {
    requests.push_back(base);
    ASSIGN_OR_RETURN(requests.back().prompt, ReadOnePrompt(one));
  }
  return requests;
}

// ---- answers to bodies

// The API knows no other ends of an answer; errors have their own shape.
std::string_view ApiFinishReason(FinishReason reason, bool called_tools) {
  if (reason == FinishReason::kLength) return FinishReasonName(reason);
  return called_tools ? "tool_calls" : FinishReasonName(FinishReason::kStop);
}

std::string Printable(std::string_view bytes) {
  engine::Utf8Stream stream;
  std::string text = stream.Append(bytes);
  return text + stream.Flush();
}

Json Bytes(std::string_view bytes) {
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

std::string Event(const Json& data) { return fmt::format("data: {}\n\n", engine::JsonText(data)); }

struct ErrorRow {
  absl::StatusCode code;
  int http_status;
  std::string_view type;
};
constexpr ErrorRow kErrorRows[] = {
    {absl::StatusCode::kInvalidArgument, 400, "invalid_request_error"},
    {absl::StatusCode::kOutOfRange, 400, "invalid_request_error"},
    {absl::StatusCode::kFailedPrecondition, 400, "invalid_request_error"},
    {absl::StatusCode::kUnimplemented, 400, "invalid_request_error"},
    {absl::StatusCode::kNotFound, 404, "invalid_request_error"},
    {absl::StatusCode::kUnauthenticated, 401, "authentication_error"},
    {absl::StatusCode::kPermissionDenied, 403, "permission_error"},
    {absl::StatusCode::kResourceExhausted, 429, "rate_limit_error"},
    {absl::StatusCode::kUnavailable, 503, "service_unavailable_error"},
    {absl::StatusCode::kDeadlineExceeded, 504, "timeout_error"},
    {absl::StatusCode::kCancelled, 499, "cancelled_error"},
};

// Errors of requests begin with the parameter's name and a colon.
std::string ParameterOf(std::string_view message) {
  const size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.[]0123456789");
  if (end == 0 || end == message.npos || message[end] != ':') return "";
  return std::string(message.substr(0, end));
}

}  // namespace

absl::StatusOr<OpenAiCall> ParseOpenAiCall(OpenAiEndpoint endpoint, std::string_view body) {
  ASSIGN_OR_RETURN(const Json json, engine::ParseJson(body, "body"));
  if (!json.is_object()) return InvalidArgument("body: expected one JSON object");
  OpenAiCall call;
  call.endpoint = endpoint;
  GenerationRequest base;
  base.sampling.temperature = 1.0f;  // the API's defaults, not the command line's
  base.sampling.top_p = 1.0f;
  base.sampling.top_k = 0;
  base.sampling.min_p = 0.0f;
  Draft draft{.call = &call, .request = &base, .choices = 1, .top_logprobs = std::nullopt};
  RETURN_IF_ERROR(ReadParameters(endpoint, json, &draft));
  std::vector<GenerationRequest> prompts;
  if (endpoint == OpenAiEndpoint::kChat) {
    RETURN_IF_ERROR(ReadChatLogprobs(json, &draft));
    ASSIGN_OR_RETURN(ChatPrompt prompt, ReadChatPrompt(json));
    ASSIGN_OR_RETURN(Tools tools, ReadTools(json));
    prompt.tools_json = std::move(tools.json);
    call.tool_names = std::move(tools.names);
    if (!tools.schema.empty()) base.grammar_json_schema = std::move(tools.schema);
    base.prompt = std::move(prompt);
    prompts.push_back(base);
  } else {
    RETURN_IF_ERROR(ReadCompletionLogprobs(json, &draft));
    if (!base.max_tokens) base.max_tokens = 16;  // the API's default
    ASSIGN_OR_RETURN(prompts, ReadCompletionPrompts(json, base));
  }
  if (prompts.size() * static_cast<size_t>(draft.choices) > kMaxChoices) {
    return InvalidArgument("n: got {} choices in all, expected at most {}",
                           prompts.size() * draft.choices, kMaxChoices);
  }
  for (const GenerationRequest& prompt : prompts) {
    for (int64_t i = 0; i < draft.choices; ++i) {
      call.requests.push_back(prompt);
      call.requests.back().sampling.seed += static_cast<uint64_t>(i);  // choices of one seed differ
    }
  }
  return call;
}

OpenAiError ToOpenAiError(const absl::Status& status) {
  ErrorRow row{absl::StatusCode::kInternal, 500, "server_error"};
  for (const ErrorRow& candidate : kErrorRows) {
    if (candidate.code == status.code()) row = candidate;
  }
  const std::string parameter = row.http_status == 400 ? ParameterOf(Message(status)) : "";
  Json error = {{"message", Printable(Message(status))},
                {"type", row.type},
                {"param", nullptr},
                {"code", nullptr}};
  if (!parameter.empty()) error["param"] = parameter;
  if (status.code() == absl::StatusCode::kNotFound) error["code"] = "model_not_found";
  if (status.code() == absl::StatusCode::kOutOfRange) error["code"] = "context_length_exceeded";
  return {row.http_status, Json{{"error", std::move(error)}}};
}

OpenAiAnswer::OpenAiAnswer(const OpenAiCall& call, std::string id, int64_t created_unix_s,
                           std::string model, std::function<std::string(engine::TokenId)> spell)
    : endpoint_(call.endpoint),
      stream_(call.stream),
      include_usage_(call.include_usage),
      logprobs_(call.logprobs),
      id_(std::move(id)),
      created_unix_s_(created_unix_s),
      model_(std::move(model)),
      spell_(std::move(spell)),
      open_choices_(call.requests.size()) {
  for (size_t i = 0; i < open_choices_; ++i) choices_.emplace_back(call.tool_names);
  if (!call.echo) return;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const auto* text = std::get_if<TextPrompt>(&call.requests[i].prompt);
    if (text != nullptr) choices_[i].text = text->text;
  }
}

std::string OpenAiAnswer::Add(size_t index, const GenerationChunk& chunk) {
  Choice& choice = choices_[index];
  const bool first = !std::exchange(choice.begun, true);
  if (!chunk.prompt_tokens.empty()) prompt_tokens_ += chunk.prompt_tokens.size();
  completion_tokens_ += chunk.tokens.size();
  const Said said = Read(chunk, index);
  if (chunk.last()) {
    --open_choices_;
    cached_tokens_ += static_cast<uint64_t>(chunk.timings.cached_tokens);
    choice.finish_reason = ApiFinishReason(chunk.finish, !choice.calls.empty());
    if (status_.ok()) status_ = chunk.status;
  }
  std::string events;
  if (stream_ && chunk.finish == FinishReason::kError) {
    events = Event(ToOpenAiError(chunk.status).body);
  } else if (stream_) {
    Json frame =
        Frame(endpoint_ == OpenAiEndpoint::kChat ? "chat.completion.chunk" : "text_completion");
    Json entry = StreamChoice(index, chunk, said, first);
    if (entry.is_null()) return events;
    frame["choices"] = Json::array({std::move(entry)});
    if (include_usage_) frame["usage"] = nullptr;
    events = Event(frame);
  }
  choice.text += said.text;
  if (!stream_ && logprobs_) {
    choice.tokens.insert(choice.tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
  }
  return events;
}

OpenAiAnswer::Said OpenAiAnswer::Read(const GenerationChunk& chunk, size_t index) {
  Choice& choice = choices_[index];
  std::vector<AnswerPart> parts = choice.reader.Append(chunk.text);
  if (chunk.last()) {
    for (AnswerPart& part : choice.reader.Finish()) parts.push_back(std::move(part));
  }
  Said said;
  for (const AnswerPart& part : parts) {
    said.text += part.text;
    if (!part.name.empty()) {
      choice.calls.push_back({{"id", fmt::format("call_{}_{}_{}", id_.substr(id_.find('-') + 1),
                                                 index, choice.calls.size())},
                              {"type", "function"},
                              {"function", {{"name", part.name}, {"arguments", part.arguments}}}});
      Json begun = {{"index", choice.calls.size() - 1}};
      begun.update(choice.calls.back());
      said.calls.push_back(std::move(begun));
    } else if (!part.arguments.empty()) {
      choice.calls.back()["function"]["arguments"].get_ref<std::string&>() += part.arguments;
      said.calls.push_back(
          {{"index", choice.calls.size() - 1}, {"function", {{"arguments", part.arguments}}}});
    }
  }
  return said;
}

std::string OpenAiAnswer::StreamEnd() const {
  std::string events;
  if (include_usage_ && status_.ok()) {
    Json frame =
        Frame(endpoint_ == OpenAiEndpoint::kChat ? "chat.completion.chunk" : "text_completion");
    frame["choices"] = Json::array();
    frame["usage"] = Usage();
    events = Event(frame);
  }
  return events + "data: [DONE]\n\n";
}

Json OpenAiAnswer::Body() const {
  const bool chat = endpoint_ == OpenAiEndpoint::kChat;
  Json frame = Frame(chat ? "chat.completion" : "text_completion");
  Json list = Json::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    Json entry = {{"index", i}};
    if (chat) {
      entry["message"] = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
      if (!choice.calls.empty()) {
        if (choice.text.empty()) entry["message"]["content"] = nullptr;
        entry["message"]["tool_calls"] = choice.calls;
      }
    } else {
      entry["text"] = choice.text;
    }
    entry["logprobs"] = logprobs_ ? Logprobs(choice.tokens, 0) : Json(nullptr);
    entry["finish_reason"] = choice.finish_reason;
    list.push_back(std::move(entry));
  }
  frame["choices"] = std::move(list);
  frame["usage"] = Usage();
  return frame;
}

Json OpenAiAnswer::Frame(std::string_view object) const {
  return {{"id", id_}, {"object", object}, {"created", created_unix_s_}, {"model", model_}};
}

Json OpenAiAnswer::StreamChoice(size_t index, const GenerationChunk& chunk, const Said& said,
                                bool first) const {
  const bool logprobs = logprobs_ && !chunk.tokens.empty();
  if (!first && !chunk.last() && !logprobs && said.text.empty() && said.calls.empty()) return {};
  Json entry = {{"index", index}};
  if (endpoint_ == OpenAiEndpoint::kChat) {
    Json delta = Json::object();
    if (first) delta["role"] = "assistant";
    if (first || !said.text.empty()) delta["content"] = said.text;
    if (!said.calls.empty()) delta["tool_calls"] = said.calls;
    entry["delta"] = std::move(delta);
  } else {
    entry["text"] = first ? choices_[index].text + said.text : said.text;
  }
  entry["logprobs"] =
      logprobs ? Logprobs(chunk.tokens, choices_[index].text.size()) : Json(nullptr);
  entry["finish_reason"] = chunk.last() ? Json(choices_[index].finish_reason) : Json(nullptr);
  return entry;
}

Json OpenAiAnswer::Logprobs(const std::vector<GeneratedToken>& tokens, size_t text_offset) const {
  const auto spelled = [&](const GeneratedToken& token) {
    return token.bytes.empty() ? spell_(token.id) : token.bytes;
  };
  if (endpoint_ == OpenAiEndpoint::kChat) {
    Json content = Json::array();
    for (const GeneratedToken& token : tokens) {
      Json top = Json::array();
      for (const engine::TokenLogprob& other : token.top) {
        const std::string text = spell_(other.id);
        top.push_back(
            {{"token", Printable(text)}, {"logprob", other.logprob}, {"bytes", Bytes(text)}});
      }
      const std::string text = spelled(token);
      content.push_back({{"token", Printable(text)},
                         {"logprob", token.logprob},
                         {"bytes", Bytes(text)},
                         {"top_logprobs", std::move(top)}});
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }
  Json names = Json::array(), logprobs = Json::array(), tops = Json::array(),
       offsets = Json::array();
  for (const GeneratedToken& token : tokens) {
    const std::string text = Printable(spelled(token));
    Json top = Json::object();
    for (const engine::TokenLogprob& other : token.top)
      top[Printable(spell_(other.id))] = other.logprob;
    names.push_back(text);
    logprobs.push_back(token.logprob);
    tops.push_back(std::move(top));
    offsets.push_back(text_offset);
    text_offset += text.size();
  }
  return {{"tokens", names},
          {"token_logprobs", logprobs},
          {"top_logprobs", tops},
          {"text_offset", offsets}};
}

Json OpenAiAnswer::Usage() const {
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", completion_tokens_},
          {"total_tokens", prompt_tokens_ + completion_tokens_},
          {"prompt_tokens_details", {{"cached_tokens", cached_tokens_}}}};
}

}  // namespace baton::coordinator
