#!/usr/bin/env bash
# Holds the CUDA kernels and the engine on them to the CPU's bits on this machine's GPU, and measures them.
#
#   gpu_check.sh pack [ARCH]     anywhere with nvcc: the programs below with the libraries they need, and conformance
#                                models where BATON_TEST_DATA has them, in build/gpu_check/pack.tar.gz, for a machine
#                                that reaches no package registry. At most 56 MiB, so that it fits, beside the sources,
#                                into a copy of 64 MiB
#   gpu_check.sh [RESULT.json]   on the machine with the GPU: runs what is packed, or, without a pack, builds kernels/
#                                alone (nvcc and a C++ compiler) and checks that. Ends within 450 seconds, with a JSON
#                                whatever failed
#
# Where nvcc, cuobjdump, cuBLAS and compute-sanitizer are at hand, they have their say too. BATON_GPU_ARCH: 90, say, in
# place of what the device has. BATON_GPU_DRY=1: a rehearsal of the second command without a GPU, on the emulation.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "gpu_check.sh: error: $*" >&2; exit 1; }
note() { echo "gpu_check.sh: $*" >&2; }

build=${BATON_GPU_CHECK_BUILD:-build/gpu_check}
archive=$build/pack.tar.gz
arch=${BATON_GPU_ARCH:-}
mkdir -p "$build"

