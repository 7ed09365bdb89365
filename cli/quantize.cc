// baton quantize: a model in other weight types.
#include <CLI/App.hpp>
#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "engine/base/quote.h"
#include "engine/base/thread_pool.h"
#include "engine/gguf/gguf_file.h"
#include "engine/quantize/model_quantizer.h"
#include "engine/quantize/quant_recipe.h"

namespace baton::cli {
namespace {

using engine::GgufModel;
using Json = nlohmann::ordered_json;

struct QuantizeFlags {
  std::string input;
  std::string output;
  std::string type;
  bool pure = false;
  int threads = 0;
  bool json = false;
};

struct TypeTotals {
  uint64_t tensors = 0;
  uint64_t bytes = 0;
};

absl::Status Report(const QuantizeFlags& flags, uint64_t source_bytes, const GgufModel& result) {
  std::map<std::string, TypeTotals> by_type;
  uint64_t elements = 0;
  uint64_t bytes = 0;
  for (const engine::TensorInfo& tensor : result.tensors()) {
    TypeTotals& totals = by_type[kernels::TraitsOf(tensor.type).name];
    ++totals.tensors;
    totals.bytes += tensor.bytes;
    elements += static_cast<uint64_t>(tensor.num_elements());
    bytes += tensor.bytes;
  }
  const double bits =
      elements == 0 ? 0 : static_cast<double>(bytes) * 8 / static_cast<double>(elements);
  Json types = Json::object();
  std::string text =
      fmt::format("{}  {} bytes, was {} ({:.2f} bits per weight)\n", engine::Escaped(flags.output),
                  result.total_bytes(), source_bytes, bits);
  for (const auto& [name, totals] : by_type) {
    types[name] = {{"tensors", totals.tensors}, {"bytes", totals.bytes}};
    text += fmt::format("  {:<8} {:>6} tensors {:>14} bytes\n", name, totals.tensors, totals.bytes);
  }
  if (!flags.json) return Print(text);
  return PrintJson({{"file", flags.output},
                    {"bytes", result.total_bytes()},
                    {"source_bytes", source_bytes},
                    {"bits_per_weight", bits},
                    {"types", types}});
}

absl::Status RunQuantize(const QuantizeFlags& flags) {
  auto recipe = engine::FindQuantRecipe(flags.type);
  if (!recipe.ok()) return UsageError("{}", Message(recipe.status()));
  if (flags.pure) *recipe = engine::PureRecipe(*recipe);
  ASSIGN_OR_RETURN(const GgufModel model, GgufModel::Open(flags.input));
  {
    Progress bar("quantizing");
    const int threads = flags.threads > 0 ? flags.threads : engine::AvailableCpus();
    const absl::Status done =
        engine::QuantizeModel(model, *recipe, flags.output, threads,
                              [&](uint64_t bytes, uint64_t total) { bar.Update(bytes, total); });
    if (absl::IsUnknown(done)) return WithExitCode(done, kCannotWrite);
    RETURN_IF_ERROR(done);
  }
  ASSIGN_OR_RETURN(const GgufModel result, GgufModel::Open(flags.output));
  return Report(flags, model.total_bytes(), result);
}

}  // namespace

CommandBody DefineQuantize(CLI::App& app) {
  auto flags = std::make_shared<QuantizeFlags>();
  std::string names;
  for (const engine::QuantRecipe& recipe : engine::QuantRecipes()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", recipe.name);
  }
  app.add_option("in", flags->input, "GGUF file of F32, F16 or BF16 weights")->required();
  app.add_option("out", flags->output, "GGUF file to write")->required();
  app.add_option("type", flags->type, names)->required();
  app.add_flag("--pure", flags->pure, "All matrices in one type, also the output matrix");
  app.add_option("-t,--threads", flags->threads, "Default: all CPUs that the process may use")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--json", flags->json, "One JSON document");
  return [flags] { return RunQuantize(*flags); };
}

}  // namespace baton::cli
