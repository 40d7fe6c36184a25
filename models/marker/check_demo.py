"""Checks what camd found in the demo clip against its truth: every code that is fully in view and larger than
32 px must be found (same class, IoU at least 0.5) in at least 98 % of its frames. Where detections have a text (the plug-in
`codes`), every such code must have been read within 30 frames of its first, with the text that is printed there, and never
have another. The table says after how many frames and at which size it was read, and in which share of the frames since then
it had its text: one that was covered is read anew.

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
from dataclasses import dataclass
from pathlib import Path

MIN_SIZE_PX, MIN_IOU, MIN_SHARE = 32.0, 0.5, 0.98
READ_WITHIN = 30  # frames
TEXTS = {  # what make_demo.py prints
    "room-qr": "https://example.org/room/12", "wifi-qr": "WIFI:S:lab;;", "tag-wall-marker": "apriltag_36h11:7",
    "small-wall-marker": "aruco_4x4_50:27", "wheel-marker": "aruco_5x5_100:47", "box-qr": "SN 4471-0090",
    "box-marker": "aruco_6x6_250:27", "cart-marker": "aruco_4x4_50:37", "card-qr": "https://example.org/cam",
}  # fmt: skip
Box = tuple[float, float, float, float]  # x0 y0 x1 y1


@dataclass
class Wanted:
    name: str
    class_name: str
    box: Box
    size: float  # mean side, pixels


@dataclass
class Reading:
    """Of one code, over the frames that were delivered."""

    first: int | None = None  # frame of the first text, and the code's size there
    size: float = 0.0
    frames: int = 0  # since then
    right: int = 0
    wrong: int = 0
    begun: int = 0  # first frame in which it was wanted


def read_truth(path: Path) -> tuple[dict[int, list[Wanted]], int]:
    """Wanted codes by frame, and the number of frames."""
    wanted: dict[int, list[Wanted]] = defaultdict(list)
    frames = 0
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            frames = max(frames, int(row["frame"]) + 1)
            if row["fully_in_view"] != "1" or float(row["size_px"]) <= MIN_SIZE_PX:
                continue
            x, y = ([float(row[f"{axis}{i}"]) for i in range(4)] for axis in "xy")
            wanted[int(row["frame"])].append(Wanted(row["code"], row["class"], (min(x), min(y), max(x), max(y)), float(row["size_px"])))
    return wanted, frames


def iou(a: Box, b: Box) -> float:
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    return w * h / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h)


def report(frames: Iterable[tuple[int, list[tuple[str, Box, str]]]], truth: Path) -> bool:
    """Prints the table for (frame number, [(class, box, text)]); true when the bounds hold."""
    wanted, length = read_truth(truth)
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    readings: dict[str, Reading] = {}
    seen: set[int] = set()
    for number, detections in frames:
        frame = number % length  # a looping source counts on
        seen.add(frame)
        for code in wanted[frame]:
            hits = [text for c, b, text in detections if c == code.class_name and iou(b, code.box) >= MIN_IOU]
            found[code.name][0] += bool(hits)
            found[code.name][1] += 1
            reading = readings.setdefault(code.name, Reading(begun=number))
            take_text(reading, number, code, next((text for text in hits if text), ""))
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
    return report_texts(readings) and fine


def take_text(reading: Reading, number: int, code: Wanted, text: str) -> None:
    if text and reading.first is None:
        reading.first, reading.size = number, code.size
    reading.frames += reading.first is not None
    reading.right += text == TEXTS[code.name]
    reading.wrong += text not in ("", TEXTS[code.name])


def report_texts(readings: dict[str, Reading]) -> bool:
    if all(reading.first is None for reading in readings.values()):
        return True  # nobody reads codes here
    fine = True
    print(f"\n{'code':20} {'read after':>10} {'size then':>9}  text in later frames")
    for name, reading in sorted(readings.items()):
        after = None if reading.first is None else reading.first - reading.begun
        kept = reading.right / max(1, reading.frames)
        good = after is not None and after <= READ_WITHIN and reading.wrong == 0
        fine &= good
        where = f"{after:3} frames {reading.size:6.0f} px" if after is not None else f"{'never':>20}"
        print(f"{name:20} {where}  {kept:6.1%} \"{TEXTS[name]}\"{'' if good else f'  MISSED, {reading.wrong} wrong'}")
    return fine


def read_jsonl(path: Path) -> Iterable[tuple[int, list[tuple[str, Box, str]]]]:
    with path.open() as file:
        for line in file:
            row = json.loads(line)
            boxes = [(d["class"], (d["box"][0], d["box"][1], d["box"][0] + d["box"][2], d["box"][1] + d["box"][3]), d.get("text", ""))
                     for d in row["detections"]]  # fmt: skip
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
