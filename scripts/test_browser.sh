#!/usr/bin/env bash
# The page in a real browser, on a desk and on a phone: needs chromium, chromium-driver and Python's selenium.
# Screenshots lie in build/screenshots afterwards. Where the browser is missing it says so and does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
for program in chromium chromedriver; do command -v "$program" > /dev/null || missing+=("$program"); done
python=${PYTHON:-python3}
"$python" -c 'import selenium' 2> /dev/null || missing+=(python3-selenium)
if (( ${#missing[@]} )); then
  echo "test_browser: skipped: ${missing[*]} not installed" >&2
  exit 0
fi
scripts/build.sh baton make_tiny_model
export BATON_BIN=$PWD/build/release/baton BATON_TINY_MODEL=$PWD/build/release/tests/e2e/make_tiny_model
export BATON_SCREENSHOTS=$PWD/build/screenshots
mkdir -p "$BATON_SCREENSHOTS"
cd tests/browser
PYTHONPATH=../e2e exec "$python" -B -m unittest -v test_page
