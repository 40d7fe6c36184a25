#!/usr/bin/env bash
# Builds camd and runs every test that this machine can run.
#
#   scripts/test.sh [--quick] [--no-install] [--only STEP]...
#
# Steps, in order:
#   dev    everything, optimised with debug information (build/dev); with CUDA, for one architecture, where nvcc 12 or
#          later is found; then all tests
#   demo   scripts/demo.sh for two seconds: what a first visitor builds, several sources at a time, and sees (build/demo),
#          and that it is hardened (scripts/check_hardening.py); its Debian packages, which lintian looks at
#   asan   address and undefined-behaviour sanitizers over the tests of device, capture, plugins, pipeline and http (clang).
#          No sanitizer sees the CPU engine's kernels for AVX-512, which take clang four minutes a file
#   tsan   the thread sanitizer over the same; clang's thread-safety analysis is an error
#   fuzz   libFuzzer on what reads models, configurations, zones, metrics lines, HTTP requests and workers' answers, for a minute
#          (FUZZ_SECONDS says otherwise), starting from ONNX's own cases, the examples, tests/fuzz/corpus, tests/fuzz/make_models.py, and what earlier
#          runs found (build/fuzz/corpus). In a fresh clone the same commit is tried with the same inputs in the same order; FUZZ_SEED
#          with another number than 1 tries others
#   arm64  for 64-bit ARM with Debian's cross compiler, run under qemu-user: base, device, the CPU engine's NEON kernels and
#          preprocessing, where the code that differs there is (docs/arm64.md tells of the others). Debian's arm64 packages go to
#          build/arm64-sysroot, or to where CAMD_ARM64_SYSROOT says
#   lint   scripts/lint.sh: format, clang-tidy on what changed, layers, scripts
# Then a summary: what ran, and what was skipped and why. Exit 1 if a step failed; the others run all the same.
#   --quick        the step dev only
#   --only STEP    that step only (may be repeated)
#   --no-install   do not install packages
#   --help         this text
#
# Logs and JUnit files: build/<step>/ctest.log, build/<step>/ctest.xml.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$repo"

steps=(dev demo asan tsan fuzz arm64 lint)
only=()
install=yes
while [[ $# -gt 0 ]]; do
  case "$1" in
    -h | --help) manual_of "scripts/test.sh" && exit 0 ;;
    --quick) only=(dev) ;;
    --only)
      [[ $# -ge 2 && $2 =~ ^(dev|demo|asan|tsan|fuzz|arm64|lint)$ ]] || die "--only needs dev, demo, asan, tsan, fuzz, arm64 or lint"
      only+=("$2")
      shift
      ;;
    --no-install) install=no ;;
    *) die "unknown argument \"$1\"; see scripts/test.sh --help" ;;
  esac
  shift
