#!/bin/sh
# Makes the clips that scripts/measure_cameras.py and the tests of GPU decoding play, from the demo clip.
set -eu

usage() {
  cat <<'TEXT'
usage: scripts/make_clips.sh DIR [CLIP]

  DIR    where the clips go
  CLIP   what they are made from (default: models/demo/demo.mp4)

  h264-720p.mp4 h264-1080p.mp4 h265-720p.mp4        10 s at 30 frames a second, 3 Mbit/s (1080p: 6)
  short/*                                           2 s of each codec: bframes, interlaced, 10 bits, two sizes, ...
Needs gst-launch-1.0 and the plug-ins x264, x265, vpx, aom.
TEXT
}

case ${1:-} in ""|-h|--help) usage; exit 0 ;; esac
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$1
clip=${2:-$root/models/demo/demo.mp4}
[ -f "$clip" ] || { echo "make_clips.sh: $clip: no such file" >&2; exit 2; }
mkdir -p "$dir/short"

# $1: file, $2: width, $3: height, $4: pictures, then the encoder and what follows it.
make() {
  file=$1 width=$2 height=$3 pictures=$4
  shift 4
  # shellcheck disable=SC2086
  gst-launch-1.0 -q multifilesrc location="$clip" loop=true ! decodebin ! videoconvert ! videoscale ! videorate ! \
    "video/x-raw,format=${format:-I420},width=$width,height=$height,framerate=30/1" ! identity eos-after="$pictures" ! \
    "$@" ! filesink location="$dir/$file"
  echo "$dir/$file: $(wc -c < "$dir/$file") bytes"
}

x264="x264enc bitrate=3000 speed-preset=veryfast key-int-max=60"
# shellcheck disable=SC2086
{
  make h264-720p.mp4 1280 720 301 $x264 bframes=0 ! h264parse ! mp4mux
  make h264-1080p.mp4 1920 1080 301 x264enc bitrate=6000 speed-preset=veryfast key-int-max=60 bframes=0 ! h264parse ! mp4mux
  make h265-720p.mp4 1280 720 301 x265enc bitrate=3000 speed-preset=superfast key-int-max=60 ! h265parse ! mp4mux
  make short/h264-bframes.mp4 640 360 61 x264enc bitrate=800 bframes=3 b-adapt=false key-int-max=30 ! h264parse ! mp4mux
  make short/h264-interlaced.mp4 640 352 61 interlace ! x264enc bitrate=800 interlaced=true ! h264parse ! mp4mux
  make short/h264-odd.mp4 638 358 61 x264enc bitrate=800 ! h264parse ! mp4mux
  format=I420_10LE make short/h265-10bit.mp4 640 360 61 x265enc bitrate=800 speed-preset=superfast ! h265parse ! mp4mux
  make short/vp9.webm 640 360 61 vp9enc target-bitrate=800000 cpu-used=8 deadline=1 ! webmmux
  make short/vp8.webm 640 360 61 vp8enc target-bitrate=800000 cpu-used=8 deadline=1 ! webmmux
  make short/av1.mp4 640 360 31 av1enc target-bitrate=800 cpu-used=8 ! av1parse ! mp4mux
  make short/jpeg.mkv 640 360 31 jpegenc ! matroskamux
  make short/small.h264 320 240 31 $x264 ! "video/x-h264,stream-format=byte-stream"
  make short/large.h264 640 360 31 $x264 ! "video/x-h264,stream-format=byte-stream"
  cat "$dir/short/small.h264" "$dir/short/large.h264" > "$dir/short/two-sizes.h264"
  rm "$dir/short/small.h264" "$dir/short/large.h264"
}
# Damaged on its way: 64 bytes in every 16 KiB are not what they were.
python3 - "$dir/h264-720p.mp4" "$dir/short/damaged.mp4" <<'PYTHON'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
begin = data.find(b"mdat") + 4096
end = min(len(data), data.find(b"moov") if data.find(b"moov") > begin else len(data))
for at in range(begin, end - 4096, 16384):
    for i in range(64):
        data[at + i] ^= (at * 31 + i * 7) & 255
open(sys.argv[2], "wb").write(data)
PYTHON
