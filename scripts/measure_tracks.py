#!/usr/bin/env python3
"""Measures the built-in `track` beside PyPI's `trackers` on the same detections: HOTA, MOTA and IDF1 by TrackEval.

  python3 -m venv ~/tracks && ~/tracks/bin/pip install trackeval trackers motmetrics onnxruntime opencv-python-headless pyyaml
  git clone https://github.com/abewley/sort ~/sort
  ~/tracks/bin/python scripts/measure_tracks.py --plugin build/release/lib/camd_plugin_track.so --sort ~/sort

Sequences: TUD-Campus and TUD-Stadtmitte (truth: PyPI's motmetrics, detections: the SORT repository), the demo clip, and
others that are made here from the demo's room (models/marker/make_demo.py): codes that cross and cover each other, codes
that pass behind posts (of both four more, drawn by chance), and a camera that is shaken. There the reference detector's boxes
are the detections. Each sequence runs whole, with every second, third and sixth frame, and with each third frame missing, once
for each frame that such a sequence can begin with. Everybody gets the true times.
The made sequences and their detections stay in --cache. Nothing that is read or made here belongs into the repository.
"""

from __future__ import annotations

import argparse
import csv
import ctypes as c
import json
import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plugin_interface import Detection, Plugin, PluginFrame

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO / "models" / "marker"))

Boxes = np.ndarray  # [n, 4]: x, y, width, height


@dataclass
class Frame:
    seconds: float
    truth_ids: np.ndarray  # -1: partly covered or cut by the picture's edge; to find it is neither right nor wrong
    truth: Boxes
    boxes: Boxes
    scores: np.ndarray
    classes: np.ndarray


@dataclass
class Sequence:
    name: str
    size: tuple[int, int]
    rate: float
    frames: list[Frame]


def camd_track(library: Path, config: dict) -> Callable[[Sequence], Iterator[np.ndarray]]:
    """A function that gives the track numbers of each frame's detections, 0 where one has none."""

    def run(sequence: Sequence) -> Iterator[np.ndarray]:
        plugin = Plugin(library, config)
        width, height = sequence.size
        for i, frame in enumerate(sequence.frames):
            items = [Detection(class_id=int(k), score=score, box=(c.c_float * 4)(*box)) for box, score, k in zip(frame.boxes, frame.scores, frame.classes)]
            about = PluginFrame(width=width, height=height, sequence=i, captured_mono_ns=10**9 + round(frame.seconds * 1e9))
            yield np.array([d.track_id for d in plugin.process(about, items)], np.int64)
        plugin.finish()

    return run


def others() -> dict[str, Callable[[Sequence], Iterator[np.ndarray]]]:
    """Roboflow's trackers with their own settings, told the true times."""
    import supervision as sv
    from trackers import BoTSORTTracker, ByteTrackTracker, OCSORTTracker, SORTTracker

    def with_class(make: Callable[[float], object]) -> Callable[[Sequence], Iterator[np.ndarray]]:
        def run(sequence: Sequence) -> Iterator[np.ndarray]:
            tracker = make(sequence.rate)
            for frame in sequence.frames:
                n = len(frame.boxes)
                corners = np.concatenate((frame.boxes[:, :2], frame.boxes[:, :2] + frame.boxes[:, 2:]), axis=1)
                given = sv.Detections(xyxy=corners.reshape(-1, 4).astype(np.float32), confidence=frame.scores.astype(np.float32),
                                      data={"index": np.arange(n)})  # fmt: skip
                got = tracker.update(given, timestamp=frame.seconds)
                ids = np.zeros(n, np.int64)
                if len(got):
                    ids[got.data["index"].astype(int)] = np.asarray(got.tracker_id) + 1
                yield ids

        return run

    return {
        "SORT": with_class(lambda rate: SORTTracker(frame_rate=rate)),
        "ByteTrack": with_class(lambda rate: ByteTrackTracker(frame_rate=rate)),
        "OC-SORT": with_class(lambda rate: OCSORTTracker(frame_rate=rate)),
        "BoT-SORT": with_class(lambda rate: BoTSORTTracker(frame_rate=rate, enable_cmc=False)),
    }


# ---- sequences

