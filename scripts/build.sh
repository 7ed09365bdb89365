#!/usr/bin/env bash
# Builds the release preset into build/release: all of it, or the targets given.
set -euo pipefail
cd "$(dirname "$0")/.."

if command -v ccache > /dev/null && [[ -z ${CMAKE_CXX_COMPILER_LAUNCHER:-} ]]; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
  # A clone elsewhere finds what this one compiled.
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
fi
targets=()
(( $# == 0 )) || targets=(--target "$@")
[[ -f build/release/build.ninja ]] || cmake --preset release >&2
cmake --build --preset release --parallel "$(nproc)" "${targets[@]}" >&2
