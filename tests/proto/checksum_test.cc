#include "proto/checksum.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "baton/v1/worker.pb.h"
#include "proto/load_convert.h"
#include "proto/micro_batch_convert.h"
#include "proto/tensor_convert.h"
#include "tests/support/fake_stage.h"
#include "tests/support/status_matchers.h"

namespace baton::wire {
namespace {

using testing::Fails;
using testing::FakeBatch;
using testing::FakeSpec;
using testing::IsOk;

// Flips each bit of the sealed message in turn: what still is a message, and another one, is found.
template <typename Message>
void ExpectEveryFlipIsFound(Message message) {
  const google::protobuf::LogSilencer quiet;
  Seal(&message);
  const std::string sent = message.SerializeAsString();
  size_t found = 0;
  for (size_t bit = 0; bit < 8 * sent.size(); ++bit) {
    std::string came = sent;
    came[bit / 8] = static_cast<char>(came[bit / 8] ^ (1 << bit % 8));
    Message read;
    if (!read.ParseFromString(came) || read.SerializeAsString() == sent) continue;
    EXPECT_THAT(CheckSeal(&read), Fails(absl::StatusCode::kUnavailable, "changed on its way"))
        << message.GetTypeName() << " bit " << bit;
    ++found;
  }
  EXPECT_GE(found, 2 * sent.size()) << message.GetTypeName();
  Message whole;
  ASSERT_TRUE(whole.ParseFromString(sent));
  EXPECT_THAT(CheckSeal(&whole), IsOk());
}

TEST(Checksum, EveryFlippedBitIsFound) {
  v1::ForwardMessage forward;
  forward.set_fingerprint("model");
  ToProto(*FakeBatch(1, 1, 2), forward.mutable_batch());
  CutPiece({2, 32, std::vector<float>(64, 1.5f)}, WireType::kF32, 0, 4096,
           forward.mutable_hidden());
  ExpectEveryFlipIsFound(forward);

  v1::CoordinatorMessage batch;
  ToProto(*FakeBatch(2, 1, 3), batch.mutable_batch());
  ExpectEveryFlipIsFound(batch);

  StepResult result{.batch_id = 3, .epoch = 1, .results = {}};
  result.results.resize(2);
  result.results[0].token = 7;
  result.results[1].logits.assign(16, 0.25f);
  ExpectEveryFlipIsFound(ToProto(result)[0]);

  v1::ForwardCredit credit;
  credit.set_batches(1);
  ExpectEveryFlipIsFound(credit);

  v1::LoadStageRequest load;
  ToProto({.spec = FakeSpec(0, 3),
           .epoch = 1,
           .next_address = "127.0.0.1:7",
           .wire_type = WireType::kF16,
           .part_sources = {}},
          &load);
  ExpectEveryFlipIsFound(load);
}

TEST(Checksum, AMessageStaysAsItWas) {
  v1::ForwardMessage message;
  CutPiece({1, 32, std::vector<float>(32, 2.0f)}, WireType::kF32, 0, 4096,
           message.mutable_hidden());
  const v1::ForwardMessage before = message;
  Seal(&message);
  EXPECT_EQ(message.ByteSizeLong(), before.ByteSizeLong() + kSealBytes);
  EXPECT_THAT(CheckSeal(&message), IsOk());
  EXPECT_EQ(message.SerializeAsString(), before.SerializeAsString());
  EXPECT_THAT(CheckSeal(&message), Fails(absl::StatusCode::kUnavailable, ""));  // it has none now
}

}  // namespace
}  // namespace baton::wire
