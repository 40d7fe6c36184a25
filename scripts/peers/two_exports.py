"""What camd finds by two exports of one network, on the same frames of a clip: they ought to be the same objects.

  python3 scripts/peers/two_exports.py [--camd build/dev/bin/camd] [--clip ../shared/video/asl_book.mkv] [--frames 10] [--score 0.3] A.onnx B.onnx

camd is given the files alone and decides their layouts itself. Printed: how many objects each found, how many of the first's the
second has too (of the same class, within a pixel at each corner), and how far the farthest of those are apart. `nms` is off, as it
decides between equal scores by their order. Needs nothing but camd.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def found_by(model: str, arguments: argparse.Namespace) -> list[list[dict]]:
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "found.jsonl")
        settings = {
            "device": "host",
            "cameras.0.source": {"type": "file", "path": str(Path(arguments.clip).resolve()), "realtime": False},
            "postprocess": [{"plugin": "detections", "config": {"score": arguments.score, "nms": 1, "max": 4096}},
                            {"plugin": "jsonl", "config": {"path": str(lines)}}]}
        command = [arguments.camd, "run", model, "--metrics", "off", "--frames", str(arguments.frames)]
        for key, value in settings.items():
            command += ["--set", f"{key}={json.dumps(value)}"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            sys.exit(f"camd run failed on {model}: {ran.stderr.strip()[-500:]}")
        return [json.loads(line)["detections"] for line in lines.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--camd", default="build/dev/bin/camd")
    parser.add_argument("--clip", default="../shared/video/asl_book.mkv")
    parser.add_argument("--frames", type=int, default=10)
    parser.add_argument("--score", type=float, default=0.3)
    parser.add_argument("models", nargs=2)
    arguments = parser.parse_args()
    first, second = (found_by(model, arguments) for model in arguments.models)
    frames = min(arguments.frames, len(first), len(second))
    same, corner, score = 0, 0.0, 0.0
    for mine, other in zip(first[:frames], second[:frames]):
        for a in mine:
            near = [(max(abs(x - y) for x, y in zip(a["box"], b["box"])), abs(a["score"] - b["score"]))
                    for b in other if b["class_id"] == a["class_id"]]
            best = min(near, default=(2.0, 0.0))
            if best[0] > 1.0:
                continue
            same, corner, score = same + 1, max(corner, best[0]), max(score, best[1])
    print(f"{frames} frames: {sum(map(len, first[:frames]))} and {sum(map(len, second[:frames]))} objects, {same} the same, "
          f"at most {corner:.2f} pixels and {score:.4f} in score apart")


if __name__ == "__main__":
    main()
