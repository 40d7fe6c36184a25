#!/usr/bin/env python3
"""Measures the built-in `codes` on photos of QR codes: the share that is read and the time, beside the same library alone
on the whole picture.

  python3 -m venv ~/codes && ~/codes/bin/pip install onnxruntime opencv-python-headless pyyaml
  apt-get install python3-zxing-cpp    # Debian's, the version that camd links
  PYTHONPATH=/usr/lib/python3/dist-packages ~/codes/bin/python scripts/measure_codes.py --plugin build/release/lib/camd_plugin_codes.so ../shared/photos/qr

Each photo is put into a frame of 1280x720 at its own size and at 0.45 of it (no larger than the frame), found by the reference
detector at 640x360 in ONNX Runtime with one thread, and read. The detector's time stands apart: a camera's frame has paid
for it already.
"""

from __future__ import annotations

import argparse
import ctypes as c
import sys
import time
from pathlib import Path

import numpy as np

from plugin_interface import Detection, Picture, Plane, Plugin, PluginFrame

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO / "models" / "marker"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--plugin", type=Path, required=True, help="camd_plugin_codes.so")
    parser.add_argument("--model", type=Path, default=REPO / "models/marker-640x360.onnx")
    args = parser.parse_args()
    import cv2
    import zxingcpp

    from detector import Detector

    cv2.setNumThreads(1)
    detector = Detector(args.model, threads=1)
    names = detector.card["classes"]
    print("| size | photos | found | read by codes | read by ZXing alone | detector, ms | codes, ms | ZXing alone, ms |\n|---|---|---|---|---|---|---|---|")
    for scale in (1.0, 0.45):
        plugin = Plugin(args.plugin, {"tries": 20})
        found, read, alone, times = 0, 0, 0, [[], [], []]
        photos = sorted(args.photos.glob("*.png"))
        for photo in photos:
            picture = cv2.imread(str(photo))
            fit = min(1.0, 720 / picture.shape[0], 1280 / picture.shape[1]) * scale
            picture = cv2.resize(picture, None, fx=fit, fy=fit, interpolation=cv2.INTER_AREA)
            frame = np.full((720, 1280, 3), 114, np.uint8)
            y, x = (720 - picture.shape[0]) // 2, (1280 - picture.shape[1]) // 2
            frame[y : y + picture.shape[0], x : x + picture.shape[1]] = picture
            grey = np.ascontiguousarray(cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY))
            start = time.thread_time()
            got = detector.detect(frame)
            times[0].append(time.thread_time() - start)
            found += len(got.scores) > 0
            items = []
            for i in range(len(got.scores)):
                points = (c.c_float * 64)(*got.points[i].ravel())
                items.append(Detection(class_id=int(got.classes[i]), score=got.scores[i], class_name=names[got.classes[i]].encode(),
                                       keypoint_count=len(got.points[i]), keypoints=points))  # fmt: skip
            about = Picture(struct_size=c.sizeof(Picture), format=5, full_range=1, plane_count=1)
            about.planes[0] = Plane(grey.ctypes.data, 1280, 1280, 720)
            start = time.thread_time()
            after = plugin.process(PluginFrame(width=1280, height=720, picture=c.addressof(about)), items)
            times[1].append(time.thread_time() - start)
            read += any(d.text for d in after if d.class_name == b"qr")
            start = time.thread_time()
            whole = zxingcpp.read_barcodes(grey, formats=zxingcpp.BarcodeFormat.QRCode)
            times[2].append(time.thread_time() - start)
            alone += len(whole) > 0
        shown = " | ".join(f"{1e3 * float(np.median(t)):.2f}" for t in times)
        print(f"| {scale} | {len(photos)} | {found} | {read} | {alone} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
