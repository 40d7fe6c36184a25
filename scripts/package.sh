#!/usr/bin/env bash
# Builds the Debian packages camd and camd-dev.
#
#   scripts/package.sh [--build DIR] [--out DIR] [--lint]
#
#   --build DIR   a configured build folder (default: build/release, which the preset `release` makes: with CUDA where a
#                 toolkit is; the driver is loaded at run time, so that the packages need none)
#   --out DIR     where the packages go (default: dist)
#   --lint        let lintian look at them; what it finds is an error
#   --help        this text
#
# CAMD_MAINTAINER and CAMD_PACKAGE_REVISION of the CMake cache are who answers for them, and their count.
# scripts/package_test.sh installs, runs, upgrades and purges them in a fresh Debian.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$repo"

build=build/release
out=dist
lint=no
while [[ $# -gt 0 ]]; do
  case "$1" in
    -h | --help) manual_of "scripts/package.sh" && exit 0 ;;
    --build) [[ $# -ge 2 ]] || die "--build needs a folder"; build=$2 && shift ;;
    --out) [[ $# -ge 2 ]] || die "--out needs a folder"; out=$2 && shift ;;
    --lint) lint=yes ;;
    *) die "unknown argument \"$1\"; see scripts/package.sh --help" ;;
  esac
  shift
done
[[ -f $build/CPackConfig.cmake ]] || die "$build is not configured: cmake --preset release, or --build DIR"

cmake --build "$build" --target camd camtop camd-plugin camd_manual camd_changelogs >"$build/package.log" 2>&1 ||
  { tail -n 40 "$build/package.log" >&2 && die "the build failed"; }
mkdir -p "$out"
rm -f "$out"/camd_*.deb "$out"/camd-dev_*.deb
cpack --config "$build/CPackConfig.cmake" -B "$build/cpack" >"$build/package.log" 2>&1 ||
  { tail -n 40 "$build/package.log" >&2 && die "cpack failed"; }
mv "$build"/cpack/*.deb "$out/"
for package in "$out"/camd*.deb; do
  say "$package, $(($(stat -c %s "$package") / 1024)) KiB"
done
if [[ $lint == yes ]]; then
  lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$out"/camd*.deb || die "lintian has findings"
fi
