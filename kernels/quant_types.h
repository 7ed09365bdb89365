// The weight types of GGUF files: one row each. Everything that must know a type's size looks here.
#pragma once

#include <cstdint>

namespace baton::kernels {

// Ids as GGUF stores them.
enum class QuantType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
};
inline constexpr int kNumQuantTypes = 40;  // ids are below this

// How a matmul with this weight type rounds its activations first (ARITHMETIC.md).
enum class ActivationFormat : uint8_t {
  kNone,      // no matmul in this type
  kFloat,     // float32 as they are
  kInt8By32,  // int8 with a float scale for each 32 values
  kInt8By256  // int8 with a float scale for each 256 values
};

struct QuantTraits {
  const char* name;  // as GGUF tools print it; nullptr: no such type
  int block_size;    // values a block
  int block_bytes;
  ActivationFormat activation;  // kNone: container only, no kernel
};

// Row of a GGUF type id; name is nullptr for ids that are undefined or removed.
inline constexpr QuantTraits kNoQuantType = {nullptr, 0, 0, ActivationFormat::kNone};
inline constexpr QuantTraits kQuantTraits[kNumQuantTypes] = {
    /* 0*/ {"F32", 1, 4, ActivationFormat::kFloat},
    /* 1*/ {"F16", 1, 2, ActivationFormat::kFloat},
    /* 2*/ {"Q4_0", 32, 18, ActivationFormat::kInt8By32},
    /* 3*/ {"Q4_1", 32, 20, ActivationFormat::kInt8By32},
    /* 4*/ kNoQuantType,
    /* 5*/ kNoQuantType,
    /* 6*/ {"Q5_0", 32, 22, ActivationFormat::kInt8By32},
    /* 7*/ {"Q5_1", 32, 24, ActivationFormat::kInt8By32},
    /* 8*/ {"Q8_0", 32, 34, ActivationFormat::kInt8By32},
    /* 9*/ {"Q8_1", 32, 36, ActivationFormat::kNone},
    /*10*/ {"Q2_K", 256, 84, ActivationFormat::kInt8By256},
    /*11*/ {"Q3_K", 256, 110, ActivationFormat::kInt8By256},
    /*12*/ {"Q4_K", 256, 144, ActivationFormat::kInt8By256},
    /*13*/ {"Q5_K", 256, 176, ActivationFormat::kInt8By256},
    /*14*/ {"Q6_K", 256, 210, ActivationFormat::kInt8By256},
    /*15*/ {"Q8_K", 256, 292, ActivationFormat::kNone},
    /*16*/ {"IQ2_XXS", 256, 66, ActivationFormat::kInt8By256},
    /*17*/ {"IQ2_XS", 256, 74, ActivationFormat::kInt8By256},
    /*18*/ {"IQ3_XXS", 256, 98, ActivationFormat::kInt8By256},
    /*19*/ {"IQ1_S", 256, 50, ActivationFormat::kInt8By256},
    /*20*/ {"IQ4_NL", 32, 18, ActivationFormat::kInt8By32},
    /*21*/ {"IQ3_S", 256, 110, ActivationFormat::kInt8By256},
    /*22*/ {"IQ2_S", 256, 82, ActivationFormat::kInt8By256},
    /*23*/ {"IQ4_XS", 256, 136, ActivationFormat::kInt8By256},
    /*24*/ {"I8", 1, 1, ActivationFormat::kNone},
    /*25*/ {"I16", 1, 2, ActivationFormat::kNone},
    /*26*/ {"I32", 1, 4, ActivationFormat::kNone},
    /*27*/ {"I64", 1, 8, ActivationFormat::kNone},
    /*28*/ {"F64", 1, 8, ActivationFormat::kNone},
    /*29*/ {"IQ1_M", 256, 56, ActivationFormat::kInt8By256},
    /*30*/ {"BF16", 1, 2, ActivationFormat::kFloat},
    /*31*/ kNoQuantType,
    /*32*/ kNoQuantType,
    /*33*/ kNoQuantType,
    /*34*/ {"TQ1_0", 256, 54, ActivationFormat::kInt8By256},
    /*35*/ {"TQ2_0", 256, 66, ActivationFormat::kInt8By256},
    /*36*/ kNoQuantType,
    /*37*/ kNoQuantType,
    /*38*/ kNoQuantType,
    /*39*/ {"MXFP4", 32, 17, ActivationFormat::kInt8By32},
};

constexpr const QuantTraits& TraitsOf(QuantType type) {
  return kQuantTraits[static_cast<uint32_t>(type)];
}
// Whether an id read from a file names a type whose layout we know.
constexpr bool IsDefinedQuantType(uint32_t id) {
  return id < kNumQuantTypes && kQuantTraits[id].name != nullptr;
}
// Bytes of a row of `values` values, a multiple of the type's block size.
constexpr int64_t RowBytes(QuantType type, int64_t values) {
  return values / TraitsOf(type).block_size * TraitsOf(type).block_bytes;
}

}  // namespace baton::kernels
