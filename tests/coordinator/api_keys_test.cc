#include "coordinator/api_keys.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace baton::coordinator {
namespace {

using ::baton::testing::Fails;
using ::baton::testing::IsOk;
using wire::Role;

TEST(ApiKeysTest, AKeyAllowsWhatItsRoleAllows) {
  const auto ann = MakeApiKey("ann", Role::kGenerate), root = MakeApiKey("root", Role::kAdmin);
  ASSERT_THAT(ann, IsOk());
  ASSERT_THAT(root, IsOk());
  EXPECT_NE(ann->key, root->key);
  const testing::TempDir dir;
  std::ofstream(dir.File("keys")) << "# who may call\n\n" << ann->line << root->line;
  const auto keys = ApiKeys::Open(dir.File("keys"));
  ASSERT_THAT(keys, IsOk());
  const auto check = [&](const std::string& header, std::initializer_list<Role> roles) {
    return (*keys)->Check(header, roles);
  };
  for (const char* scheme : {"Bearer ", "bearer ", "BEARER "}) {
    EXPECT_THAT(check(scheme + ann->key, {Role::kGenerate, Role::kAdmin}), IsOk()) << scheme;
  }
  EXPECT_THAT(check("Bearer " + root->key, {Role::kGenerate, Role::kAdmin}), IsOk());
  EXPECT_THAT(check("Bearer " + ann->key, {Role::kAdmin}),
              Fails(absl::StatusCode::kPermissionDenied, "role generate"));
  for (const std::string& header :
       {std::string(), std::string("Bearer "), std::string("Bearer"), "Basic " + ann->key, ann->key,
        "Bearer " + ann->key + "x", "Bearer " + ann->key.substr(0, 20), "Bearer  " + ann->key,
        std::string("Bearer \0", 8)}) {
    EXPECT_EQ(check(header, {Role::kGenerate}).code(), absl::StatusCode::kUnauthenticated)
        << header;
  }
}

TEST(ApiKeysTest, LinesThatAreNone) {
  const std::string hash(64, 'a');
  EXPECT_THAT(ParseApiKeys("a generate " + hash + "\r\n#x\n  \nb worker " + hash, "f"), IsOk());
  for (const std::string& line :
       {std::string("a"), std::string("a generate"), "a generate " + hash + "a",
        "a generate " + hash.substr(1), "a boss " + hash, "a generate " + std::string(64, 'G'),
        "a generate " + hash + " more"}) {
    const auto parsed = ParseApiKeys("# one\n" + line, "f");
    EXPECT_THAT(parsed, Fails(absl::StatusCode::kInvalidArgument, "f:2")) << line;
    EXPECT_EQ(Message(parsed.status()).find("aaaa"), std::string::npos) << "it shows the line";
  }
  EXPECT_THAT(MakeApiKey("two words", Role::kAdmin), Fails(absl::StatusCode::kInvalidArgument, ""));
  EXPECT_THAT(ApiKeys::Open("/no/such/file"), Fails(absl::StatusCode::kNotFound, "/no/such"));
}

}  // namespace
}  // namespace baton::coordinator
