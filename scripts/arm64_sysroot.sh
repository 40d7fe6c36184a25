#!/bin/sh
# Puts what camd needs of Debian's arm64 packages into one folder, to build for 64-bit ARM on another machine. Nothing is
# installed: apt has a state of its own there, so this machine's packages stay as they are.
set -eu

usage() {
  cat <<'TEXT'
usage: scripts/arm64_sysroot.sh FOLDER

The packages are those of scripts/packages.txt that programs are compiled with, and GStreamer's plug-ins. Needs apt, dpkg-deb and the sources of
Debian 12 that this machine has. A folder that has them already is left as it is. With the folder:

  sudo apt-get install g++-12-aarch64-linux-gnu qemu-user-static
  CAMD_ARM64_SYSROOT=FOLDER cmake --preset arm64 && cmake --build --preset arm64 && ctest --preset arm64
TEXT
}

case ${1:-} in
  ''|--help|-h) usage; exit 2 ;;
esac
mkdir -p "$1"
folder=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
# Libraries (names that end in -dev) and GStreamer's plug-ins. Tools are this machine's.
packages=$(awk '!/^#/ && ($1 ~ /-dev$/ || $1 ~ /^gstreamer1/) && $1 != "dpkg-dev" && ($2 == "demo" || $2 == "test") { print $1 }' \
  "$root/scripts/packages.txt" && echo libstdc++-12-dev)
# A folder that was made from other rows is made up to date.
if [ -f "$folder/complete" ] && [ "$(cat "$folder/complete")" = "$packages" ]; then exit 0; fi
rm -f "$folder/complete"
state=$folder/.apt
mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
: > "$state/status"

apt() {
  apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$state" -o Dir::State::status="$state/status" \
    -o Dir::Cache="$state/cache" -o Debug::NoLocking=true "$@"
}

apt update
# shellcheck disable=SC2086  # a list of words
apt install -y --no-install-recommends --download-only $packages
# Packages of no architecture are fonts, icons and the like, but for headers.
find "$state/cache/archives" -name '*.deb' ! \( -name '*_all.deb' ! -name '*-dev_*' \) -print0 |
  xargs -0 -P "$(nproc)" -I '{}' dpkg-deb -x '{}' "$folder"
# What dpkg would know of their libraries: dpkg-shlibdeps asks it what a package for arm64 depends on.
known=$folder/var/lib/dpkg
rm -rf "$known"
mkdir -p "$known/info" "$known/updates"
echo 1 >"$known/info/format"
for package in "$state"/cache/archives/*.deb; do
  case $package in *_all.deb | *-dev_*) continue ;; esac
  mkdir "$known/one"
  dpkg-deb -e "$package" "$known/one"
  if [ -f "$known/one/shlibs" ]; then
    name=$(sed -n 's/^Package: //p' "$known/one/control")
    if grep -q '^Multi-Arch: same' "$known/one/control"; then name=$name:arm64; fi
    { sed '/^Package: /a Status: install ok installed' "$known/one/control" && echo; } >>"$known/status"
    for file in shlibs symbols; do
      if [ -f "$known/one/$file" ]; then mv "$known/one/$file" "$known/info/$name.$file"; fi
    done
    sed -n "s|^[0-9a-f]*  \(.*\.so\..*\)|$folder/\1|p" "$known/one/md5sums" >"$known/info/$name.list"
  fi
  rm -rf "$known/one"
done
rm -rf "$state/cache/archives"
# Links of packages are absolute where they lead out of their folder.
find "$folder" -type l -lname '/*' | while read -r link; do
  target=$(readlink "$link")
  [ -e "$folder$target" ] && ln -sfn "$(realpath --relative-to="$(dirname "$link")" "$folder$target")" "$link"
done
# What the packages' scripts would have linked (update-alternatives).
libraries=$folder/usr/lib/aarch64-linux-gnu
ln -sfn lapack/liblapack.so.3 "$libraries/liblapack.so.3"
ln -sfn blas/libblas.so.3 "$libraries/libblas.so.3"
printf '%s\n' "$packages" >"$folder/complete"
echo "arm64_sysroot.sh: $folder has $(du -sm "$folder" | cut -f1) MiB"
