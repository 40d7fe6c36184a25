#!/bin/sh
# Puts camd, camtop, the tests and all they need into one relocatable folder that runs on any Linux with glibc 2.36 or
# later; on machines with an NVIDIA driver it uses the GPU. The C and C++ run-time libraries and the loader come from
# the machine it runs on.
set -eu

usage() {
  cat <<'TEXT'
usage: scripts/bundle.sh [--build DIR] [--out DIR] [--no-tests] [--archive]

  --build DIR   a finished build (default: build)
  --out DIR     the folder to make (default: dist/camd); replaced if it is there
  --no-tests    leave the tests out
  --archive     also write DIR.tar.xz; fails if it is larger than 64 MiB

In the folder: bin/ (start these), libexec/ (the programs themselves), lib/, lib/gstreamer-1.0/, models/.
TEXT
}

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build
out=$root/dist/camd
tests=yes
archive=no
limit_bytes=$((64 * 1024 * 1024))

while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --no-tests) tests=no; shift ;;
    --archive) archive=yes; shift ;;
    --help|-h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

[ -d "$build/bin" ] || { echo "bundle.sh: no build in $build: run cmake and ninja first" >&2; exit 2; }
case $out in */*) ;; *) out=./$out ;; esac
rm -rf "$out"
mkdir -p "$out/bin" "$out/libexec" "$out/lib/gstreamer-1.0" "$out/models"

# What every machine has in its own, fitting form. libstdc++ is older here than wherever this bundle may run.
system_library() {
  case $1 in
    ld-linux*|libc.so*|libm.so*|libdl.so*|librt.so*|libpthread.so*|libresolv.so*|libutil.so*|libanl.so*|libnss_*) return 0 ;;
    libstdc++.so*|libgcc_s.so*) return 0 ;;
    libcuda.so*|libnvidia*) return 0 ;;
    *) return 1 ;;
  esac
}

copy_libraries_of() {
  ldd "$1" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | while read -r library; do
    name=$(basename "$library")
    if system_library "$name" || [ -e "$out/lib/$name" ]; then continue; fi
    cp -L "$library" "$out/lib/$name"
  done
}

# $1: a program. Goes to libexec/, with a starter in bin/ that finds the libraries from wherever the folder lies.
add_program() {
  name=$(basename "$1")
  cp -L "$1" "$out/libexec/$name"
  strip --strip-unneeded "$out/libexec/$name" 2>/dev/null || true
  copy_libraries_of "$1"
  cat > "$out/bin/$name" <<'STARTER'
#!/bin/sh
here=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd)
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
if [ -n "$(ls -A "$here/lib/gstreamer-1.0" 2>/dev/null)" ]; then
  export GST_PLUGIN_SYSTEM_PATH_1_0="$here/lib/gstreamer-1.0"
  export GST_PLUGIN_SCANNER_1_0="$here/libexec/gst-plugin-scanner"
  export GST_REGISTRY_1_0="${GST_REGISTRY_1_0:-${XDG_CACHE_HOME:-${TMPDIR:-/tmp}}/camd-gstreamer-registry.bin}"
fi
# The tests look for models/ here, not where they were built.
export CAMD_TEST_SOURCE_DIR="${CAMD_TEST_SOURCE_DIR:-$here}"
exec "$here/libexec/$(basename "$0")" "$@"
STARTER
  chmod 755 "$out/bin/$name"
}

for program in "$build/bin"/*; do
  if [ ! -f "$program" ] || [ ! -x "$program" ]; then continue; fi
  case $(basename "$program") in
    camd|camd-plugin|camtop) ;;
    *) [ $tests = yes ] || continue ;;
  esac
  add_program "$program"
done

# Our own plug-ins, where the build made any.
if [ -d "$build/lib" ]; then
  mkdir -p "$out/lib/camd"
  find "$build/lib" -name '*.so' -type f | while read -r plugin; do
    cp -L "$plugin" "$out/lib/camd/"
    copy_libraries_of "$plugin"
  done
fi
# What plug-ins in Python need, where camd-plugin looks for it.
if [ -d "$build/lib/python" ]; then
  mkdir -p "$out/lib/python"
  cp -L "$build/lib/python"/camd_*.* "$out/lib/python/"
fi

# The GStreamer plug-ins that camd's sources use, and NVIDIA's decoders, which find the driver by themselves. H.264 is
# decoded by openh264 where no GPU does it: libav would bring 150 MiB of codecs.
if command -v pkg-config >/dev/null && pkg-config --exists gstreamer-1.0; then
  plugins=$(pkg-config --variable=pluginsdir gstreamer-1.0)
  for name in coreelements coretracers typefindfunctions playback app videoconvertscale videoconvert videoscale videorate \
    videotestsrc video4linux2 isomp4 matroska avi videoparsersbad jpeg rtp rtpmanager rtsp udp tcp \
    sdpelem nvcodec openh264 jpegformat x264 png multifile rawparse videofilter audiotestsrc audioconvert mulaw debugutilsbad; do
    plugin=$plugins/libgst$name.so
    [ -e "$plugin" ] || continue
    cp -L "$plugin" "$out/lib/gstreamer-1.0/"
    copy_libraries_of "$plugin"
  done
  scanner=$(pkg-config --variable=pluginscannerdir gstreamer-1.0)/gst-plugin-scanner
  [ -e "$scanner" ] && cp -L "$scanner" "$out/libexec/"
fi

cp "$root"/models/*.onnx "$root"/models/*.yaml "$out/models/"
find "$out/lib" -name '*.so*' -type f -exec strip --strip-unneeded {} + 2>/dev/null || true

echo "$out: $(du -sm "$out" | cut -f1) MiB, $(find "$out/bin" -type f | wc -l) programs, $(find "$out/lib" -name '*.so*' | wc -l) libraries"
if [ $archive = yes ]; then
  tar -C "$(dirname "$out")" -cf - "$(basename "$out")" | xz -T0 -6 > "$out.tar.xz"
  bytes=$(wc -c < "$out.tar.xz")
  echo "$out.tar.xz: $bytes bytes"
  if [ "$bytes" -gt "$limit_bytes" ]; then
    echo "bundle.sh: $out.tar.xz is larger than $limit_bytes bytes" >&2
    exit 1
  fi
fi
