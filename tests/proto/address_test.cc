#include "proto/address.h"

#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace baton::wire {
namespace {

using ::baton::testing::Fails;

TEST(ParseAddress, TakesHostAndPort) {
  struct Case {
    const char* text;
    Address expected;
    bool loopback;
  };
  const Case cases[] = {
      {"127.0.0.1:7071", {"127.0.0.1", 7071}, true},
      {"127.8.9.10:1", {"127.8.9.10", 1}, true},
      {"localhost:0", {"localhost", 0}, true},
      {"[::1]:65535", {"::1", 65535}, true},
      {"[fe80::1%lo]:80", {"fe80::1%lo", 80}, false},
      {"0.0.0.0:7071", {"0.0.0.0", 7071}, false},
      {"[::]:7071", {"::", 7071}, false},
      {"worker-1.example.com:7071", {"worker-1.example.com", 7071}, false},
      {"127.0.0.1.example.com:1", {"127.0.0.1.example.com", 1}, false},
  };
  for (const Case& c : cases) {
    const auto address = ParseAddress(c.text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(*address, c.expected) << c.text;
    EXPECT_EQ(address->ToString(), c.text);
    EXPECT_EQ(address->IsLoopback(), c.loopback) << c.text;
  }
}

TEST(ParseAddress, SaysWhatIsWrong) {
  struct Case {
    const char* text;
    const char* complaint;
  };
  const Case cases[] = {
      {"", "no port"},
      {"localhost", "no port"},
      {"host:", "port: got \"\""},
      {"host:99999", "port: got \"99999\", expected a number from 0 to 65535"},
      {"host:-1", "port: got \"-1\""},
      {"host:80x", "port: got \"80x\""},
      {"host: 80", "port: got \" 80\""},
      {":80", "host: got \"\""},
      {"a b:80", "host: got \"a b\""},
      {"::1", "brackets"},
      {"::1:7071", "brackets"},
      {"[::1]", "[IPV6]:PORT"},
      {"[::1", "[IPV6]:PORT"},
      {"[]:80", "host: got \"\""},
      {"[localhost]:80", "host: got \"localhost\""},
      {"[::1]:", "port: got \"\""},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(ParseAddress(c.text), Fails(absl::StatusCode::kInvalidArgument, c.complaint))
        << c.text;
  }
}

}  // namespace
}  // namespace baton::wire
