#include "cli/instruction_set.h"

#include <cstdlib>
#include <string>

#include "cli/exit_code.h"
#include "engine/base/quote.h"
#include "kernels/cpu/dispatch.h"

namespace baton::cli {

absl::Status CheckInstructionSet() {
  const char* forced = std::getenv("BATON_ISA");
  if (forced == nullptr || *forced == '\0' || kernels::FindKernelSet(forced) != nullptr)
    return absl::OkStatus();
  std::string known;
  for (const kernels::Isa& isa : kernels::KnownIsas()) {
    if (isa.supported) known += (known.empty() ? "" : ", ") + std::string(isa.name);
  }
  return UsageError("BATON_ISA: got {}, expected one that this machine has: {}",
                    engine::Named(forced), known);
}

}  // namespace baton::cli
