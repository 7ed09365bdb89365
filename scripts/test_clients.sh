#!/usr/bin/env bash
# What people's own tools do with a cluster: OpenAI's Python package, the Python client over gRPC, and the page in a real
# browser, on a desk and on a phone. Their packages go into build/venv, from PyPI; the browser is chromium with its
# chromedriver, and without it that part is left out, with a word. Screenshots lie in build/screenshots afterwards.
# PYTHON: a Python that has openai, grpcio-tools and selenium, instead of build/venv.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(openai grpcio-tools selenium)
python=${PYTHON:-$PWD/build/venv/bin/python}
if ! "$python" -c 'import openai, grpc_tools, selenium' 2> /dev/null; then
  [[ -z ${PYTHON:-} ]] || { echo "test_clients.sh: error: $PYTHON lacks one of: ${packages[*]}" >&2; exit 1; }
  python3 -m venv build/venv
  "$python" -m pip --quiet --disable-pip-version-check install "${packages[@]}"
fi
scripts/build.sh baton make_tiny_model client_stream
export BATON_BIN=$PWD/build/release/baton BATON_TINY_MODEL=$PWD/build/release/tests/e2e/make_tiny_model
export BATON_CLIENT_STREAM=$PWD/build/release/tests/e2e/client_stream BATON_SCREENSHOTS=$PWD/build/screenshots
mkdir -p "$BATON_SCREENSHOTS"

tests=(test_openai test_clients)
if command -v chromium chromedriver > /dev/null; then
  tests+=(test_page)
else
  echo "test_clients: the page is left out: chromium and chromium-driver are not installed" >&2
fi
cd tests/e2e
PYTHONPATH=../browser exec "$python" -B -m unittest -v "${tests[@]}"
