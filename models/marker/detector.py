"""The detector as a user would run it, in NumPy: letterbox, ONNX Runtime, decoding, suppression."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import onnxruntime
import yaml

PAD_GREY = 114
NEAR = 0.4  # of a box's side: deviation of the weight of cells around a keypoint, see suppress()


@dataclass
class Detections:
    """Of one picture, best score first, in its pixels."""

    scores: np.ndarray  # f32 [n]
    classes: np.ndarray  # i64 [n]
    boxes: np.ndarray  # f32 [n, 4], x0 y0 x1 y1
    points: np.ndarray  # f32 [n, K, 2]


def card_of(model: Path) -> Path:
    """As camd finds it: the model's name with .yaml, else that without its size."""
    own = model.with_suffix(".yaml")
    return own if own.exists() else model.with_name(re.sub(r"-\d+x\d+$", "", model.stem) + ".yaml")


def letterbox(image: np.ndarray, width: int, height: int) -> tuple[np.ndarray, float, float, float]:
    """The picture scaled to fit, centred on grey; and scale and shift from its pixels to the network's."""
    h, w = image.shape[:2]
    scale = min(width / w, height / h)
    nw, nh = round(w * scale), round(h * scale)
    left, top = (width - nw) // 2, (height - nh) // 2
    canvas = np.full((height, width, 3), PAD_GREY, np.uint8)
    # Area averaging where the picture shrinks, as a decent camera pipeline does.
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    canvas[top : top + nh, left : left + nw] = cv2.resize(image, (nw, nh), interpolation=method)
    return canvas, scale, left + 0.5 * scale - 0.5, top + 0.5 * scale - 0.5


def overlaps(box: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """IoU of one box with each of several."""
    area = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    shared = (high - low).clip(min=0).prod(axis=1)
    return shared / np.maximum((box[2:] - box[:2]).prod() + area - shared, 1e-6)


def suppress(scores: np.ndarray, boxes: np.ndarray, points: np.ndarray, centres: np.ndarray, limit: float,
             blend: float) -> tuple[list[int], np.ndarray, np.ndarray]:  # fmt: skip
    """Greedy non-maximum suppression of one class, sorted by score: the kept indices, and their boxes and points, which
    are means over the suppressed that overlap by more than `blend`, weighted by score squared; each point also by how
    near it, as the kept one has it, the candidate's anchor centre (`centres`, f32 [n, 2]) lies."""
    open_, kept, mean_boxes, mean_points = np.ones(len(boxes), bool), [], [], []
    for i in range(len(boxes)):
        if not open_[i]:
            continue
        iou = overlaps(boxes[i], boxes)
        iou[i] = 2
        same = np.nonzero(open_ & (iou > limit) & (iou > blend))[0]
        weight = scores[same] ** 2
        distance = ((centres[same, None] - points[i]) ** 2).sum(axis=2)  # squared, [same, K]
        area = (boxes[i, 2:] - boxes[i, :2]).prod()
        near = np.maximum(np.exp(-distance / (2 * NEAR**2 * area)), 1e-6)  # never 0: far from all is the mean by score
        kept.append(i)
        mean_boxes.append(np.average(boxes[same], axis=0, weights=weight))
        weights = np.broadcast_to((weight[:, None] * near)[..., None], points[same].shape)
        mean_points.append(np.average(points[same], axis=0, weights=weights))
        open_ &= iou <= limit
    return kept, np.array(mean_boxes), np.array(mean_points)


class Detector:
    def __init__(self, model: Path, card: Path | None = None, threads: int = 2):
        self.card = yaml.safe_load((card or card_of(model)).read_text())
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.height, self.width = self._session.get_inputs()[0].shape[2:]
        rows = []
        for stride, sides in zip(self.card["strides"], self.card["anchors"]):
            y, x = np.mgrid[0 : -(-self.height // stride), 0 : -(-self.width // stride)]
            for side in sides:
                rows.append(np.stack(((x + self.card["anchor_offset"]) * stride, (y + self.card["anchor_offset"]) * stride, np.full_like(x, side, float)), axis=-1))
        self._anchors = rows  # one [h, w, 3] per anchor size, in the outputs' order

    def outputs(self, canvas: np.ndarray) -> list[np.ndarray]:
        """The nine maps of a picture that already has the network's size."""
        x = canvas.astype(np.float32).transpose(2, 0, 1)[None] * np.float32(self.card["input"]["scale"])
        return self._session.run(None, {"input": np.ascontiguousarray(x)})

    def decode(self, maps: list[np.ndarray], score: float) -> Detections:
        """Detections in network pixels."""
        card, names = self.card, self.card["classes"]
        near, far = card["variances"]
        k = card["keypoints"]
        found: list[tuple[np.ndarray, ...]] = []
        for index, anchors in enumerate(self._anchors):
            level, a = divmod(index, len(card["anchors"][0]))
            cls, box, kps = (m[0] for m in maps[3 * level : 3 * level + 3])
            cls = cls.reshape(-1, len(names), *cls.shape[1:])[a]
            for c in range(len(names)):
                y, x = np.nonzero(cls[c] >= score)
                if len(y) == 0:
                    continue
                ax, ay, side = anchors[y, x].T
                d = box.reshape(-1, 4, *box.shape[1:])[a][:, y, x]
                p = kps.reshape(-1, k, 2, *kps.shape[1:])[a][..., y, x]
                cx, cy = ax + d[0] * near * side, ay + d[1] * near * side
                w, h = side * np.exp(d[2] * far), side * np.exp(d[3] * far)
                boxes = np.stack((cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2), axis=1)
                points = np.stack((ax + p[:, 0] * near * side, ay + p[:, 1] * near * side), axis=-1).transpose(1, 0, 2)
                found.append((cls[c][y, x], np.full(len(y), c), boxes, points, np.stack((ax, ay), axis=1)))
        if not found:
            return Detections(np.zeros(0), np.zeros(0, int), np.zeros((0, 4)), np.zeros((0, k, 2)))
        scores, classes, boxes, points, centres = (np.concatenate(part) for part in zip(*found))
        order = np.argsort(-scores, kind="stable")[:1000]
        scores, classes, boxes, points, centres = scores[order], classes[order], boxes[order], points[order], centres[order]
        parts = []
        for c in range(len(names)):
            mine = np.nonzero(classes == c)[0]
            if len(mine):
                kept, *means = suppress(scores[mine], boxes[mine], points[mine], centres[mine], card["nms"], card.get("blend", 1))
                parts.append((scores[mine][kept], classes[mine][kept], *means))
        scores, classes, boxes, points = (np.concatenate(part) for part in zip(*parts))
        order = np.argsort(-scores, kind="stable")
        return Detections(scores[order], classes[order], boxes[order], points[order])

    def detect(self, image: np.ndarray, score: float | None = None) -> Detections:
        """Detections of a u8 BGR picture of any size, in its pixels."""
        canvas, scale, dx, dy = letterbox(image, self.width, self.height)
        got = self.decode(self.outputs(canvas), self.card["score"] if score is None else score)
        shift = np.array([dx, dy])
        got.boxes = (got.boxes - np.tile(shift, 2)) / scale
        got.points = (got.points - shift) / scale
        return got
