#!/usr/bin/env python3
"""Measures the built-in `codes` on drawn markers of all its families: the share that is read, corner error, pose error and
time, beside OpenCV's own detector on the whole picture.

  python3 -m venv ~/codes && ~/codes/bin/pip install onnxruntime opencv-python-headless pyyaml
  ~/codes/bin/python scripts/measure_markers.py --plugin build/release/lib/camd_plugin_codes.so

Each picture of 1280x720 shows one marker on a light sheet before a background of noise, seen by a pinhole camera. Its pose is drawn
by chance, and is the truth: nothing else decides where the corners are. It is found by the reference detector at 640x360.
`codes` is told the marker's family alone, and nothing of its pose; so is OpenCV.
"""

from __future__ import annotations

import argparse
import ctypes as c
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from plugin_interface import Detection, Picture, Plane, Plugin, PluginFrame

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO / "models" / "marker"))

FAMILIES = {"apriltag_16h5": "APRILTAG_16h5", "apriltag_25h9": "APRILTAG_25h9", "apriltag_36h10": "APRILTAG_36h10", "apriltag_36h11": "APRILTAG_36h11",
            "aruco_original": "ARUCO_ORIGINAL", "aruco_7x7_50": "7X7_50", "aruco_7x7_1000": "7X7_1000"}  # fmt: skip
FAMILIES |= {f"aruco_{n}x{n}_{k}": f"{n}X{n}_{k}" for n in (4, 5, 6) for k in (50, 100, 250, 1000)}
WIDTH, HEIGHT = 1280, 720
FOCAL = 1000.0
METRES = 0.1  # the marker's side
INTRINSICS = [FOCAL, FOCAL, (WIDTH - 1) / 2, (HEIGHT - 1) / 2]


@dataclass
class Kind:
    """Markers of one kind: side in pixels, turn in the picture's plane and tilt out of it in degrees, blur and noise."""

    name: str
    side: tuple[float, float] = (100, 160)
    turn: float = 5
    tilt: tuple[float, float] = (0, 5)
    blur: tuple[float, float] = (0.6, 0.6)  # deviation in pixels


KINDS = (
    Kind("from the front"),
    Kind("turned by any angle", turn=180),
    Kind("tilted by 30 to 60 degrees", turn=180, tilt=(30, 60)),
    Kind("24 to 40 pixels", side=(24, 40), turn=180, tilt=(0, 20)),
    Kind("40 to 70 pixels", side=(40, 70), turn=180, tilt=(0, 20)),
    Kind("300 to 500 pixels", side=(300, 500), turn=180, tilt=(0, 20)),
    Kind("blurred by 2 to 3 pixels", turn=180, tilt=(0, 20), blur=(2, 3)),
)


def rotation(axis: np.ndarray, degrees: float) -> np.ndarray:
    import cv2

    return cv2.Rodrigues(axis / np.linalg.norm(axis) * np.radians(degrees))[0]