done
if [[ ${#only[@]} -gt 0 ]]; then steps=("${only[@]}"); fi

if [[ $install == yes ]]; then
  sets=(demo test)
  if [[ " ${steps[*]} " == *" lint "* ]]; then sets+=(lint); fi
  scripts/install_deps.sh "${sets[@]}"
  # What cannot be had here is that step's to tell.
  if [[ " ${steps[*]} " == *" arm64 "* ]]; then scripts/install_deps.sh arm64 || true; fi
fi

jobs=$(nproc)
failed=()

# Rooms whose tests run under the sanitizers: those with threads, memory of others, or a C interface.
sanitized=(device capture plugins pipeline http)

configure() { # PRESET [-D...]
  local preset=$1
  shift
  mkdir -p build
  # A build folder of another CMake or another place is no good to anyone: one fresh start before giving up.
  cmake --preset "$preset" "$@" >"build/$preset-cmake.log" 2>&1 ||
    cmake --fresh --preset "$preset" "$@" >"build/$preset-cmake.log" 2>&1 ||
    { tail -n 40 "build/$preset-cmake.log" >&2 && return 1; }
}

# Builds the targets (all without any), quietly unless it fails.
build() { # PRESET [TARGET...]
  local preset=$1
  shift
  local target_arguments=()
  if [[ $# -gt 0 ]]; then target_arguments=(--target "$@"); fi
  if ! cmake --build "build/$preset" -j "$jobs" "${target_arguments[@]}" >"build/$preset/build.log" 2>&1; then
    { grep -E -A12 'error|FAILED' "build/$preset/build.log" || tail -n 20 "build/$preset/build.log"; } | head -n 80 >&2
    printf 'error: the build of %s failed; all of it: build/%s/build.log\n' "$preset" "$preset" >&2
    return 1
  fi
}

run_tests() { # PRESET [CTEST ARGUMENT...]
  local preset=$1
  shift
  # One more than there are cores: many tests wait for a server or a clock.
  ctest --test-dir "build/$preset" -j "$((jobs + 1))" --output-on-failure --no-tests=error \
    --output-junit "$repo/build/$preset/ctest.xml" --output-log "$repo/build/$preset/ctest.log" "$@"
}

step_dev() {
  local options=(-DCAMD_CUDA=OFF) nvcc architecture
  nvcc=$(find_nvcc)
  if [[ -n $nvcc ]]; then
    architecture=$(gpu_architecture)
    options=(-DCAMD_CUDA=ON "-DCMAKE_CUDA_COMPILER=$nvcc" "-DCMAKE_CUDA_ARCHITECTURES=${architecture:-90}")
  fi
  # From nothing, several sources a compilation take two thirds of the time. A folder that is there stays as it is.
  if [[ ! -f build/dev/CMakeCache.txt ]]; then options+=(-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=6); fi
  configure dev "${options[@]}" && build dev && run_tests dev
}

step_sanitizer() { # PRESET
  local targets=() room
  for room in "${sanitized[@]}"; do
    if [[ -f tests/$room/CMakeLists.txt ]]; then targets+=("test_$room"); fi
  done
  # What passed is told as well: many tests are one to ctest here.
  configure "$1" && build "$1" "${targets[@]}" &&
    run_tests "$1" --test-output-size-passed 1000000 --tests-regex "^($(IFS='|' && echo "${sanitized[*]}"))/"
}

step_demo() {
  scripts/demo.sh --no-install --duration 2s && scripts/check_hardening.py build/demo/bin/camd build/demo/bin/camtop &&
    scripts/package.sh --build build/demo --out build/demo/packages --lint
}
step_asan() { step_sanitizer asan; }
step_tsan() { step_sanitizer tsan; }
# Runs one target on its corpus.
fuzz() { # NAME SECONDS LONGEST_INPUT
  local log=build/fuzz/$1.log words=(-seed="${FUZZ_SEED:-1}" -reload=0) same_addresses=()
  if setarch -R true 2>/dev/null; then same_addresses=(setarch -R); fi # a container may forbid it
  if [[ -f tests/fuzz/$1.dict ]]; then words+=("-dict=tests/fuzz/$1.dict"); fi
  if ! "${same_addresses[@]}" "build/asan/bin/fuzz_$1" "${words[@]}" -max_total_time="$2" -max_len="$3" -timeout=10 -rss_limit_mb=3072 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/$1-" "build/fuzz/corpus/$1" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    return 1
  fi
  grep -E '^stat::number_of|^Done ' "$log" | sed "s/^/$1: /"
}
step_fuzz() {
  local seconds=${FUZZ_SECONDS:-60} third cases=build/fuzz/onnx_conformance case readers models=yes
  configure asan || return 1 # the same code as the step asan
  build asan fuzz_config fuzz_http fuzz_metrics fuzz_model fuzz_recording fuzz_worker fuzz_zones || return 1
  mkdir -p build/fuzz/corpus/{config,http,metrics,model,recording,worker,zones}
  cp docs/examples/*.yaml docs/examples/detectors/*.yaml tests/fuzz/corpus/config/*.yaml build/fuzz/corpus/config/
  echo '{"zones":[{"name":"a","polygon":[[0,0],[1,0],[1,1]]}],"lines":[{"name":"b","from":[0,0],"to":[1,1]}]}' \
    >build/fuzz/corpus/zones/both.json
  printf 'Basic OjAxMjM0NTY3ODlhYmNkZWY=' >build/fuzz/corpus/http/login
  printf '[::1]:8088' >build/fuzz/corpus/http/host
  printf "/api/v1/cameras/door/latest.jpg\nlocalhost\n\nwidth=640" >build/fuzz/corpus/http/picture
  printf "/api/v1/events\nlocalhost\nBearer 0f1e2d3c4b5a69788796a5b4c3d2e1f0\nevery=200ms\ncamera=door\nmetrics=1" >build/fuzz/corpus/http/events
  head -n 8 tests/apps/data/run.jsonl >build/fuzz/corpus/metrics/run.jsonl
  if /usr/bin/python3 tests/infer/make_conformance.py "$cases" >build/fuzz/cases.log 2>&1; then
    for case in "$cases"/*/model.onnx; do cp "$case" "build/fuzz/corpus/model/$(basename "$(dirname "$case")").onnx"; done
    /usr/bin/python3 tests/fuzz/make_models.py build/fuzz/corpus/model >>build/fuzz/cases.log 2>&1 || return 1
  fi
  # Beside the models, which are read by most code.
  third=$(((seconds + 2) / 3)) # never 0, which would be for ever
  { fuzz config "$third" 8192 && fuzz zones "$third" 4096 && fuzz metrics "$third" 16384 && fuzz http 5 4096 && fuzz worker "$third" 4096 && fuzz recording "$third" 4096; } &
  readers=$!
  fuzz model "$seconds" 65536 || models=no
  wait "$readers" && [[ $models == yes ]]
}
step_arm64() {
  local missing
  without_arm64=
  if [[ $(uname -m) == aarch64 ]]; then without_arm64="this machine is one, and the step dev ran there" && return 0; fi
  if ! missing=$(scripts/install_deps.sh --check arm64 2>&1); then without_arm64=${missing#error: } && return 0; fi
  mkdir -p build
  export CAMD_ARM64_SYSROOT=${CAMD_ARM64_SYSROOT:-$repo/build/arm64-sysroot}
  if ! scripts/arm64_sysroot.sh "$CAMD_ARM64_SYSROOT" >build/arm64-sysroot.log 2>&1; then
    # A machine without a mirror of Debian has no packages; anything else is an error.
    if ! grep -qE 'Could not resolve|Failed to fetch|Unable to locate' build/arm64-sysroot.log; then
      tail -n 20 build/arm64-sysroot.log >&2
      return 1
    fi
    without_arm64="Debian's arm64 packages could not be fetched: build/arm64-sysroot.log" && return 0
  fi
  configure arm64 && build arm64 test_base test_device test_infer &&
    run_tests arm64 --tests-regex '^(base|device)/|^infer/(Cpu/Kernels|Cpu/Bytes|ThreadPool|Preprocess|AllFormats)' --repeat after-timeout:2
}
step_lint() { scripts/lint.sh; }

for step in "${steps[@]}"; do
  say "step $step"
  rm -f "build/$step/ctest.xml" "build/$step/ctest.log"
  # `set -e` does not reach into a function whose result is asked for, hence the && chains in the steps.
  if "step_$step"; then :; else failed+=("$step"); fi
done

say "summary"
reports=()
for step in "${steps[@]}"; do
  if [[ $step == arm64 && -n ${without_arm64:-} ]]; then continue; fi
  if [[ ! $step =~ ^(demo|fuzz|lint)$ ]]; then reports+=("$step=build/$step/ctest.xml"); fi
done
if [[ -n ${without_arm64:-} ]]; then echo "left out: the step arm64, because $without_arm64"; fi
if [[ ${#reports[@]} -gt 0 ]]; then python3 scripts/test_summary.py "${reports[@]}"; fi
if [[ " ${steps[*]} " == *" dev "* && -z $(find_nvcc) ]]; then
  echo "left out: the CUDA device and engine, because there is no nvcc 12 or later here"
fi
if [[ ${#failed[@]} -gt 0 ]]; then die "failed: ${failed[*]}"; fi
say "all steps passed: ${steps[*]}${without_arm64:+, but arm64 was left out}"