def tud(name: str, sort: Path) -> Sequence:
    import motmetrics

    truth = np.loadtxt(Path(motmetrics.__file__).parent / "data" / name / "gt.txt", delimiter=",")
    found = [p for p in (sort / "data" / name / "det.txt", sort / "data/train" / name / "det/det.txt") if p.exists()]
    seen = np.loadtxt(found[0], delimiter=",")
    frames = []
    for number in range(1, int(truth[:, 0].max()) + 1):
        t, d = truth[truth[:, 0] == number], seen[seen[:, 0] == number]
        frames.append(Frame((number - 1) / 25, t[:, 1].astype(int), t[:, 2:6], d[:, 2:6], d[:, 6], np.zeros(len(d), int)))
    return Sequence(name, (640, 480), 25, frames)


def rendered(cache: Path, score: float) -> list[Sequence]:
    """The demo's clip and scenes of its room, six seconds each, with what the reference detector finds. Three are laid out by hand;
    eight more are drawn by chance, and no setting was chosen on them."""
    stored = cache / "scenes.pickle"
    if stored.exists():
        return [Sequence(name, size, rate, [Frame(*parts) for parts in frames]) for name, size, rate, frames in pickle.loads(stored.read_bytes())]
    import cv2

    import make_demo as demo
    from codes import make_marker, make_qr
    from detector import Detector

    detector = Detector(REPO / "models/marker-640x360.onnx", REPO / "models/marker.yaml")
    aruco = cv2.aruco

    def room(rng: np.random.Generator) -> list[demo.Sheet]:
        return [
            demo.Sheet(demo.plain_patch(demo.wall_texture(rng)), 8.0, demo.still(demo.at(0, -0.2, 3.0))),
            demo.Sheet(demo.plain_patch(demo.desk_texture(rng)), 5.0, demo.still(demo.at(0, 0.72, 2.0, demo.turn("x", 90)))),
        ]

    def code(rng: np.random.Generator, i: int) -> demo.Patch:
        if i % 2:
            return demo.sheet_patch(rng, make_qr(f"https://example.org/{i}", 2, 1), 14, 4)
        made = make_marker(aruco.DICT_5X5_100, 7 + 10 * i)
        return demo.sheet_patch(rng, made, 360 // made.size, 1.2)

    def crossing(rng: np.random.Generator, drawn: bool) -> list[demo.Sheet]:
        sheets = room(rng)
        for i in range(8):  # back to front; each goes to and fro along its own line
            z, y, speed, phase = 2.9 - 0.2 * i, -0.75 + 0.14 * i, 0.5 + 0.13 * i, 1.3 * i
            if drawn:
                y, speed, phase = rng.uniform(-0.75, 0.3), rng.uniform(0.4, 1.5), rng.uniform(0, 6.28)
            sheets.append(demo.Sheet(code(rng, i), 0.3, lambda t, z=z, y=y, s=speed, p=phase: demo.at(0.9 * np.sin(s * t + p), y, z), f"c{i}"))
        return sheets

    def posts(rng: np.random.Generator, drawn: bool) -> list[demo.Sheet]:
        sheets = room(rng)
        for i in range(6):
            y, speed, phase = -0.7 + 0.24 * i, 0.35 + 0.06 * i, 2.1 * i
            if drawn:
                speed, phase = rng.uniform(0.3, 0.8), rng.uniform(0, 6.28)
            sheets.append(demo.Sheet(code(rng, i), 0.2, lambda t, y=y, s=speed, p=phase: demo.at(1.1 * np.sin(s * t + p), y, 2.6 - 0.05 * y), f"p{i}"))
        wood = np.full((400, 40, 3), (70, 100, 130), np.float32)
        places = (-0.6 + rng.uniform(-0.1, 0.1), rng.uniform(-0.1, 0.1), 0.55 + rng.uniform(-0.1, 0.1)) if drawn else (-0.55, 0.0, 0.5)
        for x in places:
            sheets.append(demo.Sheet(demo.plain_patch(wood), 0.16, demo.still(demo.at(x, -0.1, 1.9))))
        return sheets

    def shaken(rng: np.random.Generator, _drawn: bool) -> list[demo.Sheet]:
        sheets = room(rng)
        for i in range(10):
            x, y = -0.9 + 0.45 * (i % 5), -0.7 + 0.55 * (i // 5)
            sheets.append(demo.Sheet(code(rng, i), 0.18, lambda t, x=x, y=y, i=i: demo.at(x + 0.05 * np.sin(1.1 * t + i), y, 2.7), f"s{i}"))
        return sheets

    def steady(_seconds: float) -> np.ndarray:
        return np.linalg.inv(demo.at(0, -0.12, -0.1))

    def shake(seconds: float) -> np.ndarray:
        t = seconds
        return np.linalg.inv(demo.at(0, -0.12, -0.1, demo.turn("y", 4 * np.sin(9.1 * t) + 2 * np.sin(15.7 * t)), demo.turn("x", 2.5 * np.sin(11.3 * t))))

    def frame_of(picture: np.ndarray, seconds: float, ids: list[int], quads: list[np.ndarray]) -> Frame:
        got = detector.detect(picture, score)
        truth = np.array([[*q.min(axis=0), *np.ptp(q, axis=0)] for q in quads]).reshape(-1, 4)
        boxes = np.concatenate((got.boxes[:, :2], got.boxes[:, 2:] - got.boxes[:, :2]), axis=1)
        return Frame(seconds, np.array(ids, int), truth, boxes, got.scores, got.classes)

    clip, rows = cv2.VideoCapture(str(REPO / "models/demo/demo.mp4")), list(csv.DictReader((REPO / "models/demo/truth.csv").open()))
    names = sorted({row["code"] for row in rows})
    frames = []
    for i in range(300):
        picture = clip.read()[1]
        there = [row for row in rows if int(row["frame"]) == i]
        quads = [np.array([[float(row[f"{axis}{k}"]) for axis in "xy"] for k in range(4)]) for row in there]
        frames.append(frame_of(picture, i / 30, [names.index(row["code"]) if row["fully_in_view"] == "1" else -1 for row in there], quads))
    sequences = [Sequence("demo clip", (demo.WIDTH, demo.HEIGHT), 30, frames)]
    demo.OVERSAMPLE = 1
    scenes = [("crossing", crossing, steady, demo.SEED), ("posts", posts, steady, demo.SEED), ("shaken", shaken, shake, demo.SEED)]
    scenes += [(f"drawn {kind} {seed}", build, steady, seed) for kind, build in (("crossing", crossing), ("posts", posts)) for seed in range(1, 5)]
    for name, build, view, seed in scenes:
        rng = np.random.default_rng(seed)
        sheets, frames, numbers = build(rng, name.startswith("drawn")), [], {}
        demo.camera = view
        for i in range(180):
            picture, seen = demo.draw_frame(sheets, i / 30)
            labels = [(f"{n}-{k.class_id}", visible) for n, k, _, visible in seen]
            ids = [numbers.setdefault(label, len(numbers)) if visible else -1 for label, visible in labels]
            frames.append(frame_of(picture, i / 30, ids, [q for _, _, q, _ in seen]))
        sequences.append(Sequence(name, (demo.WIDTH, demo.HEIGHT), 30, frames))
        print(f"made: {name}", file=sys.stderr)
    cache.mkdir(parents=True, exist_ok=True)
    plain = [(s.name, s.size, s.rate, [tuple(vars(f).values()) for f in s.frames]) for s in sequences]
    stored.write_bytes(pickle.dumps(plain))
    return sequences


def thinned(sequence: Sequence, how: str) -> list[Sequence]:
    """The sequence with fewer frames, once for each frame that it may begin with: one change of identity counts less then."""
    if how == "2 of 3":
        return [Sequence(f"{sequence.name} {k}", sequence.size, sequence.rate, [f for i, f in enumerate(sequence.frames) if i % 3 != k]) for k in range(3)]
    step = int(how.split("/")[1])
    return [Sequence(f"{sequence.name} {k}", sequence.size, sequence.rate / step, sequence.frames[k::step]) for k in range(step)]


# ---- TrackEval

def similarity(a: Boxes, b: Boxes) -> np.ndarray:
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, :2] + a[:, None, 2:], b[None, :, :2] + b[None, :, 2:])
    shared = (high - low).clip(0).prod(axis=2)
    return shared / np.maximum(a[:, 2:].prod(axis=1)[:, None] + b[:, 2:].prod(axis=1)[None] - shared, 1e-9)


