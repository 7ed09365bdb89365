// Writes a tiny model for the tests that drive the whole program:
//   make_tiny_model PATH [--arch llama] [--layers 5] [--context 256] [--type Q4_0] [--seed 1]
//   [--bos true|false]
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "tests/support/tiny_model.h"

namespace baton::testing {
namespace {

// kF16 for a name that no type has.
kernels::QuantType TypeNamed(const std::string& name) {
  for (uint32_t id = 0; id < kernels::kNumQuantTypes; ++id) {
    if (kernels::IsDefinedQuantType(id) && name == kernels::kQuantTraits[id].name)
      return kernels::QuantType{id};
  }
  return kernels::QuantType::kF16;
}

int Main(int argc, char** argv) {
  CLI::App app("Writes a tiny model");
  std::string path, arch = "llama", type = "F16", chat_template;
  TinyModelOptions options;
  bool bos = true;
  app.add_option("PATH", path)->required();
  app.add_option("--arch", arch);
  app.add_option("--layers", options.num_layers);
  app.add_option("--hidden", options.hidden_size);
  app.add_option("--context", options.context_length);
  app.add_option("--type", type);
  app.add_option("--seed", options.seed);
  app.add_option("--bos", bos);
  app.add_option("--chat-template", chat_template);
  CLI11_PARSE(app, argc, argv);
  options.architecture = arch;
  options.type = TypeNamed(type);
  options.edit = [&](engine::GgufWriter& writer) {
    writer.SetBool("tokenizer.ggml.add_bos_token", bos);
    if (!chat_template.empty()) writer.SetString("tokenizer.chat_template", chat_template);
  };
  const absl::Status status = WriteTinyModel(options, path);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(Message(status)).c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace baton::testing

int main(int argc, char** argv) { return baton::testing::Main(argc, argv); }
