# shellcheck shell=bash
# What the scripts of this folder share. Sourced, never run.

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export repo

if [[ -t 1 ]]; then
  bold=$'\e[1m' plain=$'\e[0m'
else
  bold='' plain=''
fi

# A heading of what happens now, with the seconds since the script started.
say() { printf '%s[%3ds] %s%s\n' "$bold" "$SECONDS" "$*" "$plain"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# Prints the comment block at the top of a script, which is its manual.
manual_of() { awk 'NR == 1 { next } /^#/ { sub(/^# ?/, ""); print; next } { exit }' "$1"; }

# The compiler of the CUDA toolkit when it is there and 12 or later, else nothing.
find_nvcc() {
  local candidate release
  for candidate in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    [[ -n "$candidate" && -x "$candidate" ]] || continue
    release=$("$candidate" --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p')
    if [[ -n "$release" && "$release" -ge 12 ]]; then
      printf '%s\n' "$candidate"
      return
    fi
  done
}

# The compute capability of the first GPU as CMake wants it ("90"), or nothing without a working GPU.
gpu_architecture() {
  have nvidia-smi || return 0
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n '1s/[^0-9]//gp' || true
}
