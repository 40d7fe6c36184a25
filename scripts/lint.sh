#!/usr/bin/env bash
# Checks what a compiler does not: format, clang-tidy, layers, packages, shell scripts, and what must not be committed.
#
#   scripts/lint.sh [--tidy changed|all|none] [--budget SECONDS] [--fix]
#
#   --tidy changed  clang-tidy on the C++ files that differ from the merge base with origin's default branch, or from
#                   the commit before when there is none (default); it takes 5 to 20 s a file on one core, so:
#   --budget S      start no more files after S seconds and name the rest (default 240; 0: no limit)
#   --tidy all      on every file (about half an hour on two cores; the preset `tidy` does it while building)
#   --fix           let clang-format rewrite the files
#   --help          this text
#
# clang-tidy reads the compiler's flags of each file from build/dev (scripts/test.sh and the preset `dev` make it), or, where
# that compiles several files at a time, from build/lint, which is configured for that alone.
# Exit 1 if something was found; warnings alone do not fail.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$repo"

tidy=changed
budget=240
fix=no
while [[ $# -gt 0 ]]; do
  case "$1" in
    -h | --help) manual_of "scripts/lint.sh" && exit 0 ;;
    --tidy) [[ $# -ge 2 && $2 =~ ^(changed|all|none)$ ]] || die "--tidy needs changed, all or none"; tidy=$2 && shift ;;
    --budget) [[ $# -ge 2 && $2 =~ ^[0-9]+$ ]] || die "--budget needs seconds"; budget=$2 && shift ;;
    --fix) fix=yes ;;
    *) die "unknown argument \"$1\"; see scripts/lint.sh --help" ;;
  esac
  shift
done

failed=()
# check NAME COMMAND...: runs it, remembers the name when it fails.
check() {
  local name=$1
  shift
  say "$name"
  "$@" || failed+=("$name")
}

# Files that git tracks, or would: what is ignored is nobody's business.
files() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do [[ -f $f ]] && printf '%s\n' "$f"; done; }

check_format() {
  local sources
  mapfile -t sources < <(files '*.cpp' '*.hpp' '*.h' '*.cu' '*.cuh')
  if [[ $fix == yes ]]; then
    clang-format -i "${sources[@]}"
  elif ! clang-format --dry-run -Werror "${sources[@]}" 2>/dev/null; then
    clang-format --dry-run "${sources[@]}" 2>&1 | grep -E '^[^ ]+:[0-9]+:' | cut -d: -f1,2 | sort -u -t: -k1,1 |
      sed 's/$/: not as clang-format writes it (scripts\/lint.sh --fix)/'
    return 1
  fi
}

check_shell() {
  local scripts
  mapfile -t scripts < <(files '*.sh' '.ci/run')
  shellcheck -x "${scripts[@]}"
}

# Paths of somebody's machine in text files. (Brackets keep this line from finding itself.)
check_machine_paths() {
  local found
  found=$(files | xargs -d '\n' grep -InE '(^|[^A-Za-z0-9_.~-])/([w]ork|[r]oot|[h]ome)/[A-Za-z0-9_.]' -- 2>/dev/null || true)
  if [[ -n $found ]]; then
    printf '%s\n' "$found" | cut -c1-160
    return 1
  fi
}

warn_about_size() {
  local file
  while read -r file; do
    local lines
    lines=$(wc -l <"$file")
    if [[ $lines -gt 600 ]]; then warn "$file: $lines lines; more than 600 are rarely one room"; fi
  done < <(files '*.cpp' '*.hpp' '*.h' '*.cu' '*.cuh' '*.py' '*.sh')
  while read -r file; do
    local bytes
    bytes=$(stat -c %s "$file")
    if [[ $bytes -gt 1048576 ]]; then warn "$file: $bytes bytes; does it have to be in the repository?"; fi
  done < <(files)
}

# What clang-tidy shall look at: C++ sources that the build knows.
tidy_files() {
  local from
  if [[ $tidy == all ]]; then
    files '*.cpp'
  else
    from=$(git merge-base HEAD origin/HEAD 2>/dev/null || true)
    if [[ -z $from || $from == $(git rev-parse HEAD) ]]; then from=$(git rev-parse -q --verify 'HEAD~1' || git rev-parse HEAD); fi
    { git diff --name-only --diff-filter=d "$from" -- '*.cpp'; git ls-files --others --exclude-standard -- '*.cpp'; } | sort -u
  fi | while read -r file; do
    if grep -qF "\"file\": \"$repo/$file\"" "$flags/compile_commands.json"; then printf '%s\n' "$file"; fi
  done
}

check_tidy() {
  if [[ ! -f build/dev/compile_commands.json ]]; then
    warn "no build/dev/compile_commands.json (cmake --preset dev makes it): clang-tidy left out"
    return
  fi
  local todo out flags=build/dev
  if grep -q '^CMAKE_UNITY_BUILD:[^=]*=ON$' build/dev/CMakeCache.txt; then
    flags=build/lint
    cmake --preset dev -B "$flags" >build/lint.log 2>&1 || { tail -n 20 build/lint.log >&2 && return 1; }
  fi
  mapfile -t todo < <(tidy_files)
  if [[ ${#todo[@]} -eq 0 ]]; then echo "no C++ source has changed" && return; fi
  out=$(mktemp -d)
  # One process a file, as many as there are cores; a file is not started when the budget is spent.
  # shellcheck disable=SC2016
  printf '%s\n' "${todo[@]}" | xargs -P "$(nproc)" -I FILE bash -c '
    file=$1 out=$2 deadline=$3 flags=$4
    if [[ $deadline -gt 0 && $(date +%s) -ge $deadline ]]; then echo "$file" >>"$out/left"; exit 0; fi
    # The flags are those of GCC: what clang does not know is no finding.
    clang-tidy --quiet -p "$flags" --warnings-as-errors="*" --extra-arg=-Wno-unknown-warning-option "$file" \
      >"$out/$(echo "$file" | tr / _).txt" 2>/dev/null || echo "$file" >>"$out/failed"
  ' _ FILE "$out" "$((budget > 0 ? $(date +%s) + budget : 0))" "$flags"
  cat "$out"/*.txt 2>/dev/null | sort -u -t: -k1,3 -s | grep -E '^/.*(warning|error):' || true
  if [[ -f $out/left ]]; then warn "clang-tidy: the budget of $budget s was spent; not looked at: $(sort "$out/left" | tr '\n' ' ')"; fi
  touch "$out/left"
  echo "clang-tidy: $((${#todo[@]} - $(wc -l <"$out/left"))) of ${#todo[@]} files looked at"
  local result=0
  if [[ -f $out/failed ]]; then result=1; fi
  rm -rf "$out"
  return "$result"
}

check "layers" python3 scripts/check_layers.py
check "streams" python3 scripts/check_streams.py
check "packages" python3 scripts/check_packages.py
check "links" python3 scripts/check_links.py
check "machine paths" check_machine_paths
check "shell scripts" check_shell
check "format" check_format
warn_about_size
if [[ $tidy != none ]]; then check "clang-tidy ($tidy)" check_tidy; fi

if [[ ${#failed[@]} -gt 0 ]]; then
  IFS=, && die "lint: not clean: ${failed[*]}"
fi
say "lint: clean"
