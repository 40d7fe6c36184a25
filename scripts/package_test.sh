#!/usr/bin/env bash
# Installs, runs, upgrades and purges the Debian packages in a fresh Debian, and starts the service in a virtual machine.
# By hand: it downloads some 200 MB from Debian's mirror and takes minutes, so continuous integration does not run it.
#
#   scripts/package_test.sh [--packages DIR] [--boot]
#
#   --packages DIR   what scripts/package.sh made (default: dist)
#   --boot           also boot that Debian in QEMU (package qemu-system-x86): the service under systemd with all that its
#                    unit forbids, reload, a plug-in's process, the watchdog
#   --help           this text
#
# As root, with Debian's packages mmdebstrap and gcc. Works in build/package-test.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$repo"

# A name space of its own for /proc and /dev of the other root: they go with this script.
if [[ $(id -u) -eq 0 && -z ${CAMD_PACKAGE_TEST:-} ]]; then
  CAMD_PACKAGE_TEST=1 exec unshare --mount "$0" "$@"
fi

packages=dist
boot=no
while [[ $# -gt 0 ]]; do
  case "$1" in
    -h | --help) manual_of "scripts/package_test.sh" && exit 0 ;;
    --packages) [[ $# -ge 2 ]] || die "--packages needs a folder"; packages=$2 && shift ;;
    --boot) boot=yes ;;
    *) die "unknown argument \"$1\"; see scripts/package_test.sh --help" ;;
  esac
  shift
done
[[ $(id -u) -eq 0 ]] || die "only root can install packages in another root"
for tool in mmdebstrap gcc dpkg-deb; do have "$tool" || die "$tool is missing"; done

work=build/package-test
root=$work/root
mkdir -p "$work"
debs=("$packages"/camd_*.deb "$packages"/camd-dev_*.deb)
for deb in "${debs[@]}"; do [[ -f $deb ]] || die "$deb is missing: scripts/package.sh"; done

inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive "$@"; }
must() { # WHAT COMMAND...
  local what=$1
  shift
  "$@" >"$work/last.log" 2>&1 || { tail -n 30 "$work/last.log" >&2 && die "$what"; }
  say "ok: $what"
}
must_not() {
  local what=$1
  shift
  if "$@" >"$work/last.log" 2>&1; then die "$what"; fi
  say "ok: $what"
}
as_camd() { inside setpriv --reuid camd --regid camd --init-groups env HOME=/var/lib/camd "$@"; }

if [[ ! -s $work/base.tar ]]; then
  say "a fresh Debian (mmdebstrap)"
  mmdebstrap --variant=minbase --include=systemd-sysv,udev,dbus,linux-image-cloud-amd64,initramfs-tools \
    --aptopt='Apt::Install-Recommends "false"' bookworm "$work/base.tar" >"$work/mmdebstrap.log" 2>&1 ||
    { tail -n 20 "$work/mmdebstrap.log" >&2 && rm -f "$work/base.tar" && die "mmdebstrap failed"; }
fi
rm -rf "$root"
mkdir -p "$root"
tar -C "$root" -xf "$work/base.tar"
mount_system() { mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev"; }
mount_system
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
cp "${debs[@]}" "$root/srv/"
cp /etc/resolv.conf "$root/etc/resolv.conf"
names=()
for deb in "${debs[@]}"; do names+=("/srv/$(basename "$deb")"); done

# ---- Install
say "installing"
must "apt-get update" inside apt-get -q update
must "apt-get install of both packages, with what they depend on and nothing more" \
  inside apt-get -q -y --no-install-recommends install "${names[@]}"
must "the user camd is there, and in the group video" inside sh -c 'id -nG camd | grep -qw video'
must "the service is enabled" inside systemctl is-enabled camd.service
must "the unit is right" inside systemd-analyze verify --man=no camd.service
must "camd version" inside camd version
must "camd check of the configuration that is installed" inside camd check /etc/camd/camd.yaml

# ---- Run
install -d -m 750 "$root/var/lib/camd"
inside chown camd:camd /var/lib/camd
# shellcheck disable=SC2016  # the shell inside expands it
must "the installed configuration runs as the user camd and delivers frames" as_camd sh -c \
  'cd && camd run /etc/camd/camd.yaml --frames 2 --metrics json | tail -n 1 | grep -q "\"exit_code\":0"'
cat >"$work/forbidden.c" <<'C'
#include <stdio.h>
__attribute__((constructor)) static void try_to_write(void) {
  FILE* file = fopen("/var/lib/camd/forbidden", "w");
  if (file != NULL) fclose(file);
}
C
must "a plug-in compiles with the header of camd-dev alone" \
  gcc -shared -fPIC -DCAMD_PLUGIN_OWN_DLPACK "-I$root/usr/include" -o "$root/usr/local/lib/count.so" \
  "$root/usr/share/doc/camd-dev/examples/plugin/count.c" "$work/forbidden.c"
{ cat "$root/etc/camd/camd.yaml" && echo "  - plugin: /usr/local/lib/count.so"; } >"$root/srv/count.yaml"
must "it runs" as_camd sh -c 'cd && camd run /srv/count.yaml --frames 2 --metrics off 2>&1 | grep "detections in"'
must_not "its process may not write where the user camd may" test -e "$root/var/lib/camd/forbidden"
# shellcheck disable=SC2016
must "bash completes" inside bash -c '. /usr/share/bash-completion/completions/camd
  COMP_WORDS=(camd run --metrics d); COMP_CWORD=3; _camd; [[ ${COMPREPLY[*]} == dashboard ]]'
# shellcheck disable=SC2016
must "the manual pages are there" inside sh -c \
  'for page in man1/camd.1.gz man1/camtop.1.gz man5/camd.yaml.5.gz; do zcat /usr/share/man/$page | head -n 1 | grep -q "^.TH" || exit 1; done'

# ---- The next version
rm -rf "$work/next"
dpkg-deb -R "${debs[0]}" "$work/next"
sed -i 's/^Version: .*/&+next/' "$work/next/DEBIAN/control"
dpkg-deb --root-owner-group -b "$work/next" "$root/srv/next.deb" >/dev/null

# ---- Boot
if [[ $boot == yes ]]; then
  # shellcheck source=scripts/package_boot.sh
  source scripts/package_boot.sh
fi

# ---- Upgrade
say "upgrading"
echo "# mine" >>"$root/etc/camd/camd.yaml"
must "apt-get install of the next version" inside apt-get -q -y install /srv/next.deb
must "it is the next version" inside sh -c "dpkg-query -s camd | grep '^Version:.*+next'"
must "what was changed in the configuration is still there" grep -q '^# mine$' "$root/etc/camd/camd.yaml"
must "the service is still enabled" inside systemctl is-enabled camd.service

# ---- Remove and purge
say "removing"
must "apt-get remove" inside apt-get -q -y remove camd
must "the configuration stays" test -f "$root/etc/camd/camd.yaml"
must "apt-get purge" inside apt-get -q -y purge camd camd-dev
for left in etc/camd var/lib/camd usr/bin/camd usr/libexec/camd usr/lib/camd usr/share/camd usr/share/doc/camd; do
  must_not "nothing is left of /$left" test -e "$root/$left"
done
must_not "no link to the service is left" sh -c "find '$root/etc/systemd' -name 'camd*' | grep -q ."
say "all is well"
