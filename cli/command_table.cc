#include "cli/command.h"
#include "cli/commands.h"

namespace baton::cli {
namespace {

constexpr std::string_view kGeneration = "Generation";
constexpr std::string_view kModels = "Models";
constexpr std::string_view kCluster = "Cluster";
constexpr std::string_view kAboutBaton = "About baton";

constexpr Command kCommands[] = {
    {"run", kGeneration, "One answer", "baton run -m model.gguf -p \"Why is the sky blue?\"",
     DefineRun},
    {"chat", kGeneration, "A conversation at the terminal", "baton chat -m model.gguf", DefineChat},
    {"up", kCluster,
     "Start the workers of a topology file and its coordinator, and keep them running",
     "baton up -f topology.yaml", DefineUp},
    {"serve", kCluster, "Run the coordinator", "baton serve -f topology.yaml", DefineServe},
    {"worker", kCluster, "Run one stage of a pipeline",
     "baton worker --listen 127.0.0.1:7071 --models ./models", DefineWorker},
    {"status", kCluster, "What a running cluster is doing", "baton status --server 127.0.0.1:7070",
     DefineStatus},
    {"doctor", kCluster, "Look for what would go wrong, and say what to do",
     "baton doctor -f topology.yaml", DefineDoctor},
    {"trace", kCluster, "Where the time of a request went, for Chrome's or Perfetto's viewer",
     "baton trace -o trace.json", DefineTrace},
    {"down", kCluster, "Stop what `baton up --detach` started", "baton down -f topology.yaml",
     DefineDown},
    {"logs", kCluster, "What `baton up --detach` and its workers say",
     "baton logs -f topology.yaml --follow", DefineLogs},
    {"plan", kCluster, "Who would get which layers, and why", "baton plan -f topology.yaml",
     DefinePlan},
    {"drain", kCluster, "Take a worker out of a running cluster", "baton drain right", DefineDrain},
    {"reload", kCluster, "Take over an edited topology file: add, remove and move workers",
     "baton reload --server 127.0.0.1:7070", DefineReload},
    {"session", kCluster,
     "Conversations that a cluster keeps by name: list, fork, save, restore, rm",
     "baton session save support-42", DefineSession},
    {"certs", kCluster, "Certificates for a cluster's hosts, and keys for clients",
     "baton certs init && baton certs issue right --role worker --host 10.0.0.2", DefineCerts},
    {"info", kModels, "Show what is in a GGUF file or folder", "baton info model.gguf --json",
     DefineInfo},
    {"split", kModels, "Cut a model into parts that fit their hosts",
     "baton split model.gguf --layers 0-14,15-29 -o parts", DefineSplit},
    {"merge", kModels, "Join the parts of a split model",
     "baton merge parts/model-00001-of-00003.gguf -o model.gguf", DefineMerge},
    {"quantize", kModels, "Write a model in another weight type",
     "baton quantize model-f16.gguf model-q4.gguf Q4_K_M", DefineQuantize},
    {"tokenize", kModels, "Text to token ids", "baton tokenize -m model.gguf \"Hello there\"",
     DefineTokenize},
    {"detokenize", kModels, "Token ids to text", "baton detokenize -m model.gguf 1,2,3",
     DefineDetokenize},
    {"logits", kModels, "What the model says after each token, as a NumPy file",
     "baton logits -m model.gguf -p \"Hello there\" -o logits.npy", DefineLogits},
    {"perplexity", kModels, "How surprised the model is by a text",
     "baton perplexity -m model.gguf --text wiki.txt", DefinePerplexity},
    {"render", kModels, "A conversation through a chat template, as the model sees it",
     "echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"add_generation_prompt\": "
     "true}' |"
     " baton render -m model.gguf",
     DefineRender},
    {"bench", kModels, "How fast a model is on this machine",
     "baton bench -m model.gguf -t 1,2 --prefill 512 --decode 64", DefineBench},
    {"devices", kAboutBaton, "What this machine can compute with", "baton devices", DefineDevices},
    {"completion", kAboutBaton, "Print a shell's completion script",
     "source <(baton completion bash)", DefineCompletion},
    {"version", kAboutBaton, "Print the version", "baton version --json", DefineVersion},
};

}  // namespace

std::span<const Command> AllCommands() { return kCommands; }

}  // namespace baton::cli
