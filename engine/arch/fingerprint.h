// A model's identity: the same for a single file and for any split of it.
#pragma once

#include <string>

#include "engine/gguf/gguf_file.h"

namespace baton::engine {

// 128 bits in hexadecimal over the metadata without split.* keys and the tensor list (names, types,
// shapes), each sorted by name, since parts may order tensors anew. Not over the weights: workers
// hash what they map.
std::string ModelFingerprint(const GgufModel& model);

}  // namespace baton::engine
