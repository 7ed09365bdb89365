#!/usr/bin/env bash
# Installs nvcc by pip into a cache folder, without touching the system, and prints how to put it on PATH. Builds with
# it need no GPU and no driver. BATON_CUDA_HOME: another folder.
set -euo pipefail

fail() { echo "setup_cuda.sh: error: $*" >&2; exit 1; }

folder=${BATON_CUDA_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/baton/cuda-13}
toolkit=$folder/nvidia/cu13
if [[ ! -x $toolkit/bin/nvcc ]]; then
  command -v pip > /dev/null || fail "no pip"
  pip install --quiet --disable-pip-version-check --root-user-action ignore --target "$folder" \
    'nvidia-cuda-nvcc>=13,<14' 'nvidia-cuda-runtime>=13,<14' 'nvidia-cuda-crt>=13,<14' 'nvidia-nvvm>=13,<14' \
    'nvidia-cuda-cccl>=13,<14' >&2 || fail "pip could not install nvcc"
  # Where compilers look for libraries, and the name that linkers look for.
  ln -sfn lib "$toolkit/lib64"
  [[ -e $toolkit/lib/libcudart.so ]] || ln -s libcudart.so.13 "$toolkit/lib/libcudart.so"
fi
"$toolkit/bin/nvcc" --version | tail -2 >&2
echo "export PATH=$toolkit/bin:\$PATH"