def draw(rng: np.random.Generator, kind: Kind, modules: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The picture (grey), the marker's own corners in it, clockwise, and its rotation and position for the camera."""
    import cv2

    angle = rng.uniform(0, 2 * np.pi)
    turn = rotation(np.array([np.cos(angle), np.sin(angle), 0]), rng.uniform(*kind.tilt)) @ rotation(np.array([0, 0, 1.0]), rng.uniform(-kind.turn, kind.turn))
    far = FOCAL * METRES / rng.uniform(*kind.side)
    middle = np.array([rng.uniform(0.35, 0.65) * WIDTH, rng.uniform(0.42, 0.58) * HEIGHT]) - INTRINSICS[2:]
    place = np.array([*(middle / FOCAL * far), far])
    matrix = np.array([[FOCAL, 0, INTRINSICS[2]], [0, FOCAL, INTRINSICS[3]], [0, 0, 1]])

    def seen(points: np.ndarray) -> np.ndarray:
        there = (turn @ points.T).T + place
        return (matrix @ there.T).T[:, :2] / there[:, 2:]

    half, cells = METRES / 2, len(modules)
    corners = seen(np.array([[-half, -half, 0], [half, -half, 0], [half, half, 0], [-half, half, 0]]))
    # A sheet with two light cells around the marker, 16 texels a cell; drawn at four times the size, so that edges are as a lens shows them.
    texel = 16
    sheet = cv2.resize(cv2.copyMakeBorder(modules, 2, 2, 2, 2, cv2.BORDER_CONSTANT, value=235), None, fx=texel, fy=texel, interpolation=cv2.INTER_NEAREST)
    sheet = np.where(sheet < 128, 35, 235).astype(np.uint8)
    more = 4
    edge = 2 * texel - 0.5  # the marker's corner in the sheet, between two texels
    far_edge = edge + cells * texel
    from_sheet = np.array([[edge, edge], [far_edge, edge], [far_edge, far_edge], [edge, far_edge]], np.float32)
    to_picture = ((corners + 0.5) * more - 0.5).astype(np.float32)
    low = np.maximum(np.floor(seen_box(corners, cells)[0]), 0).astype(int)
    high = np.minimum(np.ceil(seen_box(corners, cells)[1]), [WIDTH, HEIGHT]).astype(int)
    size = (high - low) * more
    warp = cv2.getPerspectiveTransform(from_sheet, (to_picture - low * more).astype(np.float32))
    large = cv2.warpPerspective(sheet, warp, tuple(int(v) for v in size), flags=cv2.INTER_LINEAR)
    there = cv2.warpPerspective(np.full_like(sheet, 255), warp, tuple(int(v) for v in size), flags=cv2.INTER_LINEAR)
    small, share = (cv2.resize(x, None, fx=1 / more, fy=1 / more, interpolation=cv2.INTER_AREA).astype(np.float32) for x in (large, there))
    ground = cv2.resize(rng.uniform(90, 170, (9, 16)).astype(np.float32), (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    part = ground[low[1] : high[1], low[0] : high[0]]
    part[:] = part * (1 - share / 255) + small * share / 255
    picture = cv2.GaussianBlur(ground, (0, 0), rng.uniform(*kind.blur)) + rng.normal(0, 3, ground.shape)
    return picture.clip(0, 255).astype(np.uint8), corners, turn, place


def seen_box(corners: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Around marker and sheet, with room to spare."""
    reach = np.ptp(corners, axis=0).max() * (0.6 + 4 / cells)
    middle = corners.mean(axis=0)
    return middle - reach * 1.5, middle + reach * 1.5


@dataclass
class Row:
    pictures: int = 0
    found: int = 0
    read: int = 0
    wrong: int = 0
    alone: int = 0
    corner: list[float] = field(default_factory=list)  # of the side
    distance: list[float] = field(default_factory=list)  # of the distance
    angle: list[float] = field(default_factory=list)  # degrees
    own_ms: list[float] = field(default_factory=list)
    alone_ms: list[float] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", type=Path, required=True, help="camd_plugin_codes.so")
    parser.add_argument("--model", type=Path, default=REPO / "models/marker-640x360.onnx")
    parser.add_argument("--pictures", type=int, default=10, help="of each kind and family")
    args = parser.parse_args()
    import cv2

    from detector import Detector

    cv2.setNumThreads(1)
    detector = Detector(args.model, threads=1)
    names = detector.card["classes"]
    rows = {kind.name: Row() for kind in KINDS}
    families = {name: Row() for name in FAMILIES}
    for family, constant in FAMILIES.items():
        table = cv2.aruco.getPredefinedDictionary(getattr(cv2.aruco, "DICT_" + constant))
        whole = cv2.aruco.ArucoDetector(table, cv2.aruco.DetectorParameters())
        plugin = Plugin(args.plugin, {"tries": 20, "families": [family], "intrinsics": INTRINSICS, "marker_size": METRES})
        for k, kind in enumerate(KINDS):
            rng = np.random.default_rng([20, list(FAMILIES).index(family), k])
            for _ in range(args.pictures):
                number = int(rng.integers(len(table.bytesList)))
                modules = cv2.aruco.generateImageMarker(table, number, table.markerSize + 2)
                grey, corners, turn, place = draw(rng, kind, modules)
                got = detector.detect(cv2.cvtColor(grey, cv2.COLOR_GRAY2BGR))
                items = [Detection(class_id=int(k), score=s, class_name=names[k].encode(), keypoint_count=len(p), keypoints=(c.c_float * 64)(*p.ravel()))
                         for k, s, p in zip(got.classes, got.scores, got.points)]  # fmt: skip
                about = Picture(struct_size=c.sizeof(Picture), format=5, full_range=1, plane_count=1)
                about.planes[0] = Plane(grey.ctypes.data, WIDTH, WIDTH, HEIGHT)
                start = time.thread_time()
                after = plugin.process(PluginFrame(width=WIDTH, height=HEIGHT, picture=c.addressof(about)), items)
                own = time.thread_time() - start
                texts = [d.text.decode() for d in after if d.class_name == b"marker" and d.text]
                start = time.thread_time()
                _, ids, _ = whole.detectMarkers(grey)
                alone = time.thread_time() - start
                side = float(np.linalg.norm(corners - np.roll(corners, 1, axis=0), axis=1).mean())
                # Any order of the corners: the detector does not know which is a marker's first.
                errors = [min(float(np.linalg.norm(np.roll(p[:4], r, axis=0) - corners, axis=1).mean()) for r in range(4)) / side for p in got.points]
                for row in (rows[kind.name], families[family]):
                    row.pictures += 1
                    row.found += bool(errors) and min(errors) < 0.2
                    if errors and min(errors) < 0.2:
                        row.corner.append(min(errors))
                    row.read += f"{family}:{number}" in texts
                    row.wrong += sum(t != f"{family}:{number}" for t in texts)
                    row.alone += ids is not None and number in ids
                    row.own_ms.append(1e3 * own)
                    row.alone_ms.append(1e3 * alone)
                    for name, zone, told in plugin.events:
                        if name != "pose" or zone != f"{family}:{number}":
                            continue
                        there = np.array([told["x"], told["y"], told["z"]])
                        row.distance.append(float(np.linalg.norm(there - place) / np.linalg.norm(place)))
                        off = cv2.Rodrigues(np.array([told["rx"], told["ry"], told["rz"]]))[0] @ turn.T
                        row.angle.append(float(np.degrees(np.arccos(np.clip((np.trace(off) - 1) / 2, -1, 1)))))
        plugin.finish()

    def middle(values: list[float], digits: int, scale: float = 1.0) -> str:
        return f"{scale * float(np.median(values)):.{digits}f}" if values else "-"

    head = "| pictures | found | read | read wrong | OpenCV alone | corner error, % of the side | pose: % of the distance | degrees | codes, ms | OpenCV alone, ms |"
    for title, table_rows in (("markers", rows), ("family", families)):
        print(f"\n| {title} {head}\n|{'---|' * 11}")
        for name, row in table_rows.items():
            print(f"| {name} | {row.pictures} | {row.found} | {row.read} | {row.wrong} | {row.alone} | {middle(row.corner, 1, 100)} | "
                  f"{middle(row.distance, 1, 100)} | {middle(row.angle, 1)} | {middle(row.own_ms, 2)} | {middle(row.alone_ms, 2)} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
