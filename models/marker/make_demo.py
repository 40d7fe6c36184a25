"""Renders models/demo/demo.mp4 and its truth: a room with printed codes, some of them moving, before a hand-held camera.

  python3 models/marker/make_demo.py --out models/demo        # needs ffmpeg with libx264

truth.csv has one row per frame and code: frame, code, class, the four corners in pixels (symbol's own top-left
first, then clockwise), the shorter side of their bound in pixels, and whether the code is fully in view
(inside the picture and not covered).
"""

from __future__ import annotations

import argparse
import csv
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np

import backgrounds
from codes import CLASSES, QR, Code, make_marker, make_qr
from scene import Patch, lay, project

SEED = 777_001  # none of training's or validation's
WIDTH, HEIGHT, RATE, FRAMES = 1280, 720, 30, 300
FOCAL = 1000.0
OVERSAMPLE = 2
MAX_BYTES = 2 * 1024 * 1024

Pose = Callable[[float], np.ndarray]  # seconds to f64 [4, 4], sheet to world; the sheet's plane is z = 0


@dataclass
class Sheet:
    """A rectangle in space, in metres, x right, y down, z away from the camera."""

    patch: Patch
    width_m: float
    pose: Pose
    name: str = ""
    hidden_by: list[int] = field(default_factory=list)

    def corners(self, seconds: float) -> np.ndarray:
        h, w = self.patch.image.shape[:2]
        x, y = self.width_m / 2, self.width_m * h / w / 2
        flat = np.array([[-x, -y, 0, 1], [x, -y, 0, 1], [x, y, 0, 1], [-x, y, 0, 1]])
        return (flat @ self.pose(seconds).T)[:, :3]


def turn(axis: str, degrees: float) -> np.ndarray:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    m = np.eye(4)
    i, j = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}[axis]
    m[[i, i, j, j], [i, j, i, j]] = c, -s, s, c
    return m


def at(x: float, y: float, z: float, *turns: np.ndarray) -> np.ndarray:
    m = np.eye(4)
    m[:3, 3] = x, y, z
    for t in turns:
        m = m @ t
    return m


def still(pose: np.ndarray) -> Pose:
    return lambda _: pose


