#!/usr/bin/env bash
# Runs each fuzz target for long: scripts/fuzz_nightly.sh [SECONDS EACH, 1800] [TARGET …]
# What it finds is kept in build/fuzz/found/TARGET; the exit code says whether something was found.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-1800}
shift || true
targets=("$@")
(( ${#targets[@]} > 0 )) || targets=(gguf split_set topology wire openai http jinja tokenizer grammar journal api_keys)
cmake --preset release -B build/fuzz "-DBATON_FUZZ_OPTIMIZATION=-O2;-g1" > /dev/null
cmake --build build/fuzz --target baton_fuzz
failed=0
for target in "${targets[@]}"; do
  found=build/fuzz/found/$target
  mkdir -p "$found"
  corpus=()
  [[ ! -d tests/fuzz/corpus/$target ]] || corpus=("tests/fuzz/corpus/$target")
  echo "== $target"
  build/fuzz/tests/fuzz/bin/baton_fuzz "$target" -max_total_time="$seconds" -detect_leaks=0 \
    -artifact_prefix="$found/" "$found" "${corpus[@]}" \
    2>&1 | grep -E "ERROR|SUMMARY|stat::number_of_executed_units|Test unit written" || failed=1
  ! compgen -G "$found/crash-*" > /dev/null || failed=1
done
exit $failed
