#!/usr/bin/env bash
# From a fresh clone to an answer: sets up, builds, fetches a small model, starts a coordinator and two workers on this
# machine, streams an answer to a prompt, says how fast and by whom, and stops everything.
#
#   scripts/quickstart.sh [PROMPT] [--model FILE]
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "quickstart.sh: error: $*" >&2; exit 1; }

prompt="Explain in a few sentences why the sky is blue."
model=
while (( $# > 0 )); do
  case $1 in
    -h|--help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --model) (( $# > 1 )) || fail "--model needs a FILE"; model=$2; shift 2 ;;
    --model=*) model=${1#--model=}; shift ;;
    -*) fail "unknown flag $1 (see --help)" ;;
    *) prompt=$1; shift ;;
  esac
done
[[ -z $model || -f $model ]] || fail "$model: no such file"

echo "== Packages" >&2
scripts/setup.sh
echo "== Build" >&2
scripts/build.sh baton
echo "== Model" >&2
[[ -n $model ]] || model=$(scripts/fetch_model.sh smollm2)
BATON_MODEL=$(realpath "$model")
export BATON_MODEL
echo "$BATON_MODEL" >&2

baton=build/release/baton
log=$(mktemp)
"$baton" up -f scripts/topologies/local.yaml 2> "$log" &
cluster=$!
stop() {
  kill -TERM "$cluster" 2> /dev/null || true
  wait "$cluster" 2> /dev/null || true
  rm -f "$log"
}
trap stop EXIT
trap 'exit 130' INT TERM

echo "== Cluster" >&2
server=
for (( i = 0; i < 600; ++i )); do
  server=$(sed -n 's/^ready grpc=\([^ ]*\).*/\1/p' "$log")
  [[ -z $server ]] || break
  kill -0 "$cluster" 2> /dev/null || { cat "$log" >&2; fail "the cluster did not start"; }
  sleep 0.1
done
[[ -n $server ]] || { cat "$log" >&2; fail "the cluster is not ready after 60 s"; }

echo "== $prompt" >&2
"$baton" run --server "$server" -p "$prompt" -n 160 --temp 0 || { cat "$log" >&2; fail "no answer"; }
echo
"$baton" status --server "$server"
