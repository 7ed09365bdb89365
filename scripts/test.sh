#!/usr/bin/env bash
# Sets up, builds and runs all tests; ends with the test runner's summary. Arguments go to ctest (-R NAME, …).
# BATON_TEST_DATA: a folder with more test data, where there is one.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
scripts/build.sh
# Many tests wait for processes more than they compute.
exec ctest --preset release --parallel "$(( ($(nproc) * 3 + 1) / 2 ))" --timeout 600 "$@"
