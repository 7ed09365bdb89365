// baton chat: a conversation at the terminal. Ctrl-C stops an answer, Ctrl-D or /exit the program.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <memory>

#include "cli/answer.h"
#include "cli/answer_source.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/generation_flags.h"
#include "cli/output.h"
#include "engine/base/json.h"

namespace baton::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ChatFlags {
  ModelFlags model;
  ServerFlags server;
  GenerationFlags generation;
  std::string system;
};

constexpr char kHelp[] =
    "/help           this\n"
    "/reset          forget the conversation\n"
    "/system TEXT    set the system message and forget the conversation\n"
    "/exit           leave (also Ctrl-D)\n"
    "Ctrl-C          stop the answer\n";

class Conversation {
 public:
  Conversation(coordinator::LlmService& service, const ChatFlags& flags, InterruptWatch& watch)
      : service_(service), flags_(flags), watch_(watch), system_(flags.system) {
    watch_.OnSignal(RemindHowToLeave);
    Reset();
  }

  // False: the program should end.
  absl::StatusOr<bool> OnLine(const std::string& line) {
    if (line.empty()) return true;
    if (line[0] != '/') return Answer(line);
    const size_t space = line.find(' ');
    const std::string command = line.substr(0, space);
    if (command == "/exit" || command == "/quit") return false;
    if (command == "/reset") {
      Reset();
      Say("The conversation is forgotten.\n");
    } else if (command == "/system") {
      system_ = space == std::string::npos ? "" : line.substr(space + 1);
      Reset();
      Say("The system message is set, the conversation forgotten.\n");
    } else if (command == "/help") {
      Say(kHelp);
    } else {
      Say(fmt::format("{}: no such command; /help shows them\n", command));
    }
    return true;
  }

 private:
  static void RemindHowToLeave() { std::fputs("\n(/exit or Ctrl-D leaves)\n> ", stderr); }
  static void Say(const std::string& text) { std::fputs(text.c_str(), stderr); }

  void Reset() {
    messages_ = Json::array();
    if (!system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
  }

  absl::StatusOr<bool> Answer(const std::string& text) {
    Json messages = messages_;
    messages.push_back({{"role", "user"}, {"content", text}});
    ASSIGN_OR_RETURN(coordinator::GenerationRequest request, MakeRequest(flags_.generation));
    request.prompt = coordinator::ChatPrompt{
        .messages_json = engine::JsonText(messages), .tools_json = {}, .template_args_json = {}};
    auto answer = ReadAnswer(
        service_, request, [](std::string_view piece) { return Print(piece); }, watch_);
    watch_.OnSignal(RemindHowToLeave);
    if (!answer.ok()) {
      if (ExitCodeOf(answer.status()) == kCannotWrite || absl::IsUnavailable(answer.status()))
        return answer.status();
      Say(fmt::format("\nbaton: error: {}\n",
                      Message(answer.status())));  // the conversation is as it was
      return true;
    }
    RETURN_IF_ERROR(Print("\n"));
    if (answer->finish == coordinator::FinishReason::kCancelled) Say("[stopped]\n");
    messages.push_back({{"role", "assistant"}, {"content", answer->text}});
    messages_ = std::move(messages);
    return true;
  }

  coordinator::LlmService& service_;
  const ChatFlags& flags_;
  InterruptWatch& watch_;
  std::string system_;
  Json messages_;
};

absl::Status Run(const ChatFlags& flags) {
  InterruptWatch watch;
  ASSIGN_OR_RETURN(const auto source, OpenAnswerSource(flags.model, flags.server));
  coordinator::LlmService& service = *source->service();
  const coordinator::ModelSummary model = service.model();
  if (!model.has_chat_template) {
    return WithHint(InvalidArgument("{}: the model has no chat template", model.name),
                    "baton run --raw goes on with a text");
  }
  Conversation conversation(service, flags, watch);
  if (StderrIsTerminal())
    std::fprintf(stderr, "%s. /help shows the commands.\n", model.name.c_str());
  std::string line;
  while (true) {
    if (StderrIsTerminal()) std::fputs("> ", stderr);
    if (!std::getline(std::cin, line)) break;
    ASSIGN_OR_RETURN(const bool go_on, conversation.OnLine(line));
    if (!go_on) break;
  }
  return absl::OkStatus();
}

}  // namespace

CommandBody DefineChat(CLI::App& app) {
  auto flags = std::make_shared<ChatFlags>();
  CLI::Option* model = AddModelFlags(app, flags->model);
  AddServerFlags(app, flags->server)->excludes(model);
  app.add_option("--system", flags->system, "System message");
  AddGenerationFlags(app, flags->generation);
  return [flags] { return Run(*flags); };
}

}  // namespace baton::cli
