"""Measures the exported detector over the range of sizes: photos with one code, cut and scaled so that the code's height is a
given share of the picture's, and frames without a code.

  python3 models/marker/evaluate_sizes.py --model models/marker-640x360.onnx --shared ../shared
  python3 models/marker/evaluate_sizes.py --model models/marker-1280x720.onnx --shared ../shared

Pictures have the network's size, what lies outside of a photo is grey. The last row of a table is the photos as they are,
letterboxed. `--every N` looks at each Nth frame of the videos. Exit status 1 when a bound is missed. Needs no torch.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from detector import Detector, overlaps

SMALL = (24, 30, 36)  # pixels of the network's input
SHARES = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
RECALL, ERROR = 0.97, 0.02  # bounds for the photos as they are


@dataclass
class Row:
    """What the detector makes of all photos at one size."""

    share: float | None  # of the picture's height; None: the photos as they are
    pixels: float
    recall: float
    error: float  # median of the corners' mean distance from the truth, as a share of the side
    error_90: float  # 90th percentile
    others: int  # boxes that are none of the code


def placed(photo: np.ndarray, corners: np.ndarray, share: float, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """The photo so that its code is in the middle and `share` of the picture high; and the corners there."""
    scale = share * height / np.ptp(corners[:, 1])
    middle = (corners.min(axis=0) + corners.max(axis=0)) / 2
    shift = np.array([width - 1, height - 1]) / 2 - middle * scale
    if scale < 1:  # first by area, then moved: a camera does not skip pixels
        photo = cv2.resize(photo, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        corners = corners + (0.5 - 0.5 / scale)  # resize() keeps the edges of pixels in place, not their middles
    turn = np.array([[max(1.0, scale), 0, shift[0]], [0, max(1.0, scale), shift[1]]])
    return cv2.warpAffine(photo, turn, (width, height), borderValue=(114, 114, 114)), corners * scale + shift


def measure(detector: Detector, photos: list[tuple[np.ndarray, np.ndarray]], score: float | None = None) -> Iterator[Row]:
    """Codes from 24 pixels to 95 % of the network's height, then the photos as they are; at the card's score where none is given."""
    for share in (*(pixels / detector.height for pixels in SMALL), *SHARES, None):
        errors, others = [], 0
        for photo, corners in photos:
            picture, there = (photo, corners) if share is None else placed(photo, corners, share, detector.width, detector.height)
            got = detector.detect(picture, score)
            box = np.concatenate((there.min(axis=0), there.max(axis=0)))
            same = overlaps(box, got.boxes) * (got.classes == 0) if len(got.scores) else np.zeros(1)
            hit = same.max() >= 0.5
            others += len(got.scores) - hit
            if hit:
                side = np.linalg.norm(there - np.roll(there, 1, axis=0), axis=1).mean()
                errors.append(np.linalg.norm(got.points[same.argmax()][:4] - there, axis=1).mean() / side)
        error, error_90 = (float(np.quantile(errors, q)) if errors else 1.0 for q in (0.5, 0.9))
        yield Row(share, (share or 0) * detector.height, len(errors) / len(photos), error, error_90, int(others))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = Path(__file__).resolve().parent.parent
    parser.add_argument("--model", type=Path, default=here / "marker-640x360.onnx")
    parser.add_argument("--card", type=Path, help="instead of the one beside the model")
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--score", type=float, help="instead of the card's")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    detector = Detector(args.model, args.card, threads=1)
    folder = args.shared / "photos" / "qr"
    with (folder / "corners.csv").open(newline="") as file:
        photos = [(cv2.imread(str(folder / r["file"])), np.array([[float(r[f"x{i}"]), float(r[f"y{i}"])] for i in range(4)]))
                  for r in csv.DictReader(file)]  # fmt: skip
    print("| code's share of the height | pixels | recall | median corner error / side | 90th percentile | other boxes |\n|---|---|---|---|---|---|")
    fine = True
    for row in measure(detector, photos, args.score):
        name, pixels = ("as it is", "") if row.share is None else (f"{row.share:.3f}", f"{row.pixels:.0f}")
        print(f"| {name} | {pixels} | {row.recall:.3f} | {row.error:.4f} | {row.error_90:.3f} | {row.others} |", flush=True)
        if row.share is None:
            fine = row.recall >= RECALL and row.error <= ERROR
    frames = alarms = 0
    for path in sorted((args.shared / "video").glob("*.m[kp][v4]")):
        video = cv2.VideoCapture(str(path))
        while video.grab():
            if frames % args.every == 0:
                alarms += len(detector.detect(video.retrieve()[1], args.score).scores)
            frames += 1
    print(f"\nvideos: {frames} frames, each {args.every}. looked at: {alarms} false alarms")
    sys.exit(0 if fine and alarms == 0 else 1)


if __name__ == "__main__":
    main()
