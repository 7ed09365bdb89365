// What this machine's CPU and its system offer. Feature bits only: names and models say nothing.
#pragma once

namespace baton::kernels {

bool HasAvx2();        // with FMA and F16C
bool HasAvx512Vnni();  // F, BW, DQ, VL and VNNI
bool HasNeonDotProduct();

}  // namespace baton::kernels
