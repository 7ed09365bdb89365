// EXPECT_THAT(status, IsOk()) and EXPECT_THAT(status, Fails(code, "part of the message")).
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "engine/base/status.h"

namespace baton::testing {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}
MATCHER_P2(Fails, code, part,
           std::string("fails with ") + absl::StatusCodeToString(code) + " about " + part) {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code &&
         Message(StatusOf(arg)).find(part) != std::string_view::npos;
}

}  // namespace baton::testing
