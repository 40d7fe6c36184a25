"""Says how surely each anchor finds what is its own and how often it takes something else for a code, and moves the scores of one.

  python3 models/marker/calibrate.py --model models/marker-1280x720.onnx                                       # measures
  python3 models/marker/calibrate.py --model models/marker-1280x720.onnx --anchor 24 --class qr --logits 0.45  # writes the file

It measures on scenes drawn with a seed of their own, never on those of evaluate.py. Far scenes: recall at the card's score by anchor
and class, and the score at which the least sure ones reach each share. Scenes without a code: false alarms, beside the codes that
are found, at the card's score and above. Moving adds to one bias of the file, which costs nothing.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from detector import Detections, Detector

SEED, SCENES = 778, 60


def alone(detector: Detector, maps: list[np.ndarray], level: int, a: int, score: float) -> Detections:
    """What one anchor finds by itself."""
    own = slice(a * len(detector.card["classes"]), (a + 1) * len(detector.card["classes"]))
    kept = [m if i % 3 else np.zeros_like(m) for i, m in enumerate(maps)]
    kept[3 * level][:, own] = maps[3 * level][:, own]
    return detector.decode(kept, score)


def measure(model: Path) -> None:
    import evaluate  # needs torch, moving a score does not

    evaluate.SEED = SEED
    detector = Detector(model)
    anchors = [(level, a, side) for level, sides in enumerate(detector.card["anchors"]) for a, side in enumerate(sides)]
    least, names = detector.card["score"], detector.card["classes"]

    def pictures(make: Callable[..., evaluate.Scene]) -> Iterator[tuple[np.ndarray, evaluate.Truth]]:
        return evaluate.validation_pictures(SCENES, detector.width, detector.height, make, True, evaluate.SMALLEST_PX, evaluate.SMALLEST_MODULE_PX)

    scores: dict[tuple[int, int], list[float]] = defaultdict(list)
    for picture, truth in pictures(evaluate.make_far_scene):
        maps = detector.outputs(picture)
        best: dict[int, tuple[float, int]] = {}  # of each code: the score, and the anchor that has it
        for level, a, side in anchors:
            got = alone(detector, maps, level, a, evaluate.LOWEST_SCORE)
            overlap = evaluate.iou_matrix(got.boxes, evaluate.boxes_of(truth.corners)) * (got.classes[:, None] == truth.classes[None])
            for g in np.nonzero(truth.wanted)[0]:
                hits = got.scores[overlap[:, g] >= 0.5] if len(overlap) else np.zeros(0)
                if len(hits):
                    best[g] = max(best.get(g, (0.0, side)), (float(hits.max()), side))
        for g, (score, side) in best.items():
            scores[side, int(truth.classes[g])].append(score)
    alarms: dict[tuple[int, int], list[float]] = defaultdict(list)
    for picture, _ in pictures(evaluate.make_empty_scene):
        maps = detector.outputs(picture)
        for level, a, side in anchors:
            got = alone(detector, maps, level, a, least)
            for score, c in zip(got.scores, got.classes):
                alarms[side, int(c)].append(float(score))

    print("| anchor | class | codes | recall at the card's score | score with recall 0.80 | 0.85 | 0.88 | 0.90 |\n|---|---|---|---|---|---|---|---|")
    for (side, c), each in sorted(scores.items()):
        at = " | ".join(f"{np.sort(each)[::-1][int(np.ceil(share * len(each))) - 1]:.3f}" for share in (0.80, 0.85, 0.88, 0.90))
        print(f"| {side} | {names[c]} | {len(each)} | {np.mean(np.array(each) >= least):.3f} | {at} |")
    limits = [least, *(least + more for more in (0.03, 0.06, 0.1))]
    print("\nfalse alarms / codes found\n| anchor | class | " + " | ".join(f"at {limit:.2f}" for limit in limits) + " |\n|---|---|" + "---|" * len(limits))
    for side, c in sorted(set(scores) | set(alarms)):
        at = " | ".join("{} / {}".format(*((np.array(of[side, c]) >= limit).sum() for of in (alarms, scores))) for limit in limits)
        print(f"| {side} | {names[c]} | {at} |")


def move_scores(model: onnx.ModelProto, name: str, channel: int, logits: float) -> None:
    """Adds to the bias of the convolution `name`, in place."""
    node = next(n for n in model.graph.node if n.op_type == "Conv" and n.output[0] == name)
    users = [n for n in model.graph.node if node.input[2] in n.input]
    if len(users) != 1:
        raise SystemExit(f"calibrate.py: the bias of {name} is shared by {len(users)} convolutions")
    constant = next(c for c in model.graph.initializer if c.name == node.input[2])
    bias = numpy_helper.to_array(constant).copy()
    bias[channel] += np.float32(logits)
    constant.CopyFrom(numpy_helper.from_array(bias, constant.name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--anchor", type=int, help="its side; of the full picture's levels")
    parser.add_argument("--class", dest="class_name", help="its class; with --anchor and --logits")
    parser.add_argument("--logits", type=float, help="what is added to the score's logit")
    args = parser.parse_args()
    if args.anchor is None:
        measure(args.model)
        return
    card = Detector(args.model).card
    at = [(level, a) for level, sides in enumerate(card["anchors"]) for a, side in enumerate(sides) if side == args.anchor]
    if not at or args.class_name not in card["classes"] or args.logits is None:
        parser.error("--anchor, --class and --logits go together, with an anchor and a class of the card")
    level, a = at[0]
    model = onnx.load(args.model)
    move_scores(model, f"logit_{card['strides'][level]}", a * len(card["classes"]) + card["classes"].index(args.class_name), args.logits)
    onnx.save(model, args.model)


if __name__ == "__main__":
    main()
