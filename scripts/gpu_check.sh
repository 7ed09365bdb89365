#!/usr/bin/env bash
# gpu_check.sh [RESULT.json]: holds the CUDA kernels to the CPU's bits on this machine's GPU and measures them. Needs nvcc
# and a C++ compiler, nothing of the engine and no network; takes a few minutes. Where compute-sanitizer and cuobjdump
# are at hand, they have their say too.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "gpu_check.sh: error: $*" >&2; exit 1; }

result=${1:-gpu_check.json}
command -v nvcc > /dev/null || fail "no nvcc on PATH (scripts/setup_cuda.sh installs one)"
build=${BATON_GPU_CHECK_BUILD:-build/gpu_check}
mkdir -p "$build"

# The device's own architecture; BATON_GPU_ARCH names another.
arch=${BATON_GPU_ARCH:-$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)}
[[ -n $arch ]] || fail "no GPU found: set BATON_GPU_ARCH (90) to build all the same"

objects=()
pids=()
compile() {  # NAME COMMAND…
  local object=$build/$1.o
  objects+=("$object")
  "${@:2}" -c -o "$object" &
  pids+=($!)
}
for source in kernels/cuda/*.cu; do
  compile "$(basename "$source" .cu)" nvcc -std=c++20 -O3 -I. --fmad=false --expt-relaxed-constexpr -arch="sm_$arch" \
    -DBATON_ISA_NAMESPACE=cuda "-DBATON_CUDA_ARCHITECTURES=\"$arch\"" "$source"
done
compile scalar g++ -std=c++20 -O3 -I. -ffp-contract=off -DBATON_ISA_NAMESPACE=scalar kernels/cpu/scalar/kernels.cc
compile device_check g++ -std=c++20 -O3 -I. -ffp-contract=off tests/kernels/cuda/device_check.cc
for pid in "${pids[@]}"; do wait "$pid" || fail "a file did not compile, see above"; done
nvcc -arch="sm_$arch" -cudart static -o "$build/device_check" "${objects[@]}"

if command -v cuobjdump > /dev/null; then
  cuobjdump -sass "$build"/*matmul.o > "$build/sass"
  for instruction in LDG.E.128 IMMA IDP; do
    echo "$instruction: $(grep -c "$instruction" "$build/sass" || true) in the products' code" >&2
  done
fi
if command -v compute-sanitizer > /dev/null; then
  timeout 240 compute-sanitizer --error-exitcode 9 "$build/device_check" quick > /dev/null ||
    fail "compute-sanitizer found errors, or took too long"
fi
"$build/device_check" > "$result" || fail "the device's bits are not the CPU's, see $result"
cat "$result"