def sheet_patch(rng: np.random.Generator, code: Code, pitch: int, margin: float, caption: str = "", tint: float = 245) -> Patch:
    """A printed sheet: white paper, black ink, a quiet zone, a caption below."""
    n, m = code.size * pitch, round(margin * pitch)
    below = m + (n // 5 if caption else 0)
    image = np.full((m + n + below, n + 2 * m, 3), tint, np.uint8)
    light = cv2.resize(code.modules, (n, n), interpolation=cv2.INTER_NEAREST)
    image[m : m + n, m : m + n] = (22 + light.astype(np.float32) / 255 * (tint - 22))[..., None]
    if caption:
        scale = n / 260
        cv2.putText(image, caption, (m, m + n + below // 2 + n // 20), cv2.FONT_HERSHEY_SIMPLEX, scale, (40, 40, 40), max(1, n // 130), cv2.LINE_AA)
    paper = image.astype(np.float32) * (1 + backgrounds.smooth_noise(rng, *image.shape[:2], 6) * 0.02)
    x0, y0 = m - 0.5, m - 0.5
    quad = np.array([[x0, y0], [x0 + n, y0], [x0 + n, y0 + n], [x0, y0 + n]], np.float32)
    return Patch(paper, np.ones(paper.shape[:2], np.float32), [(code, quad)])


def plain_patch(image: np.ndarray) -> Patch:
    return Patch(image.astype(np.float32), np.ones(image.shape[:2], np.float32))


def wall_texture(rng: np.random.Generator) -> np.ndarray:
    """Plaster with a shelf, books, a notice and a window: 8 m by 4 m at 300 px a metre."""
    h, w = 1200, 2400
    image = np.array([196, 206, 210]) + backgrounds.smooth_noise(rng, h, w, 4) * 14 + backgrounds.fractal_noise(rng, h, w, 60, 3) * 1.5
    image = np.ascontiguousarray(np.clip(image, 0, 255).astype(np.uint8))
    cv2.rectangle(image, (0, 905), (w, 930), (150, 160, 165), -1)
    cv2.rectangle(image, (1530, 430), (1960, 446), (60, 95, 140), -1)
    x = 1545
    while x < 1930:
        thick, tall = int(rng.integers(12, 30)), int(rng.integers(60, 110))
        cv2.rectangle(image, (x, 430 - tall), (x + thick, 429), backgrounds.colour(rng, 40, 200, 1.0).tolist(), -1)
        x += thick + 2
    cv2.rectangle(image, (250, 250), (640, 700), (235, 225, 210), -1)
    cv2.rectangle(image, (250, 250), (640, 700), (120, 130, 135), 14)
    cv2.line(image, (445, 250), (445, 700), (120, 130, 135), 10)
    image[620:800, 1960:2100] = backgrounds.text_block(np.random.default_rng(SEED + 1), 180, 140)
    return image


def desk_texture(rng: np.random.Generator) -> np.ndarray:
    image = np.array([88, 124, 168]) + cv2.resize(rng.normal(0, 1, (600, 12)).astype(np.float32), (1400, 600))[..., None] * 9
    image += backgrounds.smooth_noise(rng, 600, 1400, 5) * 8
    return np.clip(image, 0, 255)


def box_sheets(x: float, y: float, z: float, side: float, front: Patch | None) -> list[Sheet]:
    """A cardboard box, seen from the front and above, with a label on its front."""
    board = np.full((64, 64, 3), (110, 150, 185), np.float32)
    sheets = [
        Sheet(plain_patch(board * 1.12), side, still(at(x, y - side / 2, z + side / 2, turn("x", 90)))),
        Sheet(plain_patch(board * 0.72), side, still(at(x - np.sign(x) * side / 2, y, z + side / 2, turn("y", 90)))),
        Sheet(plain_patch(board), side, still(at(x, y, z))),
    ]
    if front:
        sheets.append(Sheet(front, side * 0.72, still(at(x, y, z - 0.002)), "box"))
    return sheets


def build(rng: np.random.Generator) -> list[Sheet]:
    """Back to front."""
    aruco = cv2.aruco

    def ease(a: float, b: float, t: float) -> float:
        s = np.clip(t / 10, 0, 1)
        return a + (b - a) * s * s * (3 - 2 * s)

    def card(t: float) -> np.ndarray:  # held before the camera, comes close and goes
        near = np.sin(np.pi * t / 10) ** 2
        return at(-0.75 + 0.13 * t + 0.05 * np.sin(1.7 * t), -0.02 + 0.1 * np.sin(0.9 * t), 2.0 - 0.95 * near,
                  turn("z", -14 + 30 * np.sin(0.7 * t)), turn("y", 28 * np.sin(1.1 * t)), turn("x", 12 * np.cos(0.8 * t)))  # fmt: skip

    def wheel(t: float) -> np.ndarray:
        return at(1.12, -0.72, 2.99, turn("z", 36 * t))

    def cart(t: float) -> np.ndarray:
        return at(ease(1.3, -0.2, t), 0.49, 1.75, turn("y", 18), turn("x", -8))

    def qr(text: str, version: int, **options: object) -> Patch:
        return sheet_patch(rng, make_qr(text, version, 1), 14, 4, **options)

    def marker(dictionary: int, number: int, **options: object) -> Patch:
        size = make_marker(dictionary, number)
        return sheet_patch(rng, size, 360 // size.size, 1.2, **options)

    sheets = [
        Sheet(plain_patch(wall_texture(rng)), 8.0, still(at(0, -0.2, 3.0))),
        Sheet(plain_patch(desk_texture(rng)), 5.0, still(at(0, 0.72, 2.0, turn("x", 90)))),
        Sheet(qr("https://example.org/room/12", 3, caption="ROOM 12"), 0.46, still(at(-0.62, -0.66, 2.99)), "room"),
        Sheet(qr("WIFI:S:lab;;", 2, caption="WIFI"), 0.34, still(at(0.12, -0.78, 2.99, turn("z", -3))), "wifi"),
        Sheet(marker(aruco.DICT_APRILTAG_36h11, 7), 0.32, still(at(0.56, -0.62, 2.99)), "tag-wall"),
        Sheet(marker(aruco.DICT_4X4_50, 27), 0.22, still(at(-0.18, -0.3, 2.99)), "small-wall"),
        Sheet(marker(aruco.DICT_5X5_100, 47), 0.36, wheel, "wheel"),
        *box_sheets(-1.05, 0.52, 2.2, 0.4, qr("SN 4471-0090", 1, caption="4471")),
        *box_sheets(0.62, 0.49, 2.4, 0.46, marker(aruco.DICT_6X6_250, 27, caption="27")),
        Sheet(marker(aruco.DICT_4X4_50, 37, caption="CART"), 0.2, cart, "cart"),
        Sheet(qr("https://example.org/cam", 2, caption="HELLO"), 0.3, card, "card"),
    ]
    return sheets


def camera(seconds: float) -> np.ndarray:
    """World to camera: a slow arc with the tremor of a hand."""
    t = seconds
    sway = lambda a, b, c: np.sin(a * t) * 0.6 + np.sin(b * t + 1.0) * 0.3 + np.sin(c * t + 2.0) * 0.1  # noqa: E731
    position = at(0.16 * np.sin(0.5 * t) + 0.01 * sway(3.1, 7.3, 11.7), -0.12 + 0.03 * np.sin(0.4 * t) + 0.008 * sway(2.7, 6.1, 13.1), -0.1 + 0.25 * np.sin(0.33 * t))
    look = turn("y", 5 * np.sin(0.5 * t + 0.4) + 0.25 * sway(4.3, 8.9, 14.3)) @ turn("x", -3 + 0.2 * sway(3.7, 9.7, 15.1)) @ turn("z", 0.8 * np.sin(0.6 * t))
    return np.linalg.inv(position @ look)


def see(points: np.ndarray, view: np.ndarray) -> np.ndarray:
    """World points [n, 3] to pixels; the principal point is the picture's middle."""
    p = np.column_stack((points, np.ones(len(points)))) @ view.T
    return p[:, :2] / np.maximum(p[:, 2:3], 0.05) * FOCAL + ((WIDTH - 1) / 2, (HEIGHT - 1) / 2)


def draw_frame(sheets: list[Sheet], seconds: float) -> tuple[np.ndarray, list[tuple[str, Code, np.ndarray, bool]]]:
    view = camera(seconds)
    big = np.zeros((HEIGHT * OVERSAMPLE, WIDTH * OVERSAMPLE, 3), np.uint8)
    seen: list[tuple[str, Code, np.ndarray, bool]] = []
    for sheet in sheets:
        h, w = sheet.patch.image.shape[:2]
        rim = see(sheet.corners(seconds), view)
        for i, (name, code, quad, visible) in enumerate(seen):  # later sheets lie nearer and may cover earlier codes
            area, _ = cv2.intersectConvexConvex(rim.astype(np.float32), quad.astype(np.float32))
            seen[i] = (name, code, quad, visible and area <= 0)
        source = np.array([[-0.5, -0.5], [w - 0.5, -0.5], [w - 0.5, h - 0.5], [-0.5, h - 0.5]], np.float32)
        target = ((rim + 0.5) * OVERSAMPLE - 0.5).astype(np.float32)
        homography = cv2.getPerspectiveTransform(source, target).astype(np.float64)
        lay(big, sheet.patch, homography, None, 1.0)
        to_picture = cv2.getPerspectiveTransform(source, rim.astype(np.float32)).astype(np.float64)
        for code, corners in sheet.patch.codes:
            quad = project(to_picture, corners)
            inside = (quad >= 0).all() and (quad <= (WIDTH - 1, HEIGHT - 1)).all()
            seen.append((sheet.name, code, quad, bool(inside)))
    return cv2.resize(big, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA), seen


def expose(frame: np.ndarray, light: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    grain = rng.normal(0, 1.2, (HEIGHT, WIDTH, 1)).astype(np.float32)
    return np.clip(frame * light + grain, 0, 255).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--crf", type=int, default=27, help="x264 quality")
    parser.add_argument("--frames", type=int, default=FRAMES)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    sheets = build(rng)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    corner = ((x / WIDTH - 0.35) ** 2 + (y / HEIGHT - 0.3) ** 2)[..., None]
    light = (1.04 - 0.35 * corner) * np.array([0.95, 0.99, 1.02], np.float32)  # a warm lamp at the left

    command = ["ffmpeg", "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "bgr24", "-s", f"{WIDTH}x{HEIGHT}", "-r", str(RATE),
               "-i", "-", "-c:v", "libx264", "-preset", "slow", "-crf", str(args.crf), "-g", "60", "-pix_fmt", "yuv420p",
               "-movflags", "+faststart", str(args.out / "demo.mp4")]  # fmt: skip
    encoder = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert encoder.stdin is not None
    with (args.out / "truth.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["frame", "code", "class", "x0", "y0", "x1", "y1", "x2", "y2", "x3", "y3", "size_px", "fully_in_view"])
        for frame in range(args.frames):
            picture, seen = draw_frame(sheets, frame / RATE)
            encoder.stdin.write(expose(picture, light, rng).tobytes())
            for name, code, quad, visible in seen:
                label = f"{name}-{'qr' if code.class_id == QR else 'marker'}"
                size = np.ptp(quad, axis=0).min()
                table.writerow([frame, label, CLASSES[code.class_id], *(f"{v:.1f}" for v in quad.ravel()), f"{size:.1f}", int(visible)])
    encoder.stdin.close()
    if encoder.wait() != 0:
        raise SystemExit("ffmpeg failed")
    size = (args.out / "demo.mp4").stat().st_size
    print(f"{args.out / 'demo.mp4'}: {size} bytes")
    if size > MAX_BYTES:
        raise SystemExit(f"larger than {MAX_BYTES} bytes: raise --crf")


if __name__ == "__main__":
    main()