def evaluation(sequence: Sequence, ids: list[np.ndarray]) -> dict:
    """What TrackEval's metrics read. Boxes without a number are not part of a tracker's answer, nor are those of objects
    that are partly hidden (MOTChallenge leaves such out as well)."""
    order_truth = {v: i for i, v in enumerate(sorted({x for f in sequence.frames for x in f.truth_ids.tolist() if x >= 0}))}
    answers = []
    for frame, numbers in zip(sequence.frames, ids):
        same, hidden = similarity(frame.truth, frame.boxes), frame.truth_ids < 0
        of_hidden = same[hidden].max(axis=0, initial=0) > np.maximum(0.3, same[~hidden].max(axis=0, initial=0))
        answers.append(np.where(of_hidden, 0, numbers))
    order = {v: i for i, v in enumerate(sorted({x for one in answers for x in one.tolist() if x != 0}))}
    data: dict = {"gt_ids": [], "tracker_ids": [], "similarity_scores": [], "num_timesteps": len(ids)}
    for frame, numbers in zip(sequence.frames, answers):
        mine, there = numbers != 0, frame.truth_ids >= 0
        data["gt_ids"].append(np.array([order_truth[x] for x in frame.truth_ids[there].tolist()], int))
        data["tracker_ids"].append(np.array([order[x] for x in numbers[mine].tolist()], int))
        data["similarity_scores"].append(similarity(frame.truth[there], frame.boxes[mine]))
    data["num_gt_ids"], data["num_tracker_ids"] = len(order_truth), len(order)
    data["num_gt_dets"] = sum(map(len, data["gt_ids"]))
    data["num_tracker_dets"] = sum(map(len, data["tracker_ids"]))
    return data


