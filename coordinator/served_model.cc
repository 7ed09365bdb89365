#include "coordinator/served_model.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "coordinator/request_check.h"
#include "engine/arch/fingerprint.h"
#include "engine/arch/supported.h"
#include "engine/base/json.h"
#include "engine/base/private_pages.h"
#include "engine/base/quote.h"

namespace baton::coordinator {
namespace {

constexpr int32_t kDefaultContext = 4096;

absl::Status CheckMessages(const nlohmann::ordered_json& messages) {
  if (!messages.is_array())
    return InvalidArgument("messages: got {}, expected a list", messages.type_name());
  if (messages.empty())
    return InvalidArgument("messages: the list is empty, expected at least one message");
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto& message = messages[i];
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string()) {
      return InvalidArgument("messages[{}]: expected an object with a \"role\"", i);
    }
  }
  return absl::OkStatus();
}

// Tells of the tools in the system message.
void DescribeTools(const nlohmann::ordered_json& tools, nlohmann::ordered_json* messages) {
  std::string text =
      "You may call these functions. To call one, answer with nothing but a JSON object "
      "{\"name\": its name, \"arguments\": {…}}.\n";
  for (const auto& tool : tools) {
    text += engine::JsonText(tool) + "\n";
  }
  auto& first = messages->front();
  if (first["role"] == "system" && first.contains("content") && first["content"].is_string()) {
    first["content"] = first["content"].get<std::string>() + "\n\n" + text;
  } else {
    messages->insert(messages->begin(), {{"role", "system"}, {"content", text}});
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServedModel>> ServedModel::Open(const Topology& topology) {
  ASSIGN_OR_RETURN(engine::GgufModel file, engine::GgufModel::Open(topology.model));
  // Whatever becomes of the file, the vocabulary is needed.
  for (size_t part = 0; part < file.parts().size(); ++part) {
    const engine::MmapFile& mapping = file.mapping(part);
    RETURN_IF_ERROR(Prefixed(
        engine::MakePrivate({mapping.data(), mapping.size()}, file.header(part).data_offset),
        mapping.path()));
  }
  RETURN_IF_ERROR(engine::CheckSupported(file));
  std::unique_ptr<ServedModel> model(new ServedModel(std::move(file)));
  ASSIGN_OR_RETURN(model->hyperparams_, engine::ParseHyperParams(model->file_));
  ASSIGN_OR_RETURN(model->cost_,
                   engine::CostOfModel(model->file_, model->hyperparams_, topology.kv_type));
  ASSIGN_OR_RETURN(model->tokenizer_, engine::Tokenizer::Create(model->file_.metadata()));
  RETURN_IF_ERROR(model->ReadTemplate());
  model->Summarize(topology);
  return model;
}

// A template that is absent or does not parse only matters to those who chat.
absl::Status ServedModel::ReadTemplate() {
  ASSIGN_OR_RETURN(const std::optional<std::string_view> source,
                   file_.metadata().FindString("tokenizer.chat_template"));
  if (!source || source->empty()) {
    template_error_ =
        InvalidArgument("messages: the model has no chat template; send a prompt instead");
    return absl::OkStatus();
  }
  absl::StatusOr<engine::ChatTemplate> parsed = engine::ChatTemplate::Parse(*source);
  if (parsed.ok()) {
    template_ = *std::move(parsed);
  } else {
    template_error_ = Prefixed(parsed.status(), "tokenizer.chat_template");
    summary_.warnings.push_back(std::string(Message(template_error_)));
  }
  return absl::OkStatus();
}

void ServedModel::Summarize(const Topology& topology) {
  const engine::Metadata& metadata = file_.metadata();
  const auto string_of = [&](std::string_view key) {
    const auto value = metadata.FindString(key);
    return value.ok() && *value ? std::string(**value) : std::string();
  };
  summary_.name = string_of("general.name");
  if (summary_.name.empty()) summary_.name = file_.parts()[0].file_name;
  summary_.architecture = string_of("general.architecture");
  summary_.fingerprint = engine::ModelFingerprint(file_);
  summary_.num_layers = hyperparams_.num_layers;
  summary_.hidden_size = hyperparams_.hidden_size;
  summary_.vocab_size = hyperparams_.vocab_size;
  summary_.trained_context_length = hyperparams_.context_length;
  const int32_t trained =
      hyperparams_.context_length > 0 ? hyperparams_.context_length : kDefaultContext;
  summary_.context_length =
      topology.context > 0 ? topology.context : std::min(trained, kDefaultContext);
  if (summary_.context_length > trained) {
    summary_.warnings.push_back(
        fmt::format("context: {} positions, but the model was trained with {}",
                    summary_.context_length, trained));
  }
  for (const engine::TensorInfo& tensor : file_.tensors())
    summary_.parameters += tensor.num_elements();
  summary_.bytes = file_.total_bytes();
  summary_.bos = tokenizer_->bos();
  summary_.eos = tokenizer_->eos();
  summary_.has_chat_template = template_.has_value();
  for (const std::string& warning : tokenizer_->warnings()) summary_.warnings.push_back(warning);
}

absl::StatusOr<engine::PromptText> ServedModel::RenderChat(const ChatPrompt& prompt) const {
  if (!template_) return template_error_;
  ASSIGN_OR_RETURN(nlohmann::ordered_json messages,
                   engine::ParseJson(prompt.messages_json, "messages"));
  RETURN_IF_ERROR(CheckMessages(messages));
  nlohmann::ordered_json input = nlohmann::ordered_json::object();
  input["messages"] = std::move(messages);
  input["tools"] = nullptr;
  input["add_generation_prompt"] = true;
  const auto spelled = [&](engine::TokenId id) {
    return id == engine::kNoToken ? std::string() : std::string(tokenizer_->TokenText(id));
  };
  input["bos_token"] = spelled(tokenizer_->bos());
  input["eos_token"] = spelled(tokenizer_->eos());
  if (!prompt.tools_json.empty()) {
    ASSIGN_OR_RETURN(input["tools"], engine::ParseJson(prompt.tools_json, "tools"));
  }
  if (!prompt.template_args_json.empty()) {
    ASSIGN_OR_RETURN(const nlohmann::ordered_json args,
                     engine::ParseJson(prompt.template_args_json, "template_args"));
    if (!args.is_object())
      return InvalidArgument("template_args: got {}, expected an object", args.type_name());
    for (const auto& [key, value] : args.items()) {
      if (input.contains(key) || engine::ChatTemplate::IsSpecialToken(key)) {
        return InvalidArgument("template_args: {} is not for requests to set", engine::Named(key));
      }
      input[key] = value;
    }
  }
  ASSIGN_OR_RETURN(engine::PromptText rendered, template_->Render(input, {}));
  if (input["tools"].is_null()) return rendered;
  // A template that knows no tools leaves them out; then they are told in words.
  nlohmann::ordered_json without = input;
  without["tools"] = nullptr;
  const absl::StatusOr<engine::PromptText> plain = template_->Render(without, {});
  if (!plain.ok() || plain->text != rendered.text) return rendered;
  DescribeTools(input["tools"], &without["messages"]);
  return template_->Render(without, {});
}

absl::StatusOr<std::vector<engine::TokenId>> ServedModel::Encode(
    const GenerationRequest& request) const {
  std::vector<engine::TokenId> tokens;
  if (const auto* text = std::get_if<TextPrompt>(&request.prompt)) {
    engine::PromptText prompt{.text = text->text, .content = {}};
    if (!text->parse_special) prompt.content.push_back({0, prompt.text.size()});
    tokens = tokenizer_->EncodePrompt(prompt);
  } else if (const auto* chat = std::get_if<ChatPrompt>(&request.prompt)) {
    ASSIGN_OR_RETURN(const engine::PromptText prompt, RenderChat(*chat));
    tokens = tokenizer_->EncodePrompt(prompt);
  } else {
    tokens = std::get<TokenPrompt>(request.prompt).ids;
    RETURN_IF_ERROR(CheckTokenIds(tokens, hyperparams_.vocab_size));
  }
  if (!tokens.empty()) return tokens;
  return InvalidArgument(
      "prompt: it is empty{}",
      tokenizer_->adds_bos() ? "" : ", and the model has no begin token to start from");
}

}  // namespace baton::coordinator
