#!/usr/bin/env bash
# Counts the instructions that the pipeline itself spends on a frame, with callgrind: a figure that a busy machine does
# not change, so that a regression shows where times would not say it.
#
#   scripts/instructions.sh [--build DIR] [--profile | --gate]
#
#   --build DIR  a build with CAMD_BUILD_BENCHMARKS (default: build/release)
#   --profile    also say which functions they are
#   --gate       instead: the instructions of one look of `gate: motion`, by size and format (docs/gate.md)
#   --help       this text
#
# bench_pipeline is run twice, with 100 and with 2100 frames; the difference over 2000 is a frame's. Exit 1 when that is
# more than a tenth above the figure in docs/performance.md. Needs valgrind.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$repo"

build=build/release
profile=no
bench_of=pipeline
while [[ $# -gt 0 ]]; do
  case "$1" in
    -h | --help) manual_of "scripts/instructions.sh" && exit 0 ;;
    --build) [[ $# -ge 2 ]] || die "--build needs a folder"; build=$2 && shift ;;
    --profile) profile=yes ;;
    --gate) bench_of=capture ;;
    *) die "unknown argument \"$1\"; see scripts/instructions.sh --help" ;;
  esac
  shift
done
bench=$build/bin/bench_$bench_of
[[ -x $bench ]] || die "$bench is not there: cmake --preset release && cmake --build --preset release --target bench_$bench_of"
have valgrind || die "valgrind is not there: apt-get install valgrind"

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
count() { # FILE FILTER -> instructions of the whole run
  valgrind --tool=callgrind --callgrind-out-file="$out/$1" "$bench" --benchmark_filter="$2" \
    >"$out/$1.log" 2>&1 || { tail "$out/$1.log" >&2 && die "bench_$bench_of failed under callgrind"; }
  sed -n 's/^summary: \([0-9]*\).*/\1/p; s/^totals: \([0-9]*\).*/\1/p' "$out/$1" | head -n 1
}
if [[ $bench_of == capture ]]; then
  "$bench" --benchmark_list_tests --benchmark_filter='looks:20/' | while read -r name; do
    few=$(count gate "${name%looks:*}looks:20/")
    many=$(count gate "${name%looks:*}looks:220/")
    echo "${name%/looks:*}: $(((many - few) / 200)) instructions a look"
  done
  exit 0
fi
few=$(count 100 "fps:0/frames:100/")
many=$(count 2100 "fps:0/frames:2100/")
per_frame=$(((many - few) / 2000))
recorded=$(sed -n 's/.*instructions a frame: \([0-9]*\).*/\1/p' docs/performance.md)
echo "instructions a frame: $per_frame (docs/performance.md: ${recorded:-not recorded})"
if [[ $profile == yes ]]; then callgrind_annotate "$out/2100" | sed -n 1,60p; fi
if [[ -n $recorded && $per_frame -gt $((recorded * 11 / 10)) ]]; then die "more than a tenth above what is recorded"; fi
