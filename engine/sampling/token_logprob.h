#pragma once

#include "engine/base/token_id.h"

namespace baton::engine {

struct TokenLogprob {
  TokenId id = kNoToken;
  float logprob =
      0;  // natural logarithm of the model's own probability, before any sampling parameter
};

}  // namespace baton::engine
