#!/usr/bin/env bash
# Line and branch coverage of the tests: a table on stdout, pages in build/coverage/report/.
#
#   scripts/coverage.sh [--help]
#
# Needs gcovr (scripts/install_deps.sh dev). Builds everything without optimisation in build/coverage.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$repo"

case "${1:-}" in
  -h | --help) manual_of "scripts/coverage.sh" && exit 0 ;;
  '') ;;
  *) die "unknown argument \"$1\"; see scripts/coverage.sh --help" ;;
esac
have gcovr || die "gcovr is missing: scripts/install_deps.sh dev"

cmake --preset coverage
cmake --build --preset coverage
find build/coverage -name '*.gcda' -delete
ctest --preset coverage
mkdir -p build/coverage/report
gcovr --root . --object-directory build/coverage --exclude 'tests/' --exclude 'build/' --exclude-throw-branches \
  --print-summary --html-details build/coverage/report/index.html
say "pages: build/coverage/report/index.html"
