// Completion scripts, made from the commands' own flags, so that they cannot be out of date.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/output.h"

namespace baton::cli {
namespace {

struct CommandFlags {
  std::string name;
  std::string summary;
  std::vector<std::string> words;         // commands of its own: "init"
  std::vector<std::string> flags;         // "--model", its own and those of its commands
  std::vector<std::string> descriptions;  // of each flag
};

void AddFlags(const CLI::App& app, CommandFlags* command) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      if (std::ranges::find(command->flags, "--" + name) != command->flags.end()) continue;
      command->flags.push_back("--" + name);
      command->descriptions.push_back(option->get_description());
    }
  }
}

std::vector<CommandFlags> Collect(const CLI::App& root) {
  std::vector<CommandFlags> all;
  for (const CLI::App* app : root.get_subcommands([](const CLI::App*) { return true; })) {
    CommandFlags command{.name = app->get_name(),
                         .summary = app->get_description(),
                         .words = {},
                         .flags = {},
                         .descriptions = {}};
    AddFlags(*app, &command);
    for (const CLI::App* inner : app->get_subcommands([](const CLI::App* sub) {
           return !sub->get_name().empty();  // groups of options are nameless ones
         })) {
      command.words.push_back(inner->get_name());
      AddFlags(*inner, &command);
    }
    all.push_back(std::move(command));
  }
  return all;
}

// For text inside single quotes.
std::string Quoted(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\'') {
      out += "’";
    } else if (c == '[' || c == ']' || c == ':') {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out;
}

std::string Names(const std::vector<CommandFlags>& commands) {
  std::string names;
  for (const CommandFlags& c : commands) names += (names.empty() ? "" : " ") + c.name;
  return names;
}

std::string Bash(const std::vector<CommandFlags>& commands) {
  std::string out =
      "_baton() {\n  local word=${COMP_WORDS[COMP_CWORD]} flags= words=\n  if ((COMP_CWORD == 1)); "
      "then\n";
  out += fmt::format("    COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n    return\n  fi\n",
                     Names(commands));
  out += "  case ${COMP_WORDS[1]} in\n";
  for (const CommandFlags& c : commands) {
    out += fmt::format("    {}) flags='{}' words='{}' ;;\n", c.name, fmt::join(c.flags, " "),
                       fmt::join(c.words, " "));
  }
  out +=
      "  esac\n  if [[ $word == -* ]]; then\n    COMPREPLY=($(compgen -W \"$flags\" -- "
      "\"$word\"))\n  else\n"
      "    COMPREPLY=($(compgen -W \"$words\" -f -- \"$word\"))\n  fi\n}\ncomplete -o filenames -F "
      "_baton "
      "baton\n";
  return out;
}

std::string Zsh(const std::vector<CommandFlags>& commands) {
  std::string out = "#compdef baton\n_baton() {\n  local -a commands=(\n";
  for (const CommandFlags& c : commands)
    out += fmt::format("    '{}:{}'\n", c.name, Quoted(c.summary));
  out +=
      "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n  case "
      "$words[2] in\n";
  for (const CommandFlags& c : commands) {
    out += fmt::format("    {}) _arguments", c.name);
    for (size_t i = 0; i < c.flags.size(); ++i) {
      out += fmt::format(" '{}[{}]'", c.flags[i], Quoted(c.descriptions[i]));
    }
    out += c.words.empty() ? " '*:file:_files' ;;\n"
                           : fmt::format(" '*:command:({})' ;;\n", fmt::join(c.words, " "));
  }
  out += "  esac\n}\ncompdef _baton baton\n";
  return out;
}

std::string Fish(const std::vector<CommandFlags>& commands) {
  std::string out;
  for (const CommandFlags& c : commands) {
    out += fmt::format("complete -c baton -n __fish_use_subcommand -f -a {} -d '{}'\n", c.name,
                       Quoted(c.summary));
    if (!c.words.empty()) {
      out += fmt::format("complete -c baton -n '__fish_seen_subcommand_from {}' -f -a '{}'\n",
                         c.name, fmt::join(c.words, " "));
    }
    for (size_t i = 0; i < c.flags.size(); ++i) {
      out += fmt::format("complete -c baton -n '__fish_seen_subcommand_from {}' -l {} -d '{}'\n",
                         c.name, c.flags[i].substr(2), Quoted(c.descriptions[i]));
    }
  }
  return out;
}

struct Shell {
  std::string_view name;
  std::string (*script)(const std::vector<CommandFlags>&);
};
constexpr Shell kShells[] = {{"bash", Bash}, {"zsh", Zsh}, {"fish", Fish}};

}  // namespace

CommandBody DefineCompletion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash, zsh or fish")->required();
  return [shell, root = app.get_parent()]() -> absl::Status {
    for (const Shell& known : kShells) {
      if (*shell == known.name) return Print(known.script(Collect(*root)));
    }
    return UsageError("shell: got {}, expected bash, zsh or fish", *shell);
  };
}

}  // namespace baton::cli
