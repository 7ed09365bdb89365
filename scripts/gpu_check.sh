#!/usr/bin/env bash
# Holds the CUDA kernels and the engine on them to the CPU's bits on this machine's GPU, and measures them.
#
#   gpu_check.sh pack [ARCH]     anywhere with nvcc: the engine's tests as programs that need nothing installed, in
#                                build/gpu_check/pack, for a machine that reaches no package registry
#   gpu_check.sh [RESULT.json]   on the machine with the GPU: builds kernels/ alone (nvcc and a C++ compiler), takes the
#                                packed programs along where they are; under 8 minutes
#
# Where compute-sanitizer and cuobjdump are at hand, they have their say too. BATON_GPU_ARCH: 90, say, in place of what
# the device has.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "gpu_check.sh: error: $*" >&2; exit 1; }
note() { echo "gpu_check.sh: $*" >&2; }

build=${BATON_GPU_CHECK_BUILD:-build/gpu_check}
pack=$build/pack
command -v nvcc > /dev/null || fail "no nvcc on PATH (scripts/setup_cuda.sh installs one)"

# ---- pack ---------------------------------------------------------------------------------------------------------

pack_programs() {
  local arch=$1 program library
  cmake -S . -B "$build/tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBATON_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES="$arch" >&2
  cmake --build "$build/tree" --target baton runtime_test >&2
  rm -rf "$pack" && mkdir -p "$pack/bin" "$pack/lib"
  for program in "$build/tree/baton" "$build/tree/tests/engine/runtime/runtime_test"; do
    strip -o "$pack/bin/$(basename "$program")" "$program"
    # With the C library and its loader, so that the other machine's may be older; the driver is found there.
    ldd "$program" | grep -o '/[^ ]*' | while read -r library; do cp -Lu "$library" "$pack/lib/"; done
  done
  if [[ -n ${BATON_TEST_DATA:-} ]]; then cp -r "$BATON_TEST_DATA/conformance" "$pack/"; fi
  note "packed $(du -sh "$pack" | cut -f1) for compute capability $arch in $pack"
}

if [[ ${1:-} == pack ]]; then
  pack_programs "${2:-${BATON_GPU_ARCH:-90}}"
  exit
fi

# ---- run ----------------------------------------------------------------------------------------------------------

result=${1:-gpu_check.json}
arch=${BATON_GPU_ARCH:-}
[[ -n $arch ]] || arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | head -1 | tr -d .) || true
[[ -n $arch ]] || fail "no GPU found: set BATON_GPU_ARCH (90) to build all the same"
mkdir -p "$build"
objects=() pids=() failed=()

compile() {  # NAME COMMAND…
  local object=$build/$1.o
  objects+=("$object")
  "${@:2}" -c -o "$object" &
  pids+=($!)
}
build_device_check() {
  local source pid
  for source in kernels/cuda/*.cu; do
    compile "$(basename "$source" .cu)" nvcc -std=c++20 -O3 -I. --fmad=false --expt-relaxed-constexpr -arch="sm_$arch" \
      -DBATON_ISA_NAMESPACE=cuda "-DBATON_CUDA_ARCHITECTURES=\"$arch\"" "$source"
  done
  compile scalar g++ -std=c++20 -O3 -I. -ffp-contract=off -DBATON_ISA_NAMESPACE=scalar kernels/cpu/scalar/kernels.cc
  compile device_check g++ -std=c++20 -O3 -I. -ffp-contract=off tests/kernels/cuda/device_check.cc
  for pid in "${pids[@]}"; do wait "$pid" || fail "a file did not compile, see above"; done
  nvcc -arch="sm_$arch" -cudart static -o "$build/device_check" "${objects[@]}"
}
step() {  # NAME SECONDS COMMAND…: goes on after a failure, and remembers it
  local name=$1 seconds=$2 started=$SECONDS
  if timeout "$seconds" "${@:3}"; then
    note "$name: good, $((SECONDS - started)) s"
  else
    note "$name: FAILED"
    failed+=("$name")
  fi
}
packed() {  # PROGRAM ARGUMENTS…
  "$pack"/lib/ld-linux-*.so.* --library-path "$pack/lib" "$pack/bin/$1" "${@:2}"
}
cublas() {
  nvcc -std=c++20 -O3 -arch="sm_$arch" tests/kernels/cuda/cublas_speed.cu -lcublas -o "$build/cublas_speed"
  "$build/cublas_speed" > "$build/cublas.json"
}
sanitized() { compute-sanitizer --error-exitcode 9 "$build/device_check" quick > /dev/null; }
# Every architecture, weight type and conformance model, prompts in chunks of several sizes: the CPU's bits.
engine_tests() {
  BATON_TEST_CUDA=device BATON_TEST_DATA=$PWD/$pack packed runtime_test --gtest_filter='*OnCuda*' --gtest_brief=1
}
benchmark() {
  [[ -f $build/bench.gguf ]] || python3 scripts/make_bench_model.py "$build/f16.gguf"
  [[ -f $build/bench.gguf ]] || packed baton quantize "$build/f16.gguf" "$build/bench.gguf" Q4_K_M
  packed baton bench -m "$build/bench.gguf" --device cuda --json > "$build/bench.json"
}
export -f packed cublas sanitized engine_tests benchmark
export build pack arch

build_device_check
rm -f "$build"/*.json
if command -v cuobjdump > /dev/null; then step "machine code" 60 python3 scripts/check_cuda_code.py --sass "$arch"; fi
step "kernels" 90 bash -c '"$build/device_check" > "$build/kernels.json"'
if echo '#include <cublas_v2.h>' | nvcc -x cu -E - &> /dev/null; then step "cuBLAS" 60 bash -c cublas; fi
if command -v compute-sanitizer > /dev/null; then step "compute-sanitizer" 90 bash -c sanitized; fi
if [[ -d $pack ]]; then
  step "engine" 120 bash -c engine_tests
  if python3 -c 'import numpy' 2> /dev/null; then step "benchmark" 80 bash -c benchmark; fi
else
  note "without $pack (gpu_check.sh pack) the engine is not run"
fi

# Shares of what the data sheets say: GB/s of memory, dense int8 operations in tera per second.
python3 - "$build" "$result" "${failed[@]}" << 'PYTHON'
import json, pathlib, sys
PEAKS = {"H200": (4800, 1979), "H100 80GB HBM3": (3350, 1979), "A100-SXM4-80GB": (2039, 624), "L40S": (864, 733),
         "GeForce RTX 4090": (1008, 661)}
build, result, failed = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
parts = {p.stem: json.loads(p.read_text()) for p in map(build.joinpath, ("kernels.json", "cublas.json", "bench.json"))
         if p.exists() and p.stat().st_size}
peak = next((v for k, v in PEAKS.items() if k in parts.get("kernels", {}).get("device", "")), None)
for row in parts.get("kernels", {}).get("speed", ()) if peak else ():
    row["share_of_memory"] = round(row["weight_gb_per_s"] / peak[0], 3)
    row["share_of_int8_peak"] = round(row["tera_ops_per_s"] / peak[1], 3)
pathlib.Path(result).write_text(json.dumps({"failed": failed, **parts}, indent=1) + "\n")
PYTHON
cat "$result"
(( ${#failed[@]} == 0 )) || fail "failed: ${failed[*]}"
