#include "proto/tensor_convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "proto/channel_options.h"
#include "tests/support/status_matchers.h"

namespace baton::wire {
namespace {

using ::baton::testing::Fails;
using ::baton::testing::IsOk;

constexpr WireType kTypes[] = {WireType::kF32, WireType::kF16, WireType::kBF16, WireType::kQ8_0};

engine::HiddenStates RandomStates(int32_t rows, int32_t cols, float scale = 1.0f) {
  std::mt19937 random(rows * 1000 + cols);
  std::normal_distribution<float> normal(0.0f, scale);
  engine::HiddenStates hidden{rows, cols, std::vector<float>(static_cast<size_t>(rows) * cols)};
  for (float& value : hidden.values) value = normal(random);
  return hidden;
}

std::vector<v1::HiddenStates> Cut(const engine::HiddenStates& hidden, WireType type,
                                  size_t max_bytes) {
  std::vector<v1::HiddenStates> pieces;
  for (uint64_t offset = 0; offset < WireBytes(type, hidden.rows, hidden.cols);) {
    CutPiece(hidden, type, offset, max_bytes, &pieces.emplace_back());
    offset += pieces.back().data().size();
  }
  return pieces;
}

absl::StatusOr<engine::HiddenStates> Assemble(const std::vector<v1::HiddenStates>& pieces,
                                              int32_t rows, int32_t cols) {
  HiddenStatesAssembler assembler(rows, cols);
  for (const v1::HiddenStates& piece : pieces) RETURN_IF_ERROR(assembler.Add(piece));
  if (!assembler.complete()) return DataLoss("pieces are missing");
  return assembler.Take();
}

TEST(HiddenStates, TravelInPiecesOfAnySize) {
  const engine::HiddenStates hidden = RandomStates(5, 96);
  for (const WireType type : kTypes) {
    const auto whole = Assemble(Cut(hidden, type, kMaxChunkBytes), 5, 96);
    ASSERT_THAT(whole, IsOk());
    for (const size_t max_bytes : {1, 4, 33, 34, 100, 499}) {
      const auto pieces = Cut(hidden, type, max_bytes);
      EXPECT_GT(pieces.size(), 1u);
      const auto assembled = Assemble(pieces, 5, 96);
      ASSERT_THAT(assembled, IsOk()) << WireTypeName(type) << " in pieces of " << max_bytes;
      EXPECT_EQ(assembled->values, whole->values);
    }
  }
}

TEST(HiddenStates, F32IsExact) {
  engine::HiddenStates hidden = RandomStates(3, 64);
  hidden.values[0] = -0.0f;
  hidden.values[1] = std::numeric_limits<float>::denorm_min();
  hidden.values[2] = std::numeric_limits<float>::max();
  const auto assembled = Assemble(Cut(hidden, WireType::kF32, 1000), 3, 64);
  ASSERT_THAT(assembled, IsOk());
  for (size_t i = 0; i < hidden.values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(assembled->values[i]),
              std::bit_cast<uint32_t>(hidden.values[i]))
        << i;
  }
}

TEST(HiddenStates, OthersRoundWithinTheirPrecision) {
  // Largest error relative to the value (halves) or to the largest of its block (Q8_0, whose scale
  // is an F16).
  struct Case {
    WireType type;
    double error;
  };
  for (const Case& c : {Case{WireType::kF16, 0x1p-11}, Case{WireType::kBF16, 0x1p-8},
                        Case{WireType::kQ8_0, 0.5 / 127 + 0x1p-10}}) {
    const engine::HiddenStates hidden = RandomStates(64, 64, 3.0f);
    const auto assembled = Assemble(Cut(hidden, c.type, kMaxChunkBytes), 64, 64);
    ASSERT_THAT(assembled, IsOk());
    double most = 0;
    for (size_t block = 0; block < hidden.values.size(); block += 32) {
      double largest = 0;
      for (size_t i = block; i < block + 32; ++i)
        largest = std::max(largest, std::fabs(double{hidden.values[i]}));
      for (size_t i = block; i < block + 32; ++i) {
        const double reference =
            c.type == WireType::kQ8_0 ? largest : std::fabs(double{hidden.values[i]});
        most =
            std::max(most, std::fabs(double{assembled->values[i]} - hidden.values[i]) / reference);
      }
    }
    EXPECT_LE(most, c.error) << WireTypeName(c.type);
    EXPECT_GT(most, 0) << WireTypeName(c.type);
  }
}

TEST(HiddenStates, HalvesRoundToNearestEvenAndStayFinite) {
  struct Case {
    WireType type;
    float value;
    float expected;
  };
  const Case cases[] = {
      {WireType::kF16, 1.0f + 0x1p-11f, 1.0f},  // a tie goes to even
      {WireType::kF16, 1.0f + 3 * 0x1p-11f, 1.0f + 0x1p-9f},
      {WireType::kF16, 0x1p-24f, 0x1p-24f},  // the smallest subnormal
      {WireType::kF16, 0x1p-25f, 0.0f},      // half of it: a tie
      {WireType::kF16, 0x1.8p-25f, 0x1p-24f},
      {WireType::kF16, -0x1.ff8p-15f, -0x1.ff8p-15f},  // subnormals
      {WireType::kF16, 0x1.fffp-15f, 0x1p-14f},        // rounds up into the normal ones
      {WireType::kF16, 1e30f, 65504.0f},
      {WireType::kF16, -70000.0f, -65504.0f},
      {WireType::kBF16, 1.0f + 0x1p-8f, 1.0f},
      {WireType::kBF16, 1.0f + 3 * 0x1p-8f, 1.0f + 0x1p-6f},
      {WireType::kBF16, std::numeric_limits<float>::max(), 0x1.fep127f},
      {WireType::kBF16, 0x1p-149f, 0.0f},
  };
  for (const Case& c : cases) {
    engine::HiddenStates hidden{1, 1, {c.value}};
    const auto assembled = Assemble(Cut(hidden, c.type, 100), 1, 1);
    ASSERT_THAT(assembled, IsOk());
    EXPECT_EQ(assembled->values[0], c.expected) << WireTypeName(c.type) << " of " << c.value;
  }
}

TEST(HiddenStates, AFalsePieceIsRefused) {
  const engine::HiddenStates hidden = RandomStates(4, 32);
  struct Case {
    const char* complaint;
    std::function<void(v1::HiddenStates&)> spoil;
  };
  const float not_a_number = std::numeric_limits<float>::quiet_NaN();
  const float infinity = -std::numeric_limits<float>::infinity();
  const Case cases[] = {
      {"shape [5, 32]", [](auto& p) { p.set_rows(5); }},
      {"shape [-1, 32]", [](auto& p) { p.set_rows(-1); }},
      {"shape [4, 2147483647]", [](auto& p) { p.set_cols(std::numeric_limits<int32_t>::max()); }},
      {"wire type: got 9", [](auto& p) { p.set_type(static_cast<v1::WireType>(9)); }},
      {"wire type: got -1", [](auto& p) { p.set_type(static_cast<v1::WireType>(-1)); }},
      {"piece at byte 4", [](auto& p) { p.set_offset(4); }},
      {"piece at byte 18446744073709551615",
       [](auto& p) { p.set_offset(std::numeric_limits<uint64_t>::max()); }},
      {"piece of 0 bytes", [](auto& p) { p.clear_data(); }},
      {"piece of 511 bytes", [](auto& p) { p.mutable_data()->pop_back(); }},
      {"piece of 516 bytes", [](auto& p) { p.mutable_data()->append(4, '\0'); }},
      {"piece of 512 bytes, expected a multiple of 2 up to 256",
       [](auto& p) { p.set_type(v1::WIRE_TYPE_F16); }},
      {"not finite",
       [&](auto& p) {
         p.mutable_data()->replace(100, 4, reinterpret_cast<const char*>(&not_a_number), 4);
       }},
      {"not finite",
       [&](auto& p) {
         p.mutable_data()->replace(508, 4, reinterpret_cast<const char*>(&infinity), 4);
       }},
  };
  for (const Case& c : cases) {
    v1::HiddenStates piece;
    CutPiece(hidden, WireType::kF32, 0, kMaxChunkBytes, &piece);
    c.spoil(piece);
    EXPECT_THAT(Assemble({piece}, 4, 32), Fails(absl::StatusCode::kInvalidArgument, c.complaint));
  }
}

TEST(HiddenStates, PiecesComeOnceAndInOrder) {
  const engine::HiddenStates hidden = RandomStates(4, 32);
  const auto pieces = Cut(hidden, WireType::kF32, 256);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_THAT(Assemble({pieces[1], pieces[0]}, 4, 32),
              Fails(absl::StatusCode::kInvalidArgument, "piece at byte 256"));
  EXPECT_THAT(Assemble({pieces[0], pieces[0]}, 4, 32),
              Fails(absl::StatusCode::kInvalidArgument, "piece at byte 0"));
  EXPECT_THAT(Assemble({pieces[0], pieces[1], pieces[1]}, 4, 32),
              Fails(absl::StatusCode::kInvalidArgument, "piece at byte 256"));
  EXPECT_THAT(Assemble({pieces[0]}, 4, 32), Fails(absl::StatusCode::kDataLoss, "missing"));
}

TEST(WireType, HasNames) {
  for (const WireType type : kTypes) {
    const auto parsed = ParseWireType(WireTypeName(type));
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(*parsed, type);
    EXPECT_EQ(*FromProto(ToProto(type)), type);
  }
  EXPECT_THAT(ParseWireType("f64"), Fails(absl::StatusCode::kInvalidArgument, "expected f32"));
  EXPECT_THAT(CheckWireType(WireType::kQ8_0, 48),
              Fails(absl::StatusCode::kInvalidArgument, "not a multiple of 32"));
  EXPECT_THAT(CheckWireType(WireType::kF16, 48), IsOk());
}

}  // namespace
}  // namespace baton::wire
