#include "engine/arch/supported.h"

#include "engine/arch/hyperparams.h"
#include "engine/arch/tensor_table.h"

namespace baton::engine {

absl::Status CheckSupported(const GgufModel& model) {
  ASSIGN_OR_RETURN(const HyperParams hyperparams, ParseHyperParams(model));
  const std::string& where = model.parts()[0].file_name;
  const auto find = [&model](std::string_view name) { return model.FindTensor(name); };
  RETURN_IF_ERROR(FindStageTensors(hyperparams, {0, hyperparams.num_layers}, find, where).status());
  return CheckNoUnknownTensor(hyperparams, model.tensors(), where);
}

}  // namespace baton::engine
