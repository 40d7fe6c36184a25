"""Measures the exported detector as a user would run it and compares the figures with their bounds.

  python3 models/marker/evaluate.py                                  # both sizes: synthetic validation and the demo clip
  python3 models/marker/evaluate.py --shared ../shared               # and the real photos and videos
  python3 models/marker/evaluate.py --model models/marker-1280x720.onnx

Prints a table for each model; exit status 1 when a bound is missed, 0 otherwise. Parts whose pictures are absent are skipped
and named. The network sees each picture through letterbox, at the card's thresholds; synthetic pictures have its size.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import torch

import check_demo
import evaluate_sizes
from codes import MARKER, CodeBank
from detector import Detections, Detector
from loss import upright_order
from scene import MAX_CODES, Scene, make_close_scene, make_empty_scene, make_far_scene, make_scene
from views import Batch, Dice, jpeg_tables, make_views

MODELS = Path(__file__).resolve().parent.parent
DEVICE = torch.device(os.environ.get("CAMD_VIEWS_ON", "cpu"))  # makes the synthetic pictures: others on another device
SEED = 555_001  # not training's; backgrounds, marker ids and code contents are held out as well
MIN_SIDE_PX, MIN_MODULE_PX = 20.0, 1.2
SMALLEST_PX, SMALLEST_MODULE_PX = 18.0, 0.7  # of the range of sizes
VIEWS_PER_SCENE = 2
ACCURATE_PX = 60.0  # smaller codes are asked for twice the share of their side, which is about a pixel
LOWEST_SCORE = 0.02  # for the precision-recall curve


@dataclass
class Truth:
    corners: np.ndarray  # f32 [n, 4, 2]
    classes: np.ndarray  # i64 [n]
    wanted: np.ndarray  # bool [n]
    shown: np.ndarray  # bool [n]; false where less than a grey level of the code's pattern is left, see contrast_left()


@dataclass
class Bounds:
    """Figures with what they must reach; remembers whether all did."""

    rows: list[tuple[str, str, str, bool]] = field(default_factory=list)

    def at_least(self, name: str, value: float, bound: float) -> None:
        self.rows.append((name, f"{value:.4f}", f">= {bound}", value >= bound))

    def at_most(self, name: str, value: float, bound: float) -> None:
        self.rows.append((name, f"{value:.4f}", f"<= {bound}", value <= bound))

    def note(self, name: str, value: float) -> None:
        self.rows.append((name, f"{value:.4f}", "", True))

    def show(self) -> bool:
        width = max(len(r[0]) for r in self.rows)
        for name, value, bound, fine in self.rows:
            print(f"{name:{width}}  {value:>8}  {bound:8} {'' if not bound else 'ok' if fine else 'MISSED'}")
        return all(r[3] for r in self.rows)


def iou_matrix(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = (high - low).clip(min=0).prod(axis=2)
    area = [(x[:, 2:] - x[:, :2]).prod(axis=1) for x in (a, b)]
    return shared / np.maximum(area[0][:, None] + area[1][None] - shared, 1e-6)


def boxes_of(corners: np.ndarray) -> np.ndarray:
    return np.concatenate((corners.min(axis=1), corners.max(axis=1)), axis=1).reshape(-1, 4)


def mean_side(corners: np.ndarray) -> np.ndarray:
    return np.linalg.norm(corners - np.roll(corners, 1, axis=-2), axis=-1).mean(axis=-1)


def accepted_orders(corners: np.ndarray, class_id: int) -> list[np.ndarray]:
    """The corner orders that are right; markers are read as they stand in the picture (see README.md)."""
    if class_id != MARKER:
        return [corners]
    return [way.numpy() for way in upright_order(torch.from_numpy(corners.astype(np.float32)))]


def corner_error(points: np.ndarray, corners: np.ndarray, class_id: int) -> tuple[float, bool]:
    """Mean corner distance as a share of the side, and whether the first corner is the right one."""
    ways = accepted_orders(corners, class_id)
    error = min(np.linalg.norm(points[:4] - way, axis=1).mean() for way in ways) / mean_side(corners)
    right = any(np.linalg.norm(way - points[0], axis=1).argmin() == 0 for way in ways)
    return float(error), right


def flattened(image: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """What lies in a quadrilateral, f32 [48, 48] grey levels; -1e4 where that is outside of the picture."""
    side, fine = 48, 3
    edge = side * fine - 0.5
    square = np.array([[-0.5, -0.5], [edge, -0.5], [edge, edge], [-0.5, edge]], np.float32)
    turn = cv2.getPerspectiveTransform(corners.astype(np.float32), square)
    grey = image.astype(np.float32).mean(axis=2)
    patch = cv2.warpPerspective(grey, turn, (side * fine, side * fine), borderMode=cv2.BORDER_CONSTANT, borderValue=-1e4)
    return patch.reshape(side, fine, side, fine).mean(axis=(1, 3))


def contrast_left(scene: np.ndarray, before: np.ndarray, picture: np.ndarray, after: np.ndarray) -> float:
    """How much of a code's pattern in the scene is left in the view of it: the standard deviation, in grey levels of 256, of
    that part of the picture that goes with the scene. Exposure and blur can wipe a code out; noise that they leave is no code."""
    a, b = flattened(scene, before), flattened(picture, after)
    seen = (a > -1) & (b > -1)
    if not seen.any():
        return 0.0
    a, b = a[seen] - a[seen].mean(), b[seen]
    return float((a * (b - b.mean())).mean() / max(1e-6, a.std()))


class Curve:
    """Average precision of one class at one IoU, area under the interpolated precision-recall curve."""

    def __init__(self, class_id: int, limit: float, shown_only: bool = False):
        self.class_id, self.limit, self.shown_only, self.total = class_id, limit, shown_only, 0
        self.hits: list[tuple[float, bool]] = []

    def add(self, got: Detections, truth: Truth) -> None:
        mine = got.classes == self.class_id
        boxes, scores = got.boxes[mine], got.scores[mine]
        present = truth.classes == self.class_id
        asked = truth.wanted & truth.shown if self.shown_only else truth.wanted
        wanted, spare = boxes_of(truth.corners[present & asked]), boxes_of(truth.corners[present & ~asked])
        self.total += len(wanted)
        overlap, taken = iou_matrix(boxes, wanted), np.zeros(len(wanted), bool)
        excused = (iou_matrix(boxes, spare) > 0.1).any(axis=1) if len(spare) else np.zeros(len(boxes), bool)
        for i, score in enumerate(scores):
            open_ious = np.where(taken, 0, overlap[i]) if len(wanted) else np.zeros(0)
            if len(wanted) and open_ious.max() >= self.limit:
                taken[open_ious.argmax()] = True
                self.hits.append((float(score), True))
            elif not excused[i]:
                self.hits.append((float(score), False))

    def value(self) -> float:
        hits = np.array([h for _, h in sorted(self.hits, key=lambda x: -x[0])], float)
        if self.total == 0 or len(hits) == 0:
            return 0.0
        true = hits.cumsum()
        precision, recall = true / np.arange(1, len(hits) + 1), true / self.total
        precision = np.maximum.accumulate(precision[::-1])[::-1]
        return float((np.diff(np.concatenate(([0], recall))) * precision).sum())


def validation_pictures(scenes: int, width: int, height: int, make: Callable[..., Scene] = make_scene, teaching: bool = False,
                        min_side: float = MIN_SIDE_PX, min_module: float = MIN_MODULE_PX) -> Iterator[tuple[np.ndarray, Truth]]:  # fmt: skip
    """Views of unseen scenes, the same on every machine with the same library versions; `teaching`: chosen as training does,
    so that codes of all sizes are wholly in the picture."""
    rng = np.random.default_rng(SEED)
    bank = CodeBank(SEED, held_out=True, qr_count=200, marker_count=400)
    dice, tables = Dice(DEVICE, SEED), jpeg_tables(DEVICE)
    group = 8
    for start in range(0, scenes, group):
        made = [make(rng, bank, held_out=True) for _ in range(min(group, scenes - start))]
        images = torch.stack([torch.from_numpy(s.image).permute(2, 0, 1) for s in made])
        corners, classes = torch.zeros(len(made), MAX_CODES, 4, 2), torch.full((len(made), MAX_CODES), -1)
        modules = torch.ones(len(made), MAX_CODES)
        for i, s in enumerate(made):
            n = len(s.classes)
            corners[i, :n], classes[i, :n], modules[i, :n] = (torch.from_numpy(v) for v in (s.corners, s.classes, s.modules))
        for _ in range(VIEWS_PER_SCENE):
            given = (part.to(DEVICE) for part in (images, corners, classes, modules))
            batch = make_views(dice, tables, *given, width, height, min_side, min_module, teaching=teaching)
            batch = Batch(*(part.cpu() for part in (batch.image, batch.corners, batch.classes, batch.wanted)))
            for i in range(len(made)):
                there = batch.classes[i] >= 0
                picture = (batch.image[i].permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
                where = batch.corners[i].numpy()
                left = [contrast_left(made[i].image, made[i].corners[g], picture, where[g]) for g in np.nonzero(there.numpy())[0]]
                yield picture, Truth(where[there], batch.classes[i][there].numpy(), batch.wanted[i][there].numpy(), np.array(left) >= 1)


def check_synthetic(detector: Detector, scenes: int, bounds: Bounds) -> None:
    names = detector.card["classes"]
    curves = {limit: [Curve(c, limit) for c in range(len(names))] for limit in (0.5, 0.75)}
    shown = [Curve(c, 0.5, shown_only=True) for c in range(len(names))]
    errors: list[list[float]] = [[] for _ in names]
    right: list[list[bool]] = [[] for _ in names]
    rows: list[tuple[float, bool]] = []  # corner error; does the picture's edge cut the code?
    wanted = found = 0
    for picture, truth in validation_pictures(scenes, detector.width, detector.height):
        got = detector.detect(picture, LOWEST_SCORE)
        for curve in curves[0.5] + curves[0.75] + shown:
            curve.add(got, truth)
        sure = got.scores >= detector.card["score"]
        overlap = iou_matrix(got.boxes, boxes_of(truth.corners)) * (got.classes[:, None] == truth.classes[None]) * sure[:, None]
        for g in np.nonzero(truth.wanted)[0]:
            wanted += 1
            if len(overlap) == 0 or overlap[:, g].max() < 0.5:
                continue
            found += 1
            c = int(truth.classes[g])
            error, turned = corner_error(got.points[overlap[:, g].argmax()], truth.corners[g], c)
            errors[c].append(error)
            right[c].append(turned)
            h, w = picture.shape[:2]
            rows.append((error, bool(((truth.corners[g] < 0) | (truth.corners[g] > (w - 1, h - 1))).any())))
    bounds.note("synthetic: codes", wanted)
    bounds.at_least("synthetic: AP50", float(np.mean([c.value() for c in curves[0.5]])), 0.97)
    bounds.note("synthetic: codes of which a grey level is left", sum(c.total for c in shown))
    bounds.note("synthetic: AP50 of codes of which a grey level is left", float(np.mean([c.value() for c in shown])))
    bounds.at_least("synthetic: AP75", float(np.mean([c.value() for c in curves[0.75]])), 0.85)
    bounds.note("synthetic: recall at the card's score", found / max(1, wanted))
    bounds.at_most("synthetic: median corner error / side", float(np.median(sum(errors, []))), 0.02)
    for name, cut in (("wholly in the picture", False), ("cut by its edge", True)):
        bounds.note(f"synthetic: median corner error / side, codes {name}", float(np.median([e for e, c in rows if c == cut])))
    bounds.at_least("synthetic: first corner right", float(np.mean(sum(right, []))), 0.97)
    for c, name in enumerate(names):
        bounds.note(f"synthetic: {name}: AP50", curves[0.5][c].value())
        bounds.note(f"synthetic: {name}: AP75", curves[0.75][c].value())
        bounds.note(f"synthetic: {name}: median corner error / side", float(np.median(errors[c])))
        bounds.note(f"synthetic: {name}: first corner right", float(np.mean(right[c])))


def check_range(detector: Detector, scenes: int, bounds: Bounds) -> None:
    """Synthetic codes by their height, from far and near, and what is found where there is none."""
    rows: list[tuple[float, float | None]] = []  # height; corner error where found
    for make in (make_far_scene, make_close_scene):
        for picture, truth in validation_pictures(scenes, detector.width, detector.height, make, True, SMALLEST_PX, SMALLEST_MODULE_PX):
            got = detector.detect(picture)
            overlap = iou_matrix(got.boxes, boxes_of(truth.corners)) * (got.classes[:, None] == truth.classes[None])
            for g in np.nonzero(truth.wanted)[0]:
                found = len(overlap) > 0 and overlap[:, g].max() >= 0.5
                error = corner_error(got.points[overlap[:, g].argmax()], truth.corners[g], int(truth.classes[g]))[0] if found else None
                rows.append((float(np.ptp(truth.corners[g][:, 1])), error))
    shares = [share * detector.height for share in (0.3, 0.5, 0.65, 0.8, 0.98)]
    for low, high in pairwise([18, 24, 30, 40, 64, *shares]):
        if low >= high:
            continue
        errors = [e for size, e in rows if low <= size < high]
        found = [e for e in errors if e is not None]
        name = f"range: codes {low:.0f} to {high:.0f} px high ({len(errors)})"
        bounds.note(f"{name}: recall at the card's score", len(found) / max(1, len(errors)))
        bounds.note(f"{name}: median corner error / side", float(np.median(found)) if found else 1.0)
    scores = [detector.detect(picture, 0.3).scores for picture, _ in validation_pictures(scenes, detector.width, detector.height, make_empty_scene, True)]
    for limit in (0.5, 0.6, 0.7):
        alarms = sum((s >= limit).sum() for s in scores)
        bounds.note(f"range: false alarms per 100 pictures without a code, score {limit}", 100 * alarms / len(scores))


def read_photos(folder: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    with (folder / "corners.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            yield cv2.imread(str(folder / row["file"])), np.array([[float(row[f"x{i}"]), float(row[f"y{i}"])] for i in range(4)])


def read_video(path: Path) -> Iterator[np.ndarray]:
    video = cv2.VideoCapture(str(path))
    while True:
        fine, frame = video.read()
        if not fine:
            return
        yield frame


def check_photos(detector: Detector, name: str, pictures: Iterator[tuple[np.ndarray, np.ndarray]], bounds: Bounds) -> None:
    errors, right, total = [], [], 0
    for picture, corners in pictures:
        total += 1
        got = detector.detect(picture)
        overlap = iou_matrix(got.boxes, boxes_of(corners[None]))[:, 0] * (got.classes == 0) if len(got.scores) else np.zeros(1)
        if overlap.max() >= 0.5:
            error, turned = corner_error(got.points[overlap.argmax()], corners, 0)
            errors.append(error)
            right.append(turned)
    bounds.at_least(f"{name}: recall at IoU 0.5", len(errors) / max(1, total), 0.97)
    bounds.at_most(f"{name}: median corner error / side", float(np.median(errors)) if errors else 1.0, 0.02)
    bounds.note(f"{name}: first corner right", float(np.mean(right)) if right else 0.0)


def check_sizes(detector: Detector, photos: list[tuple[np.ndarray, np.ndarray]], bounds: Bounds) -> None:
    for row in evaluate_sizes.measure(detector, photos):
        if row.share is None:  # the photos as they are: check_photos() has them
            continue
        name = f"photos, code {row.pixels:.0f} px high ({100 * row.share:.0f} % of the height)"
        bounds.at_least(f"{name}: recall at IoU 0.5", row.recall, 0.97)
        bounds.at_most(f"{name}: median corner error / side", row.error, 0.02 if row.pixels >= ACCURATE_PX else 0.04)


def pasted(photos: Path, videos: list[Path]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each photo at a quarter of the picture's height, at three places of frames that have nothing to do with it."""
    frames = []
    for video in videos:
        every = list(read_video(video))
        frames += [cv2.resize(f, (1280, 720), interpolation=cv2.INTER_LINEAR) for f in every[:: max(1, len(every) // 21)]]
    rng = np.random.default_rng(SEED)
    side = 720 // 4
    for photo, corners in read_photos(photos):
        scale = side / photo.shape[0]
        small = cv2.resize(photo, (side, side), interpolation=cv2.INTER_AREA)
        for _ in range(3):
            frame = frames[rng.integers(len(frames))].copy()
            x, y = int(rng.integers(0, 1280 - side)), int(rng.integers(0, 720 - side))
            frame[y : y + side, x : x + side] = small
            yield frame, (corners + 0.5) * scale - 0.5 + (x, y)


def check_false_alarms(detector: Detector, videos: list[Path], bounds: Bounds) -> None:
    frames = alarms = 0
    for video in videos:
        for frame in read_video(video):
            frames += 1
            alarms += len(detector.detect(frame).scores)
    bounds.note("videos: frames", frames)
    bounds.at_most("videos: false alarms", alarms, 0)


def check_clip(detector: Detector, folder: Path, bounds: Bounds) -> None:
    names = detector.card["classes"]
    rows = []
    for number, frame in enumerate(read_video(folder / "demo.mp4")):
        got = detector.detect(frame)
        rows.append((number, [(names[c], tuple(box), "") for c, box in zip(got.classes, got.boxes)]))
    bounds.at_least("demo clip: every code in 98 % of its frames", float(check_demo.report(rows, folder / "truth.csv")), 1)
    print()


def evaluate(model: Path, args: argparse.Namespace) -> bool:
    """Prints the figures of one model; whether all bounds are kept."""
    detector, bounds = Detector(model, args.card, args.threads), Bounds()
    check_synthetic(detector, args.scenes, bounds)
    check_range(detector, max(1, args.scenes // 5), bounds)
    check_clip(detector, MODELS / "demo", bounds)
    if args.shared and (args.shared / "photos" / "qr").is_dir():
        photos, videos = args.shared / "photos" / "qr", sorted((args.shared / "video").glob("*.m[kp][v4]"))
        check_photos(detector, "photos, letterboxed", read_photos(photos), bounds)
        check_sizes(detector, list(read_photos(photos)), bounds)
        check_photos(detector, "photos, pasted at a quarter", pasted(photos, videos), bounds)
        check_false_alarms(detector, videos, bounds)
    else:
        print("photos and videos: skipped, no --shared folder\n")
    print(f"{model.name}, score {detector.card['score']}")
    return bounds.show()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    both = [MODELS / f"marker-{size}.onnx" for size in ("640x360", "1280x720")]
    parser.add_argument("--model", type=Path, nargs="+", default=both)
    parser.add_argument("--card", type=Path, help="instead of the one beside each model")
    parser.add_argument("--shared", type=Path, help="folder with photos/qr and video; not part of the repository")
    parser.add_argument("--scenes", type=int, default=150, help="synthetic scenes, two views each")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    kept = [evaluate(model, args) for model in args.model]
    sys.exit(0 if all(kept) else 1)


if __name__ == "__main__":
    main()
