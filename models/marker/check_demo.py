"""Checks what camd found in the demo clip against its truth: every code that is fully in view and larger than
32 px must be found (same class, IoU at least 0.5) in at least 98 % of its frames.

  camd run CONFIG --metrics off && python3 models/marker/check_demo.py out/detections.jsonl

Needs nothing but Python. Frames that camd did not deliver are not counted against it, but are reported.
Exit status: 0 all found, 1 bound missed, 2 nothing to check.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

MIN_SIZE_PX, MIN_IOU, MIN_SHARE = 32.0, 0.5, 0.98
Box = tuple[float, float, float, float]  # x0 y0 x1 y1


def read_truth(path: Path) -> tuple[dict[int, list[tuple[str, str, Box]]], int]:
    """Wanted codes (name, class, box) by frame, and the number of frames."""
    wanted: dict[int, list[tuple[str, str, Box]]] = defaultdict(list)
    frames = 0
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            frames = max(frames, int(row["frame"]) + 1)
            if row["fully_in_view"] != "1" or float(row["size_px"]) <= MIN_SIZE_PX:
                continue
            x, y = ([float(row[f"{axis}{i}"]) for i in range(4)] for axis in "xy")
            wanted[int(row["frame"])].append((row["code"], row["class"], (min(x), min(y), max(x), max(y))))
    return wanted, frames


def iou(a: Box, b: Box) -> float:
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    return w * h / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h)


def report(frames: Iterable[tuple[int, list[tuple[str, Box]]]], truth: Path) -> bool:
    """Prints the table for (frame number, [(class, box)]); true when the bound holds."""
    wanted, length = read_truth(truth)
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    seen: set[int] = set()
    for frame, detections in frames:
        frame %= length  # a looping source counts on
        seen.add(frame)
        for name, class_name, box in wanted[frame]:
            hit = any(c == class_name and iou(b, box) >= MIN_IOU for c, b in detections)
            found[name][0] += hit
            found[name][1] += 1
    if not found:
        print("no frame of the clip was delivered")
        return False
    fine = True
    print(f"{'code':20} {'found':>6} {'wanted':>6}  share")
    for name, (hits, total) in sorted(found.items()):
        share = hits / total
        fine &= share >= MIN_SHARE
        print(f"{name:20} {hits:6} {total:6}  {share:6.1%}{'' if share >= MIN_SHARE else f'  below {MIN_SHARE:.0%}'}")
    print(f"{len(seen)} of {length} frames seen")
    return fine


def read_jsonl(path: Path) -> Iterable[tuple[int, list[tuple[str, Box]]]]:
    with path.open() as file:
        for line in file:
            row = json.loads(line)
            boxes = [(d["class"], (d["box"][0], d["box"][1], d["box"][0] + d["box"][2], d["box"][1] + d["box"][3])) for d in row["detections"]]
            yield row["seq"], boxes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("detections", type=Path, help="what the jsonl plug-in wrote")
    parser.add_argument("--truth", type=Path, default=Path(__file__).parent.parent / "demo" / "truth.csv")
    args = parser.parse_args()
    if not args.detections.exists() or args.detections.stat().st_size == 0:
        print(f"{args.detections}: no detections to check")
        sys.exit(2)
    sys.exit(0 if report(read_jsonl(args.detections), args.truth) else 1)


if __name__ == "__main__":
    main()
