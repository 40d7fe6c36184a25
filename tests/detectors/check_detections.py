#!/usr/bin/env python3
"""Runs an example of docs/examples/detectors over its clip and looks whether it finds what is there.

usage: check_detections.py CAMD EXAMPLE [--shared DIR] [--set KEY=VALUE]...

Faces (asl_book.mkv): one in every frame, and no second box. People (one-by-one-person-detection.mp4): in 99 of 100
frames there is one where, and only where, ONNX Runtime with the same decoding finds one
(tests/detectors/goldens/EXAMPLE.json, made by make_goldens.py).
"""

import json
import sys
import tempfile
from pathlib import Path

import detectors


def check_faces(lines: list[dict]) -> list[str]:
    return [f"frame {line['seq']}: {[(d['class'], d['score'], d['box']) for d in line['detections']]}"
            for line in lines if [d["class"] for d in line["detections"]] != ["face"]]


def main() -> int:
    parser = detectors.parser_of(__doc__)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    arguments = parser.parse_args()
    detectors.need_shared(arguments.shared)
    golden = json.loads((detectors.GOLDENS / f"{arguments.example}.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as temporary:
        lines = detectors.run_example([arguments.camd], arguments.example, arguments.shared, Path(temporary),
                                      settings=arguments.settings)
    if len(lines) != golden["frames"]:
        print(f"{len(lines)} frames instead of {golden['frames']}")
        return 1
    if "person" not in golden:
        problems = check_faces(lines)
        print("\n".join(problems[:20]))
        print(f"{arguments.example}: one face, and nothing else, in {len(lines) - len(problems)} of {len(lines)} frames")
        return 1 if problems else 0
    want = {frame for first, last in golden["person"] for frame in range(first, last + 1)}
    got = {line["seq"] for line in lines if any(d["class"] == "person" for d in line["detections"])}
    differ = sorted(want ^ got)
    print(f"{arguments.example}: agrees in {len(lines) - len(differ)} of {len(lines)} frames with ONNX Runtime, which "
          f"finds a person in {len(want)}; differs in {differ[:20]}")
    return 1 if len(differ) > len(lines) // 100 else 0


if __name__ == "__main__":
    sys.exit(main())
