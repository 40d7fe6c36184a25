#!/usr/bin/env python3
"""Compares a real detector's outputs on real frames with what ONNX Runtime made of the same input.

usage: check_outputs.py CAMD EXAMPLE [--tolerance T] [--shared DIR] [--last FRAME] [--set KEY=VALUE]...

EXAMPLE is one of docs/examples/detectors. Frames 0, 50 and 100 of its clip run through `camd run`; of each output the
elements in tests/detectors/goldens are compared, relative to the output's largest value (default tolerance 1e-4, and
what ONNX Runtime with and without its own optimisations differs by). --last: none of a later frame, and the clip ends there.
make_goldens.py made the goldens, with ONNX Runtime and with the input that camd itself had written.
"""

import json
import math
import sys
import tempfile
from pathlib import Path

import detectors


def main() -> int:
    parser = detectors.parser_of(__doc__)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--last", type=int, default=sys.maxsize)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    arguments = parser.parse_args()
    detectors.need_shared(arguments.shared)
    golden = json.loads((detectors.GOLDENS / f"{arguments.example}.json").read_text(encoding="utf-8"))
    wanted = {int(frame): outputs for frame, outputs in golden["outputs"].items() if int(frame) <= arguments.last}
    worst, compared, problems = 0.0, 0, []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        detectors.run_example([arguments.camd], arguments.example, arguments.shared, folder,
                              frames=max(wanted) + 1,
                              tensors={"dir": str(folder / "npy"), "every": detectors.EVERY, "input": False},
                              settings=arguments.settings)
        for frame, outputs in wanted.items():
            for output, want in outputs.items():
                shape, values = detectors.read_npy(folder / "npy" / f"{frame:06}.{detectors.file_name(output)}.npy")
                if list(shape) != want["shape"]:
                    problems.append(f"frame {frame}: {output} is {list(shape)}, not {want['shape']}")
                    continue
                for i, value in zip(detectors.sampled(len(values)), want["values"]):
                    error = abs(values[i] - value) / want["largest"]
                    compared += 1
                    worst = max(worst, error)
                    if not error <= arguments.tolerance + want["noise"] or math.isnan(error):
                        problems.append(f"frame {frame}: {output}[{i}] is {values[i]:.7g}, not {value:.7g}")
    for problem in problems[:20]:
        print(problem)
    print(f"{arguments.example}: {compared} elements compared, the worst is {worst:.1e} of its output's largest value "
          f"away, {arguments.tolerance:g} is allowed")
    return 1 if problems or compared == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
