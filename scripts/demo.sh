#!/usr/bin/env bash
# Shows camd at work: installs what is missing, builds it for this machine, detects in a real clip for ten seconds.
#
#   scripts/demo.sh [--duration 10s] [--no-install]
#
# On a terminal you see the live dashboard, otherwise the metrics, one JSON object a line (also in out/metrics.jsonl).
# Leaves out/detections.jsonl (what was found, a line a frame) and out/annotated.mp4 (the clip with boxes and corners),
# and prints a summary. Uses the GPU where there is one. Writes nothing outside build/ and out/, apart from the Debian
# packages that it installs with apt-get (as root or through sudo).
#   --duration D   how long to run, e.g. 30s
#   --no-install   do not install packages
#   --help         this text
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$repo"

duration=10s
install=yes
while [[ $# -gt 0 ]]; do
  case "$1" in
    -h | --help) manual_of "scripts/demo.sh" && exit 0 ;;
    --duration) [[ $# -ge 2 ]] || die "--duration needs a time, e.g. 10s"; duration=$2 && shift ;;
    --no-install) install=no ;;
    *) die "unknown argument \"$1\"; see scripts/demo.sh --help" ;;
  esac
  shift
done

if [[ $install == yes ]]; then scripts/install_deps.sh demo; fi

# Several sources a compilation: the same code from nothing in half the time, which is what a first visitor waits for.
configure=(-DCMAKE_BUILD_TYPE=Release -DCAMD_BUILD_TESTS=OFF -DCAMD_BUILD_BENCHMARKS=OFF -DCMAKE_UNITY_BUILD=ON
  -DCMAKE_UNITY_BUILD_BATCH_SIZE=6)
# Only what this machine can use: no GPU, no CUDA code; a GPU, its architecture alone.
architecture=$(gpu_architecture)
nvcc=$(find_nvcc)
if [[ -n "$architecture" && -n "$nvcc" ]]; then
  configure+=(-DCAMD_CUDA=ON "-DCMAKE_CUDA_COMPILER=$nvcc" "-DCMAKE_CUDA_ARCHITECTURES=$architecture")
  target="this GPU (compute capability $architecture)"
else
  if [[ -n "$architecture" ]]; then
    warn "there is a GPU, but no CUDA toolkit 12 or later (nvcc): building for the CPU"
  fi
  configure+=(-DCAMD_CUDA=OFF)
  target="the CPU"
fi

say "building camd for $target in build/demo"
mkdir -p build out
# Not an incremental matter for ccache alone: a build folder that was moved or made by another CMake is started anew.
log=build/demo.log
if ! cmake -S . -B build/demo -G Ninja "${configure[@]}" >"$log" 2>&1; then
  rm -rf build/demo
  cmake -S . -B build/demo -G Ninja "${configure[@]}" >"$log" 2>&1 || { tail -n 40 "$log" >&2; die "cmake failed"; }
fi
if [[ -t 1 ]]; then
  cmake --build build/demo --target camd camtop
else
  cmake --build build/demo --target camd camtop >"$log" 2>&1 || { tail -n 60 "$log" >&2; die "the build failed"; }
fi

rm -f out/detections.jsonl out/metrics.jsonl out/annotated.mp4
command=(build/demo/bin/camd run docs/examples/demo.yaml --duration "$duration")
say "${command[*]}"
code=0
if [[ -t 1 ]]; then
  "${command[@]}" || code=$?
else
  "${command[@]}" | tee out/metrics.jsonl || code=${PIPESTATUS[0]}
fi
[[ $code -eq 0 ]] || die "camd ended with exit code $code (README.md says what that means)"

say "done"
python3 scripts/demo_summary.py out/detections.jsonl out/metrics.jsonl
[[ -s out/annotated.mp4 ]] && echo "  pictures    out/annotated.mp4 (the clip with boxes, corners and latency)"
echo "  next        build/demo/bin/camd doctor; README.md, \"Five minutes\""
