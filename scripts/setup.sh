#!/usr/bin/env bash
# Installs what is missing of packages.txt, by apt, as root or through sudo. Quick when nothing is missing.
# BATON_SKIP_SETUP=1: leave the machine as it is.
set -euo pipefail
cd "$(dirname "$0")"

fail() { echo "setup.sh: error: $*" >&2; exit 1; }

[[ ${BATON_SKIP_SETUP:-} != 1 ]] || exit 0
mapfile -t wanted < <(grep -v -e '^#' -e '^$' packages.txt)
command -v dpkg-query > /dev/null && command -v apt-get > /dev/null ||
  fail "needs Debian 12 or a system like it (no apt-get here). Install the likes of these yourself, then set BATON_SKIP_SETUP=1: ${wanted[*]}"

mapfile -t there < <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2> /dev/null | sed -n 's/^installed //p')
missing=()
for package in "${wanted[@]}"; do
  [[ " ${there[*]} " == *" $package "* ]] || missing+=("$package")
done
(( ${#missing[@]} > 0 )) || exit 0

as_root=()
if (( EUID != 0 )); then
  command -v sudo > /dev/null || fail "not root and no sudo. As root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
echo "Installing ${#missing[@]} packages: ${missing[*]}" >&2
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >&2; }
apt update || echo "setup.sh: warning: apt-get update failed; trying with the lists that are there" >&2
apt install --no-install-recommends "${missing[@]}" ||
  fail "apt-get could not install: ${missing[*]} (is a Debian mirror reachable? see the lines above)"
