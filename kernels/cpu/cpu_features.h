// What this machine's CPU and its system offer. Feature bits only: names and models say nothing.
#pragma once

namespace baton::kernels {

bool HasAvx2();        // with FMA and F16C
bool HasAvxVnni();     // with AVX2
bool HasAvx512Vnni();  // F, BW, DQ, VL and VNNI
// AMX-TILE and AMX-INT8 with AVX-512. Linux gives tiles to processes that ask for them; the first
// call asks, for all threads.
bool HasAmxInt8();
bool HasNeonDotProduct();

}  // namespace baton::kernels
