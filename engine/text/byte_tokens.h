// What stands for text that no token covers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/token_id.h"

namespace baton::engine {

// A token for each byte, else the unknown one, else nothing. Immutable once it is filled in.
class ByteTokens {
 public:
  explicit ByteTokens(TokenId unknown) : unknown_(unknown) { tokens_.fill(kNoToken); }

  void Set(uint8_t byte, TokenId id) { tokens_[byte] = id; }
  void Append(std::string_view bytes, std::vector<TokenId>& ids) const {
    for (const char byte : bytes) {
      const TokenId own = tokens_[static_cast<uint8_t>(byte)];
      const TokenId id = own != kNoToken ? own : unknown_;
      if (id != kNoToken) ids.push_back(id);
    }
  }

 private:
  std::array<TokenId, 256> tokens_;
  TokenId unknown_;
};

}  // namespace baton::engine
