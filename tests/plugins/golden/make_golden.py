"""Writes golden.json: what each decoding layout makes of pseudo-random tensors, computed with NumPy.

An independent second implementation, written from the papers' formulas in whole-array form; the test
(golden_test.cpp) makes the same tensors from the same generator and compares.

  python3 tests/plugins/golden/make_golden.py   # needs numpy
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

HEIGHT, WIDTH = 96, 160
NMS, TOP = 0.4, 12


class Generator:
    """Numerical Recipes' 32-bit linear congruential generator; the upper 24 bits become [0, 1)."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def fill(self, shape: list[int], low: float, high: float) -> np.ndarray:
        count = int(np.prod(shape))
        values = np.empty(count, np.float32)
        for i in range(count):
            self.state = (self.state * 1664525 + 1013904223) & 0xFFFFFFFF
            values[i] = np.float32(self.state >> 8) / np.float32(1 << 24)
        return (np.float32(low) + values * np.float32(high - low)).reshape(shape)


def cells(stride: int) -> tuple[int, int]:
    return -(-HEIGHT // stride), -(-WIDTH // stride)


def grid(stride: int, anchors: int = 1) -> np.ndarray:
    """f64 [h*w*anchors, 2]: column and row of every row of flattened outputs."""
    h, w = cells(stride)
    y, x = np.mgrid[:h, :w]
    return np.repeat(np.stack([x, y], -1).reshape(-1, 2), anchors, axis=0).astype(np.float64)


def rows(nchw: np.ndarray, per_anchor: int) -> np.ndarray:
    """[1, A*k, h, w] to [h*w*A, k]."""
    _, channels, h, w = nchw.shape
    return nchw.reshape(channels // per_anchor, per_anchor, h * w).transpose(2, 0, 1).reshape(-1, per_anchor)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def from_centre(c: np.ndarray, size: np.ndarray) -> np.ndarray:
    return np.concatenate([c - size / 2, c + size / 2], -1)


def select(boxes: np.ndarray, scores: np.ndarray, points: np.ndarray | None, threshold: float) -> list[dict]:
    """Class-aware NMS over [N,4], [N,C]; boxes clipped to the picture afterwards."""
    found = [(float(scores[i, c]), int(c), int(i)) for i, c in zip(*np.nonzero(scores >= threshold))]
    found.sort(key=lambda f: (-f[0], f[1], f[2]))
    kept: list[tuple[int, np.ndarray]] = []
    result = []
    for score, c, i in found:
        if len(kept) == TOP:
            break
        b = boxes[i]
        clipped = np.clip(b, 0, [WIDTH, HEIGHT, WIDTH, HEIGHT])
        if b[2] <= b[0] or b[3] <= b[1] or clipped[2] <= clipped[0] or clipped[3] <= clipped[1]:
            continue

        def iou(a: np.ndarray) -> float:
            lt, rb = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
            both = np.prod(np.maximum(rb - lt, 0))
            return both / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - both)

        if any(k == c and iou(a) > NMS for k, a in kept):
            continue
        kept.append((c, b))
        x0, y0, x1, y1 = clipped
        entry = {"class_id": c, "score": round(score, 6), "box": [round(float(v), 4) for v in (x0, y0, x1 - x0, y1 - y0)]}
        if points is not None:
            entry["keypoints"] = [[round(float(v), 4) for v in p] for p in points[i]]
        result.append(entry)
    return result


def case(name: str, config: dict, outputs: list[tuple[str, list[int], float, float]], seed: int, decode) -> dict:
    generator = Generator(seed)
    tensors = {n: generator.fill(s, lo, hi).astype(np.float64) for n, s, lo, hi in outputs}
    config = {"nms": NMS, "max": TOP, **config}
    detections = decode(tensors, config["score"])
    assert len(detections) >= 4, (name, len(detections))
    return {"name": name, "config": config, "seed": seed, "detections": detections,
            "outputs": [{"name": n, "shape": s, "low": lo, "high": hi} for n, s, lo, hi in outputs]}  # fmt: skip


def anchors() -> dict:
    sides = {8: (16, 32), 16: (64, 128), 32: (256, 512)}
    outputs = []
    for s in sides:
        h, w = cells(s)
        outputs += [(f"cls_{s}", [1, 4, h, w], -0.6, 0.9), (f"box_{s}", [1, 8, h, w], -4.0, 4.0),
                    (f"kps_{s}", [1, 20, h, w], -3.0, 3.0)]  # fmt: skip

    def decode(t, threshold):
        b, p, k = [], [], []
        for s, (small, large) in sides.items():
            c = (grid(s, 2) + 0.5) * s
            side = np.tile([small, large], len(c) // 2)[:, None]
            d, l = rows(t[f"box_{s}"], 4), rows(t[f"kps_{s}"], 10).reshape(-1, 5, 2)
            b.append(from_centre(c + d[:, :2] * 0.1 * side, side * np.exp(d[:, 2:] * 0.2)))
            k.append(c[:, None] + l * 0.1 * side[:, None])
            p.append(rows(t[f"cls_{s}"], 2))
        return select(np.concatenate(b), np.concatenate(p), np.concatenate(k), threshold)

    config = {"layout": "anchors", "classes": ["qr", "marker"], "score": 0.8, "keypoints": 5}
    return case("anchors", config, outputs, 1, decode)


def pairs() -> dict:
    h, w = cells(16)
    outputs = [("prob", [1, 4, h, w], -3.0, 3.0), ("bbox", [1, 8, h, w], -0.5, 0.5)]

    def decode(t, threshold):
        background, face = t["prob"][0, :2], t["prob"][0, 2:]
        p = (np.exp(face) / (np.exp(face) + np.exp(background))).reshape(2, -1).T.reshape(-1, 1)
        c = grid(16, 2) * 16 + 7.5
        side = np.tile([128, 64], h * w)[:, None]
        d = rows(t["bbox"], 4)
        return select(from_centre(c + d[:, :2] * side, side * np.exp(d[:, 2:])), p, None, threshold)

    config = {"layout": "anchors", "classes": ["face"], "strides": [16], "anchors": [[128, 64]], "scores": "logits",
              "variances": [1, 1], "anchor_offset": 0, "anchor_shift": 7.5, "score": 0.9}  # fmt: skip
    return case("pairs of logits", config, outputs, 2, decode)


def scrfd() -> dict:
    outputs = []
    for kind, k, lo, hi in (("score", 1, -0.5, 0.95), ("bbox", 4, 0.2, 3.0), ("kps", 10, -2.0, 2.0)):
        outputs += [(f"{kind}_{s}", [1, int(np.prod(cells(s))) * 2, k], lo, hi) for s in (8, 16, 32)]

    def decode(t, threshold):
        b, p, k = [], [], []
        for s in (8, 16, 32):
            c = grid(s, 2) * s
            d = t[f"bbox_{s}"][0] * s
            b.append(np.concatenate([c - d[:, :2], c + d[:, 2:]], -1))
            k.append(c[:, None] + t[f"kps_{s}"][0].reshape(-1, 5, 2) * s)
            p.append(t[f"score_{s}"][0])
        return select(np.concatenate(b), np.concatenate(p), np.concatenate(k), threshold)

    return case("scrfd", {"layout": "scrfd", "classes": ["face"], "score": 0.85}, outputs, 3, decode)


def yunet() -> dict:
    outputs = []
    for kind, k, lo, hi in (("cls", 1, 0.0, 1.0), ("obj", 1, 0.0, 1.1), ("bbox", 4, -1.0, 1.5), ("kps", 10, -2.0, 2.0)):
        outputs += [(f"{kind}_{s}", [1, int(np.prod(cells(s))), k], lo, hi) for s in (8, 16, 32)]

    def decode(t, threshold):
        b, p, k = [], [], []
        for s in (8, 16, 32):
            d = t[f"bbox_{s}"][0]
            b.append(from_centre((grid(s) + d[:, :2]) * s, np.exp(d[:, 2:]) * s))
            k.append((grid(s)[:, None] + t[f"kps_{s}"][0].reshape(-1, 5, 2)) * s)
            p.append(np.sqrt(np.clip(t[f"cls_{s}"][0], 0, 1) * np.clip(t[f"obj_{s}"][0], 0, 1)))
        return select(np.concatenate(b), np.concatenate(p), np.concatenate(k), threshold)

    return case("yunet", {"layout": "yunet", "classes": ["face"], "score": 0.85}, outputs, 4, decode)


def ssd() -> dict:
    outputs = [("scores", [1, 300, 3], -2.0, 4.0), ("boxes", [1, 300, 4], -0.1, 1.1)]

    def decode(t, threshold):
        p = np.exp(t["scores"][0])
        p /= p.sum(-1, keepdims=True)
        return select(t["boxes"][0] * [WIDTH, HEIGHT, WIDTH, HEIGHT], p[:, 1:], None, threshold)

    config = {"layout": "ssd", "classes": ["a", "b"], "scores": "logits", "score": 0.7}
    return case("ssd", config, outputs, 5, decode)


def priors() -> dict:
    sizes = {8: ((10, 10), (16, 12)), 16: ((32, 32),)}
    n = sum(int(np.prod(cells(s))) * len(a) for s, a in sizes.items())
    outputs = [("scores", [1, n, 2], 0.0, 1.0), ("boxes", [1, n, 4], -3.0, 3.0), ("landmarks", [1, n, 10], -2.0, 2.0)]

    def decode(t, threshold):
        c = np.concatenate([(grid(s, len(a)) + 0.5) * s for s, a in sizes.items()])
        size = np.concatenate([np.tile(np.array(a, float), (int(np.prod(cells(s))), 1)) for s, a in sizes.items()])
        d, l = t["boxes"][0], t["landmarks"][0].reshape(-1, 5, 2)
        boxes = from_centre(c + d[:, :2] * 0.1 * size, size * np.exp(d[:, 2:] * 0.2))
        return select(boxes, t["scores"][0][:, 1:], c[:, None] + l * 0.1 * size[:, None], threshold)

    config = {"layout": "ssd", "boxes": "priors", "classes": ["face"], "strides": [8, 16], "score": 0.9,
              "anchors": [[10, [16, 12]], [32]]}  # fmt: skip
    return case("ssd priors", config, outputs, 6, decode)


def yolox() -> dict:
    n = sum(int(np.prod(cells(s))) for s in (8, 16, 32))

    def decode(t, threshold):
        v = t["output"][0]
        g = np.concatenate([grid(s) for s in (8, 16, 32)])
        s = np.concatenate([np.full((int(np.prod(cells(s))), 1), s) for s in (8, 16, 32)])
        boxes = from_centre((g + v[:, :2]) * s, np.exp(v[:, 2:4]) * s)
        p = sigmoid(v[:, 4:5]) * sigmoid(v[:, 5:])
        p *= p == p.max(-1, keepdims=True)  # the best class alone
        return select(boxes, p, None, threshold)

    config = {"layout": "yolox", "classes": ["a", "b", "c"], "scores": "logits", "score": 0.6}
    return case("yolox", config, [("output", [1, n, 8], -2.0, 2.5)], 7, decode)


def nanodet() -> dict:
    outputs = [(f"cls_pred_stride_{s}", [1, int(np.prod(cells(s))), 3], 0.0, 0.9) for s in (8, 16, 32)]
    outputs += [(f"dis_pred_stride_{s}", [1, int(np.prod(cells(s))), 32], -4.0, 4.0) for s in (8, 16, 32)]

    def decode(t, threshold):
        b, p = [], []
        for s in (8, 16, 32):
            c = (grid(s) + 0.5) * s
            e = np.exp(t[f"dis_pred_stride_{s}"][0].reshape(-1, 4, 8))
            d = (e / e.sum(-1, keepdims=True) * np.arange(8)).sum(-1) * s
            b.append(np.concatenate([c - d[:, :2], c + d[:, 2:]], -1))
            p.append(t[f"cls_pred_stride_{s}"][0])
        return select(np.concatenate(b), np.concatenate(p), None, threshold)

    return case("nanodet", {"layout": "nanodet", "classes": ["a", "b", "c"], "score": 0.85}, outputs, 8, decode)


def fastestdet() -> dict:
    h, w = cells(16)

    def decode(t, threshold):
        v = t["758"][0].reshape(8, -1).T
        c = (grid(16) + np.tanh(v[:, 1:3])) * 16
        size = sigmoid(v[:, 3:5]) * [w * 16, h * 16]
        p = np.clip(v[:, :1], 0, None) ** 0.6 * np.clip(v[:, 5:], 0, None) ** 0.4
        p *= v[:, 5:] == v[:, 5:].max(-1, keepdims=True)
        return select(from_centre(c, size), p, None, threshold)

    config = {"layout": "fastestdet", "classes": ["a", "b", "c"], "score": 0.6}
    return case("fastestdet", config, [("758", [1, 8, h, w], -1.0, 1.0)], 9, decode)


def fastestv2() -> dict:
    sides = {16: ((12.64, 19.39), (37.88, 51.48), (55.71, 138.31)),
             32: ((126.91, 78.23), (131.57, 214.55), (279.92, 258.87))}  # fmt: skip

    def decode(t, threshold):
        b, p = [], []
        for s, a in sides.items():
            v = t[f"out_{s}"].reshape(-1, 12 + 3 + 4)
            reg, obj, cls = v[:, :12].reshape(-1, 4), v[:, 12:15].reshape(-1, 1), np.repeat(v[:, 15:], 3, axis=0)
            c = (grid(s, 3) + reg[:, :2] * 2 - 0.5) * s
            b.append(from_centre(c, (reg[:, 2:] * 2) ** 2 * np.tile(np.array(a), (len(v), 1))))
            p.append(obj * cls * (cls == cls.max(-1, keepdims=True)))
        return select(np.concatenate(b), np.concatenate(p), None, threshold)

    outputs = [(f"out_{s}", [1, *cells(s), 19], 0.0, 1.0) for s in sides]
    return case("yolo-fastestv2", {"layout": "yolo-fastestv2", "score": 0.8}, outputs, 10, decode)


def centernet() -> dict:
    h, w = HEIGHT // 4, WIDTH // 4

    def decode(t, threshold):
        hm = t["hm"][0]
        around = np.pad(hm, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        peak = np.max([around[:, y : y + h, x : x + w] for y in range(3) for x in range(3)], axis=0)
        p = sigmoid(np.where(hm == peak, hm, -np.inf)).reshape(3, -1).T
        c = (grid(4) + rows(t["reg"], 2)) * 4
        return select(from_centre(c, rows(t["wh"], 2) * 4), p, None, threshold)

    outputs = [("hm", [1, 3, h, w], -6.0, 3.0), ("wh", [1, 2, h, w], 0.5, 12.0), ("reg", [1, 2, h, w], 0.0, 1.0)]
    return case("centernet", {"layout": "centernet", "scores": "logits", "score": 0.5}, outputs, 11, decode)


def centerface() -> dict:
    h, w = HEIGHT // 4, WIDTH // 4

    def decode(t, threshold):
        size, off = np.exp(rows(t["538"], 2)[:, ::-1]) * 4, rows(t["539"], 2)[:, ::-1]
        boxes = from_centre((grid(4) + off + 0.5) * 4, size)
        points = rows(t["540"], 10).reshape(-1, 5, 2)[:, :, ::-1] * size[:, None] + boxes[:, None, :2]
        return select(boxes, rows(t["537"], 1), points, threshold)

    outputs = [("537", [1, 1, h, w], -0.5, 1.0), ("538", [1, 2, h, w], 0.0, 3.0), ("539", [1, 2, h, w], -0.5, 0.5),
               ("540", [1, 10, h, w], 0.0, 1.0)]  # fmt: skip
    return case("centerface", {"layout": "centerface", "classes": ["face"], "score": 0.9}, outputs, 12, decode)


def fomo() -> dict:
    h, w = cells(8)

    def decode(t, threshold):
        e = np.exp(t["output"][0])
        p = (e / e.sum(0))[1:]
        found = []
        for k in range(len(p)):
            # Numbers spread from cell to cell until nothing changes: each object's cells have its least one.
            mark = np.where(p[k] >= threshold, np.arange(h * w).reshape(h, w), h * w)
            for _ in range(h * w):
                around = np.pad(mark, 1, constant_values=h * w)
                least = np.min([around[y : y + h, x : x + w] for y in range(3) for x in range(3)], axis=0)
                mark = np.where(p[k] >= threshold, least, h * w)
            for number in np.unique(mark[mark < h * w]):
                y, x = np.nonzero(mark == number)
                scores = np.zeros(len(p))
                scores[k] = p[k][y, x].max()
                found.append((np.array([x.min(), y.min(), x.max() + 1, y.max() + 1]) * 8.0, scores))
        return select(np.array([b for b, _ in found]), np.array([s for _, s in found]), None, threshold)

    config = {"layout": "fomo", "scores": "logits", "score": 0.6, "nms": 1}
    return case("fomo", config, [("output", [1, 3, h, w], -1.5, 1.5)], 16, decode)


def mediapipe() -> dict:
    c = np.concatenate([(grid(8, 2) + 0.5) * 8, (grid(16, 6) + 0.5) * 16])

    def decode(t, threshold):
        d = t["regressors"][0]
        boxes = from_centre(c + d[:, :2], d[:, 2:4])
        return select(boxes, sigmoid(t["classificators"][0]), c[:, None] + d[:, 4:].reshape(-1, 6, 2), threshold)

    outputs = [("regressors", [1, len(c), 16], -8.0, 40.0), ("classificators", [1, len(c), 1], -6.0, 3.0)]
    return case("mediapipe", {"layout": "blazeface", "classes": ["face"], "score": 0.8}, outputs, 13, decode)


def efficientdet() -> dict:
    strides = (8, 16, 32, 64, 128)
    shapes = [(4 * 2 ** (o / 3) * x, 4 * 2 ** (o / 3) * y) for o in range(3) for x, y in ((1, 1), (1.4, 0.7), (0.7, 1.4))]

    def decode(t, threshold):
        b, p = [], []
        for s in strides:
            c = (grid(s, 9) + 0.5) * s
            size = np.tile(np.array(shapes) * s, (int(np.prod(cells(s))), 1))
            d = rows(t[f"box_{s}"], 4)
            b.append(from_centre(c + d[:, 1::-1] * size, np.exp(d[:, :1:-1]) * size))
            p.append(sigmoid(rows(t[f"cls_{s}"], 2)))
        return select(np.concatenate(b), np.concatenate(p), None, threshold)

    outputs = [(f"cls_{s}", [1, 18, *cells(s)], -6.0, 3.0) for s in strides]
    outputs += [(f"box_{s}", [1, 36, *cells(s)], -1.0, 0.5) for s in strides]
    return case("efficientdet", {"layout": "efficientdet", "score": 0.8}, outputs, 14, decode)


def rtmdet() -> dict:
    outputs = [(f"cls_{s}", [1, 3, *cells(s)], -6.0, 3.0) for s in (8, 16, 32)]
    outputs += [(f"bbox_{s}", [1, 4, *cells(s)], 1.0, 60.0) for s in (8, 16, 32)]

    def decode(t, threshold):
        b, p = [], []
        for s in (8, 16, 32):
            d = rows(t[f"bbox_{s}"], 4)
            b.append(np.concatenate([grid(s) * s - d[:, :2], grid(s) * s + d[:, 2:]], -1))
            p.append(sigmoid(rows(t[f"cls_{s}"], 3)))
        return select(np.concatenate(b), np.concatenate(p), None, threshold)

    config = {"layout": "scrfd", "anchors_per_cell": 1, "decoded": True, "scores": "logits", "score": 0.9}
    return case("heads of rtmdet", config, outputs, 15, decode)


YOLO_ANCHORS = {
    "yolov5": {8: ((10, 13), (16, 30), (33, 23)), 16: ((30, 61), (62, 45), (59, 119)), 32: ((116, 90), (156, 198), (373, 326))},
    "yolov4": {8: ((12, 16), (19, 36), (40, 28)), 16: ((36, 75), (76, 55), (72, 146)), 32: ((142, 110), (192, 243), (459, 401))},
    "yolov2-tiny": {32: tuple((32 * w, 32 * h) for w, h in
                              ((1.08, 1.19), (3.42, 4.41), (6.63, 11.38), (9.42, 5.11), (16.62, 10.52)))},
}  # fmt: skip


def yolov5_heads() -> dict:
    sides = YOLO_ANCHORS["yolov5"]

    def decode(t, threshold):
        b, p = [], []
        for s, a in sides.items():
            v = sigmoid(t[f"out_{s}"][0].reshape(3, -1, 8).transpose(1, 0, 2).reshape(-1, 8).astype(np.float64))
            c = (grid(s, 3) + v[:, :2] * 2 - 0.5) * s
            b.append(from_centre(c, (v[:, 2:4] * 2) ** 2 * np.tile(np.array(a), (len(v) // 3, 1))))
            p.append(v[:, 4:5] * v[:, 5:] * (v[:, 5:] == v[:, 5:].max(-1, keepdims=True)))
        return select(np.concatenate(b), np.concatenate(p), None, threshold)

    outputs = [(f"out_{s}", [1, 3, *cells(s), 8], -3.0, 3.0) for s in sides]
    return case("yolov5-heads", {"layout": "yolov5-heads", "score": 0.8}, outputs, 16, decode)


def yolov4_heads() -> dict:
    sides, reach = YOLO_ANCHORS["yolov4"], {8: 1.2, 16: 1.1, 32: 1.05}

    def decode(t, threshold):
        b, p = [], []
        for s, a in sides.items():
            v = t[f"out_{s}"][0].reshape(-1, 7).astype(np.float64)
            c = (grid(s, 3) + v[:, :2] * reach[s] - (reach[s] - 1) / 2) * s
            b.append(from_centre(c, np.exp(v[:, 2:4]) * np.tile(np.array(a), (len(v) // 3, 1))))
            p.append(v[:, 4:5] * v[:, 5:] * (v[:, 5:] == v[:, 5:].max(-1, keepdims=True)))
        return select(np.concatenate(b), np.concatenate(p), None, threshold)

    outputs = [(f"out_{s}", [1, *cells(s), 3, 7], 0.0, 1.0) for s in sides]
    config = {"layout": "yolov4-heads", "scores": "probability", "score": 0.85}
    return case("yolov4-heads", config, outputs, 17, decode)


def yolov2_heads() -> dict:
    sides = YOLO_ANCHORS["yolov2-tiny"][32]

    def decode(t, threshold):
        v = rows(t["grid"].astype(np.float64), 8)
        c = (grid(32, 5) + sigmoid(v[:, :2])) * 32
        boxes = from_centre(c, np.exp(v[:, 2:4]) * np.tile(np.array(sides), (len(v) // 5, 1)))
        e = np.exp(v[:, 5:])
        p = sigmoid(v[:, 4:5]) * e / e.sum(-1, keepdims=True) * (e == e.max(-1, keepdims=True))
        return select(boxes, p, None, threshold)

    outputs = [("grid", [1, 40, *cells(32)], -3.0, 3.0)]
    return case("yolov2-tiny-heads", {"layout": "yolov2-tiny-heads", "score": 0.5}, outputs, 18, decode)


def yolov8_heads() -> dict:
    def decode(t, threshold):
        b, p = [], []
        for s in (8, 16, 32):
            v = t[f"out_{s}"][0].reshape(66, -1).T.astype(np.float64)
            c = (grid(s) + 0.5) * s
            e = np.exp(v[:, :64].reshape(-1, 4, 16))
            d = (e / e.sum(-1, keepdims=True) * np.arange(16)).sum(-1) * s
            b.append(np.concatenate([c - d[:, :2], c + d[:, 2:]], -1))
            p.append(sigmoid(v[:, 64:]))
        return select(np.concatenate(b), np.concatenate(p), None, threshold)

    outputs = [(f"out_{s}", [1, 66, *cells(s)], -4.0, 4.0) for s in (8, 16, 32)]
    return case("yolov8-heads", {"layout": "yolov8-heads", "score": 0.9}, outputs, 19, decode)


def main() -> None:
    cases = [anchors(), pairs(), scrfd(), yunet(), ssd(), priors(), yolox(), nanodet(), fastestdet(), fastestv2(),
             centernet(), centerface(), mediapipe(), efficientdet(), rtmdet(), fomo(), yolov5_heads(), yolov4_heads(), yolov2_heads(), yolov8_heads()]  # fmt: skip
    path = Path(__file__).with_name("golden.json")
    text = ",\n".join(json.dumps(c) for c in cases)
    path.write_text(f'{{"height": {HEIGHT}, "width": {WIDTH}, "cases": [\n{text}\n]}}\n')
    print(f"{path}: {len(cases)} layouts, {sum(len(c['detections']) for c in cases)} detections")


if __name__ == "__main__":
    main()
