#include "cli/vocabulary_model.h"

#include "cli/exit_code.h"
#include "cli/model_path.h"

namespace baton::cli {

absl::StatusOr<engine::GgufModel> OpenModel(const std::string& name) {
  ASSIGN_OR_RETURN(const std::string path, FindModel(name));
  auto model = engine::GgufModel::Open(path);
  if (!model.ok()) return AsBadData(model.status());
  return model;
}

absl::StatusOr<std::unique_ptr<engine::Tokenizer>> MakeTokenizer(const engine::GgufModel& model) {
  auto tokenizer = engine::Tokenizer::Create(model.metadata());
  if (!tokenizer.ok()) return AsBadData(Prefixed(tokenizer.status(), model.parts()[0].path));
  return tokenizer;
}

}  // namespace baton::cli