# The kernels with a check of their own, and nothing else of the project: $build/device_check.
build_device_check() {
  local source object pid objects=() pids=()
  compile() {  # NAME COMMAND…
    object=$build/$1.o
    objects+=("$object")
    "${@:2}" -c -o "$object" &
    pids+=($!)
  }
  for source in kernels/cuda/*.cu; do
    compile "$(basename "$source" .cu)" nvcc -std=c++20 -O3 -I. --fmad=false --expt-relaxed-constexpr -arch="sm_$arch" \
      -DBATON_ISA_NAMESPACE=cuda "-DBATON_CUDA_ARCHITECTURES=\"$arch\"" "$source"
    while (( $(jobs -rp | wc -l) >= $(nproc) )); do sleep 0.2; done
  done
  compile scalar g++ -std=c++20 -O3 -I. -ffp-contract=off -DBATON_ISA_NAMESPACE=scalar kernels/cpu/scalar/kernels.cc
  compile device_check_main g++ -std=c++20 -O3 -I. -ffp-contract=off tests/kernels/cuda/device_check.cc
  for pid in "${pids[@]}"; do wait "$pid" || fail "a file did not compile, see above"; done
  nvcc -arch="sm_$arch" -cudart static -o "$build/device_check" "${objects[@]}"
}

# ---- pack ---------------------------------------------------------------------------------------------------------

pack_programs() {
  local program library bytes folder=$build/packing most=$((56 << 20))
  cmake -S . -B "$build/tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBATON_CUDA=ON -DBATON_FUZZ=OFF \
    -DCMAKE_CUDA_ARCHITECTURES="$arch" >&2
  cmake --build "$build/tree" --target baton runtime_test cuda_device_check >&2
  build_device_check
  rm -rf "$folder" && mkdir -p "$folder/bin" "$folder/lib"
  for program in "$build/tree/baton" "$build/tree/tests/engine/runtime/runtime_test" "$build/device_check" \
    "$build/tree/tests/kernels/cuda/cuda_device_check"; do
    strip -o "$folder/bin/$(basename "$program")" "$program"
    # With the C library and its loader, so that the other machine's may be older; the driver is found there.
    ldd "$program" | grep -o '/[^ ]*' | while read -r library; do cp -Lu "$library" "$folder/lib/"; done
  done
  mkdir -p "$folder/conformance/models" "$folder/conformance/quants"
  if [[ -n ${BATON_TEST_DATA:-} ]]; then  # weight types have a test that brings its own
    cp "$BATON_TEST_DATA"/conformance/models/*.{gguf,json,exact.f32} "$folder/conformance/models/"
  fi
  tar -C "$folder" -czf "$archive" .
  bytes=$(stat -c %s "$archive")
  note "packed $((bytes >> 20)) MiB for compute capability $arch in $archive"
  (( bytes <= most )) || fail "$archive: $bytes bytes, at most $most"
}

if [[ ${1:-} == pack ]]; then
  arch=${2:-${arch:-90}}
  command -v nvcc > /dev/null || fail "no nvcc on PATH (scripts/setup_cuda.sh installs one)"
  pack_programs
  exit
fi

# ---- run ----------------------------------------------------------------------------------------------------------

budget=450  # seconds for all
result=${1:-gpu_check.json}
pack=$build/pack
failed=()
dry=${BATON_GPU_DRY:-}

[[ -n $arch || -n $dry ]] || arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null | head -1 | tr -d .) || true
[[ -n $arch || -n $dry ]] || fail "no GPU found: BATON_GPU_DRY=1 rehearses without one"

step() {  # NAME SECONDS COMMAND…: goes on after a failure, and remembers it
  local name=$1 seconds=$2 started=$SECONDS
  (( seconds <= budget - SECONDS )) || seconds=$((budget - SECONDS))
  if (( seconds > 0 )) && timeout -k 2 "$seconds" bash -euo pipefail -c "$3"; then
    note "$name: good, $((SECONDS - started)) s"
  else
    note "$name: FAILED after $((SECONDS - started)) s"
    failed+=("$name")
  fi
}
packed() {  # PROGRAM ARGUMENTS…
  "$pack"/lib/ld-linux-*.so.* --library-path "$pack/lib:${LD_LIBRARY_PATH:-}" "$pack/bin/$1" "${@:2}"
}
kernels() {  # ARGUMENTS…
  if [[ -n $dry ]]; then packed cuda_device_check quick; return; fi
  if [[ -d $pack ]]; then packed device_check "$@"; else "$build/device_check" "$@"; fi
}
cublas() {
  nvcc -std=c++20 -O3 -arch="sm_$arch" tests/kernels/cuda/cublas_speed.cu -lcublas -o "$build/cublas_speed"
  "$build/cublas_speed" > "$build/cublas.json"
}
sanitized() {
  compute-sanitizer --error-exitcode 9 --target-processes all "$pack"/lib/ld-linux-*.so.* \
    --library-path "$pack/lib:${LD_LIBRARY_PATH:-}" "$pack/bin/device_check" quick > /dev/null
}
# Every architecture, weight type and conformance model, prompts in chunks of several sizes: the CPU's bits.
engine_tests() {
  local on=device
  [[ -z $dry ]] || on=emulation
  BATON_TEST_CUDA=$on BATON_TEST_DATA=$PWD/$pack packed runtime_test --gtest_filter='*OnCuda*' --gtest_brief=1
}
benchmark() {
  local device=cuda
  [[ -z $dry ]] || device=cpu
  [[ -f $build/f16.gguf ]] || python3 scripts/make_bench_model.py "$build/f16.gguf"
  [[ -f $build/bench.gguf ]] || packed baton quantize "$build/f16.gguf" "$build/bench.gguf" Q4_K_M
  packed baton bench -m "$build/bench.gguf" --device $device --json > "$build/bench.json"
}
export -f fail build_device_check packed kernels cublas sanitized engine_tests benchmark
export build pack arch dry

rm -rf "$pack" "$build"/*.json
if [[ -f $archive ]]; then
  mkdir -p "$pack"
  tar -C "$pack" -xzf "$archive"
else
  note "without $archive (gpu_check.sh pack) only kernels are checked"
  command -v nvcc > /dev/null || fail "no nvcc on PATH either"
  step "build" 180 build_device_check
fi
step "kernels" 90 'kernels > "$build/kernels.json"'
if [[ -d $pack ]]; then
  step "engine" 120 engine_tests
  if python3 -c 'import numpy' 2> /dev/null; then step "benchmark" 150 benchmark; fi
  if command -v compute-sanitizer > /dev/null && [[ -z $dry ]]; then step "compute-sanitizer" 60 sanitized; fi
fi
if command -v nvcc > /dev/null && [[ -z $dry ]]; then
  if command -v cuobjdump > /dev/null; then
    step "machine code" 100 "python3 scripts/check_cuda_code.py --sass $arch"
  fi
  if echo '#include <cublas_v2.h>' | nvcc -x cu -E - &> /dev/null; then step "cuBLAS" 60 cublas; fi
fi

# Shares of what the data sheets say: GB/s of memory, dense int8 operations in tera per second.
python3 - "$build" "$result" "$SECONDS" "${failed[@]}" << 'PYTHON'
import json, pathlib, sys
PEAKS = {"H200": (4800, 1979), "H100 80GB HBM3": (3350, 1979), "A100-SXM4-80GB": (2039, 624), "L40S": (864, 733),
         "GeForce RTX 4090": (1008, 661)}
build, result, seconds, failed = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
parts = {}
for part in ("kernels", "cublas", "bench"):
    try:
        parts[part] = json.loads((build / f"{part}.json").read_text())
    except (OSError, ValueError):  # not run, or not to its end: `failed` says so
        pass
peak = next((v for k, v in PEAKS.items() if k in parts.get("kernels", {}).get("device", "")), None)
for row in parts.get("kernels", {}).get("speed", ()) if peak else ():
    row["share_of_memory"] = round(row["weight_gb_per_s"] / peak[0], 3)
    row["share_of_int8_peak"] = round(row["tera_ops_per_s"] / peak[1], 3)
pathlib.Path(result).write_text(json.dumps({"failed": failed, "seconds": seconds, **parts}, indent=1) + "\n")
PYTHON
cat "$result"
(( ${#failed[@]} == 0 )) || fail "failed: ${failed[*]}"
