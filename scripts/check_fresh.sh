#!/usr/bin/env bash
# Proves the two commands on a machine where nothing is installed: a minimal Debian 12, made by debootstrap in a folder, with
# this host's package settings; a clone of this repository inside; scripts/quickstart.sh, then scripts/test.sh.
#
#   scripts/check_fresh.sh [quickstart|test|both|package]
#
# `package`: the .deb of this host's build instead of a clone: installed by apt, two workers, an answer.
#
# Needs root, debootstrap, about 4 GB in $TMPDIR, a Debian mirror and PyPI as this host reaches them. Takes as long as a full
# build. Cleans up, also when it fails.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "check_fresh.sh: error: $*" >&2; exit 1; }

what=${1:-both}
[[ $what =~ ^(quickstart|test|both|package)$ ]] || fail "usage: check_fresh.sh [quickstart|test|both|package]"
(( EUID == 0 )) || fail "needs root (debootstrap, chroot, mount)"
for tool in debootstrap chroot mount git; do
  command -v "$tool" > /dev/null || fail "needs $tool: apt-get install debootstrap git"
done

root=$(mktemp -d "${TMPDIR:-/tmp}/baton-fresh-XXXXXX")
mounts=()
clean_up() {
  for (( i = ${#mounts[@]} - 1; i >= 0; --i )); do
    umount "${mounts[i]}" 2> /dev/null || umount -l "${mounts[i]}" 2> /dev/null || true
  done
  # Nothing of the host may still be mounted below what is removed.
  if ! grep -q " $root/" /proc/self/mounts; then rm -rf --one-file-system "$root"; else echo "left: $root" >&2; fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

mount_inside() {  # TYPE SOURCE FOLDER
  mkdir -p "$root/$3"
  mount -t "$1" "$2" "$root/$3"
  mounts+=("$root/$3")
}

# The first Debian mirror that this host's apt uses.
mirror() {
  local found
  found=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2> /dev/null |
    sed -nE 's#^deb +(\[[^]]*\] +)?(https?://[^ ]*debian[^ ]*) .*#\2#p' | grep -v security | head -n 1)
  [[ -n $found ]] || found=$(cat /etc/apt/sources.list.d/*.sources 2> /dev/null |
    sed -nE 's#^URIs: *(https?://[^ ]*debian[^ ]*).*#\1#p' | grep -v security | head -n 1)
  echo "${found:-http://deb.debian.org/debian}"
}

copy_if_there() {  # each PATH of the host, to the same path inside
  local path
  for path in "$@"; do
    [[ -e $path ]] || continue
    mkdir -p "$root$(dirname "$path")"
    cp -rL "$path" "$root$(dirname "$path")/"
  done
}

echo "== A minimal Debian 12 in $root, from $(mirror)" >&2
debootstrap --variant=minbase bookworm "$root" "$(mirror)" > "$root.log" 2>&1 ||
  { tail -n 5 "$root.log" >&2; rm -f "$root.log"; fail "debootstrap did not finish"; }
rm -f "$root.log"

# How this host reaches its package registries: sources, proxies, names, certificates.
rm -f "$root/etc/apt/sources.list"
for path in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
  if [[ -f $path ]] && grep -q bookworm "$path"; then copy_if_there "$path"; fi
done
copy_if_there /etc/apt/apt.conf /etc/apt/apt.conf.d /etc/apt/keyrings /etc/apt/auth.conf.d /usr/share/keyrings \
  /etc/resolv.conf /etc/hosts /etc/pip.conf /root/.config/pip /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates
environment=(HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_CERT \
  PIP_DEFAULT_TIMEOUT PIP_TRUSTED_HOST SSL_CERT_FILE REQUESTS_CA_BUNDLE; do
  [[ -z ${!name:-} ]] || environment+=("$name=${!name}")
done

mount_inside proc proc proc
mount_inside sysfs sysfs sys
mount_inside tmpfs tmpfs dev/shm

inside() { chroot "$root" env -i "${environment[@]}" bash -c "cd /root/${folder:-baton} && $1"; }
timed() {
  local begin=$SECONDS
  inside "$1" || fail "$1 failed after $(( SECONDS - begin )) s"
  echo "== $1: passed in $(( SECONDS - begin )) s" >&2
}

if [[ $what == package ]]; then
  folder=.
  scripts/build.sh baton make_tiny_model
  (cd build && cpack --config release/CPackConfig.cmake -B packages > /dev/null)
  cp build/packages/baton_*.deb "$root/root/baton.deb"
  build/release/tests/e2e/make_tiny_model "$root/root/tiny.gguf"
  cat > "$root/root/topology.yaml" << 'END'
model: ./tiny.gguf
context: 256
listen: {grpc: 127.0.0.1:0}
workers:
  - {name: one, address: 127.0.0.1:0, threads: 1, launch: local}
  - {name: two, address: 127.0.0.1:0, threads: 1, launch: local}
END
  timed 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq ./baton.deb > /dev/null'
  timed 'baton doctor -f topology.yaml'
  timed 'baton up -d -f topology.yaml 2>&1 | tee said && baton run --raw -p Hello -n 8 \
    --server "$(sed -n "s/^ready grpc=//p" said)" && baton down -f topology.yaml'
  timed 'dpkg -L baton | grep -q man1/baton.1 && baton completion bash | bash -n'
  exit 0
fi

git clone --quiet --no-hardlinks . "$root/root/baton"
git -C "$root/root/baton" checkout --quiet --detach "$(git rev-parse HEAD)"

[[ $what == test ]] || timed scripts/quickstart.sh
[[ $what == quickstart ]] || timed scripts/test.sh
