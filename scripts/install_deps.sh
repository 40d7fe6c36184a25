#!/usr/bin/env bash
# Installs the Debian packages that camd needs. Does nothing, quickly, when all are there.
#
#   scripts/install_deps.sh [--list | --check] [SET...]
#
# Sets (scripts/packages.txt): demo (build and run camd), test, lint, arm64, dev. Without one: demo test lint.
#   --list    print the packages of the sets and stop
#   --check   install nothing; exit 1 and name what is missing
#   --help    this text
#
# Runs apt-get as root or through sudo; refreshes apt's lists when there are none or when an installation fails.
# Written for Debian 12; on other systems it names what has to be there.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mode=install
sets=()
for argument in "$@"; do
  case "$argument" in
    -h | --help) manual_of "$0" && exit 0 ;;
    --list | --check) mode=${argument#--} ;;
    demo | test | lint | arm64 | dev) sets+=("$argument") ;;
    *) die "unknown argument \"$argument\"; see $0 --help" ;;
  esac
done
[[ ${#sets[@]} -gt 0 ]] || sets=(demo test lint)

wanted=()
while read -r package set _; do
  [[ -n "$package" && "$package" != \#* ]] || continue
  for chosen in "${sets[@]}"; do
    if [[ "$set" == "$chosen" ]]; then wanted+=("$package"); fi
  done
done <"$repo/scripts/packages.txt"

if [[ $mode == list ]]; then
  printf '%s\n' "${wanted[@]}"
  exit 0
fi

if ! have apt-get || ! have dpkg-query; then
  if [[ $mode == check ]]; then die "no apt-get here: cannot tell which packages are installed"; fi
  warn "this is not Debian or Ubuntu: install the counterparts of these packages yourself, then run the command again"
  printf '  %s\n' "${wanted[@]}" >&2
  exit 1
fi

installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/^installed //p' || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done
if [[ ${#missing[@]} -eq 0 ]]; then exit 0; fi
if [[ $mode == check ]]; then die "packages are missing: ${missing[*]} (scripts/install_deps.sh ${sets[*]} installs them)"; fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  have sudo || die "packages are missing and this is not root, nor is there sudo. As root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}
refreshed=no
refresh() {
  say "refreshing apt's package lists"
  apt update
  refreshed=yes
}
say "installing ${#missing[@]} packages and what they need: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  # Hundreds of lines of unpacking say nothing; they are shown when something goes wrong.
  apt install --no-install-recommends "${missing[@]}" >"$log" 2>&1
}
if [[ -z $(find /var/lib/apt/lists -maxdepth 1 -name '*Packages*' -print -quit) ]]; then refresh; fi
if ! install; then
  if [[ $refreshed == no ]]; then refresh; fi
  if ! install; then
    tail -n 40 "$log" >&2
    die "apt-get could not install them; its last lines are above"
  fi
fi
sed -n '/newly installed/p; /^Need to get/p; /^Fetched/p' "$log"
say "packages are installed"
