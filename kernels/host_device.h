// What lets one header serve every instruction set and CUDA.
#pragma once

// Functions that device code calls too.
#ifdef __CUDACC__
#define BATON_HD __host__ __device__
#else
#define BATON_HD
#endif

// Inline functions of kernels/ live in an inline namespace that differs from one instruction set's
// files to the next: the linker keeps one copy of an inline function, and must not give AVX2 code
// to a machine without it. The build defines BATON_ISA_NAMESPACE for files with instruction set
// flags.
#ifndef BATON_ISA_NAMESPACE
#define BATON_ISA_NAMESPACE portable
#endif
