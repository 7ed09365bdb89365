// Where tests find shared test data: the folder named by BATON_TEST_DATA. Users don't have it; tests that need it skip.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace baton::testing {

// The folder, or "" where there is none.
inline std::string TestDataDir() {
  const char* dir = std::getenv("BATON_TEST_DATA");
  return dir != nullptr ? dir : "";
}

}  // namespace baton::testing

#define SKIP_WITHOUT_TEST_DATA()                                      \
  if (::baton::testing::TestDataDir().empty())                        \
  GTEST_SKIP() << "BATON_TEST_DATA is not set: no shared test data"