def measure(sequences: list[Sequence], run: Callable[[Sequence], Iterator[np.ndarray]]) -> tuple[float, float, float, int]:
    """HOTA, MOTA and IDF1 in percent over all sequences, and changes of identity."""
    from trackeval.metrics import CLEAR, HOTA, Identity

    metrics = {"hota": HOTA(), "clear": CLEAR({"PRINT_CONFIG": False}), "identity": Identity({"PRINT_CONFIG": False})}
    parts: dict[str, dict] = {name: {} for name in metrics}
    for sequence in sequences:
        data = evaluation(sequence, list(run(sequence)))
        for name, metric in metrics.items():
            parts[name][sequence.name] = metric.eval_sequence(data)
    total = {name: metric.combine_sequences(parts[name]) for name, metric in metrics.items()}
    return (100 * float(np.mean(total["hota"]["HOTA"])), 100 * float(total["clear"]["MOTA"]), 100 * float(total["identity"]["IDF1"]),
            int(total["clear"]["IDSW"]))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", type=Path, required=True, help="camd_plugin_track.so")
    parser.add_argument("--sort", type=Path, required=True, help="the SORT repository")
    parser.add_argument("--cache", type=Path, default=Path("/tmp/camd-tracks"))
    parser.add_argument("--config", action="append", default=[], help="keys of `track` as JSON, each a row; default: {}")
    parser.add_argument("--only-camd", action="store_true")
    args = parser.parse_args()
    groups = {"TUD": [tud(n, args.sort) for n in ("TUD-Campus", "TUD-Stadtmitte")]}
    for sequence in rendered(args.cache, 0.3):
        groups.setdefault(sequence.name.rstrip(" 0123456789"), []).append(sequence)
    rows: dict[str, Callable] = {} if args.only_camd else others()
    for config in args.config or ["{}"]:
        rows["camd track" + (f" {config}" if args.config else "")] = camd_track(args.plugin, json.loads(config))
    for group, sequences in groups.items():
        for how in ("1/1", "1/2", "1/3", "1/6", "2 of 3"):
            print(f"\n{group}, frames {how}\n| | HOTA | MOTA | IDF1 | identity switches |\n|---|---|---|---|---|")
            thin = [t for s in sequences for t in thinned(s, how)]
            for name, run in rows.items():
                hota, mota, idf1, switches = measure(thin, run)
                print(f"| {name} | {hota:.1f} | {mota:.1f} | {idf1:.1f} | {switches} |", flush=True)


if __name__ == "__main__":
    main()
