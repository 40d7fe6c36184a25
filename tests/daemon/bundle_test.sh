#!/bin/sh
# A bundle runs from wherever it was moved to, with an empty environment and with its own libraries.
#   bundle_test.sh SOURCE BUILD WORK
set -eu
source=$1 build=$2 work=$3

fail() {
  echo "bundle_test: $*" >&2
  exit 1
}

rm -rf "$work"
mkdir -p "$work"
sh "$source/scripts/bundle.sh" --build "$build" --out "$work/made/camd" --no-tests
mv "$work/made/camd" "$work/moved here"
camd="$work/moved here/bin/camd"
cd /

# What a bundled test is told of its place: a stand-in beside the real programs says where it would look for models.
cp "$camd" "$work/moved here/bin/where"
# shellcheck disable=SC2016  # the stand-in expands it
printf '#!/bin/sh\necho "$CAMD_TEST_SOURCE_DIR"\n' > "$work/moved here/libexec/where"
chmod 755 "$work/moved here/libexec/where"
[ "$(env -i "$work/moved here/bin/where")" = "$work/moved here" ] || fail "tests would not look into the bundle"

env -i "$camd" version | grep -q '^camd [0-9]' || fail "camd version says nothing"

cat > "$work/run.yaml" <<YAML
device: host
model: {path: "$work/moved here/models/marker-640x360.onnx"}
cameras:
  - name: clip
    source: {type: file, path: "$source/models/demo/demo.mp4", realtime: false}
postprocess:
  - plugin: detections
  - plugin: jsonl
    config: {path: "$work/detections.jsonl"}
YAML
env -i "$camd" check "$work/run.yaml" | grep -q '^ok' || fail "camd check did not say ok"

env -i TMPDIR="$work" "$camd" run "$work/run.yaml" --metrics json --frames 5 > "$work/metrics.jsonl" 2> "$work/log" ||
  { cat "$work/log" >&2 && fail "camd run failed"; }
tail -n 1 "$work/metrics.jsonl" | grep -q '"event":"stop".*"exit_code":0' || fail "no stop line with exit code 0"
[ "$(grep -c '"detections":\[{' "$work/detections.jsonl")" -ge 5 ] || fail "fewer than 5 frames with detections"

# What is not in the bundle is the C and C++ run-time and nothing else.
LD_LIBRARY_PATH="$work/moved here/lib" ldd "$work/moved here/libexec/camd" "$work/moved here/lib/gstreamer-1.0/"*.so |
  sed -n 's/.*=> \(\/[^ ]* *[^(]*\) (0x.*/\1/p' | grep -vF "$work/moved here/" | sort -u > "$work/outside" || true
others=$(grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)\.so[.0-9]*$' "$work/outside" || true)
[ -z "$others" ] || fail "the bundle leaves to the system: $others"
rm -rf "$work"
