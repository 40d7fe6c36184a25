"""Says how surely each anchor finds what is its own, and raises the scores of one of them.

  python3 models/marker/calibrate.py --model models/marker-1280x720.onnx                                       # measures
  python3 models/marker/calibrate.py --model models/marker-1280x720.onnx --anchor 24 --class qr --logits 0.45  # writes the file

It measures on far scenes drawn with a seed of their own, never on those of evaluate.py: recall at the card's score by anchor and
class, and the score at which the least sure ones reach each share. Raising adds to one bias of the file, which costs nothing.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from detector import Detector

SEED, SCENES = 778, 60


def measure(model: Path) -> None:
    import evaluate  # needs torch, raising a score does not

    detector = Detector(model)
    sides = detector.card["anchors"]
    scores: dict[tuple[int, int], list[float]] = defaultdict(list)
    evaluate.SEED = SEED
    pictures = evaluate.validation_pictures(SCENES, detector.width, detector.height, evaluate.make_far_scene, True,
                                            evaluate.SMALLEST_PX, evaluate.SMALLEST_MODULE_PX)  # fmt: skip
    for picture, truth in pictures:
        maps = detector.outputs(picture)
        best: dict[int, tuple[float, int]] = {}  # of each code: the score, and the anchor that has it
        for level, of_level in enumerate(sides):
            for a, side in enumerate(of_level):
                alone = [m if i % 3 else np.zeros_like(m) for i, m in enumerate(maps)]
                own = slice(a * len(detector.card["classes"]), (a + 1) * len(detector.card["classes"]))
                alone[3 * level][:, own] = maps[3 * level][:, own]
                got = detector.decode(alone, evaluate.LOWEST_SCORE)
                overlap = evaluate.iou_matrix(got.boxes, evaluate.boxes_of(truth.corners)) * (got.classes[:, None] == truth.classes[None])
                for g in np.nonzero(truth.wanted)[0]:
                    hits = got.scores[overlap[:, g] >= 0.5] if len(overlap) else np.zeros(0)
                    if len(hits):
                        best[g] = max(best.get(g, (0.0, side)), (float(hits.max()), side))
        for g, (score, side) in best.items():
            scores[side, int(truth.classes[g])].append(score)
    print("| anchor | class | codes | recall at the card's score | score with recall 0.80 | 0.85 | 0.88 | 0.90 |\n|---|---|---|---|---|---|---|---|")
    for (side, c), each in sorted(scores.items()):
        at = " | ".join(f"{np.sort(each)[::-1][int(np.ceil(share * len(each))) - 1]:.3f}" for share in (0.80, 0.85, 0.88, 0.90))
        print(f"| {side} | {detector.card['classes'][c]} | {len(each)} | {np.mean(np.array(each) >= detector.card['score']):.3f} | {at} |")


def raise_scores(model: onnx.ModelProto, name: str, channel: int, logits: float) -> None:
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
    raise_scores(model, f"logit_{card['strides'][level]}", a * len(card["classes"]) + card["classes"].index(args.class_name), args.logits)
    onnx.save(model, args.model)


if __name__ == "__main__":
    main()
