#include "cli/command.h"
#include "cli/commands.h"

namespace baton::cli {
namespace {

constexpr std::string_view kModels = "Models";
constexpr std::string_view kAboutBaton = "About baton";

constexpr Command kCommands[] = {
    {"info", kModels, "Show what is in a GGUF file or folder", "baton info model.gguf --json",
     DefineInfo},
    {"completion", kAboutBaton, "Print a shell's completion script",
     "source <(baton completion bash)", DefineCompletion},
    {"version", kAboutBaton, "Print the version", "baton version --json", DefineVersion},
};

}  // namespace

std::span<const Command> AllCommands() { return kCommands; }

}  // namespace baton::cli
