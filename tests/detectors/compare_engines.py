#!/usr/bin/env python3
"""Compares all outputs of a real detector, on real frames, between two engines or devices of one camd.

usage: compare_engines.py CAMD EXAMPLE [--tolerance T] [--shared DIR] --first KEY=VALUE... --second KEY=VALUE...

EXAMPLE is one of docs/examples/detectors. Frames 0, 50 and 100 of its clip run twice, with the settings of --first and
of --second, and every element of every output is compared, relative to the output's largest value (default 1e-3). For
machines whose decoder makes other pictures than the one that tests/detectors/goldens come from.
"""

import math
import sys
import tempfile
from pathlib import Path

import detectors


def main() -> int:
    parser = detectors.parser_of(__doc__)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--first", nargs="+", default=[])
    parser.add_argument("--second", nargs="+", default=[])
    arguments = parser.parse_args()
    detectors.need_shared(arguments.shared)
    worst, where, compared = 0.0, "", 0
    with tempfile.TemporaryDirectory() as temporary:
        folders = []
        for name, settings in (("first", arguments.first), ("second", arguments.second)):
            folder = Path(temporary) / name
            folder.mkdir()
            detectors.run_example([arguments.camd], arguments.example, arguments.shared, folder,
                                  frames=2 * detectors.EVERY + 1,
                                  tensors={"dir": str(folder / "npy"), "every": detectors.EVERY, "input": False},
                                  settings=settings)
            folders.append(folder / "npy")
        for file in sorted(folders[0].glob("*.npy")):
            if int(file.name[:6]) > 2 * detectors.EVERY:
                continue
            shape, first = detectors.read_npy(file)
            other_shape, second = detectors.read_npy(folders[1] / file.name)
            if shape != other_shape:
                print(f"{file.name}: {shape} and {other_shape}")
                return 1
            largest = max(max(first), -min(first)) or 1.0
            compared += len(first)
            error = max(abs(a - b) for a, b in zip(first, second)) / largest
            if any(map(math.isnan, second)):
                error = math.inf
            if error > worst:
                worst, where = error, file.name
    print(f"{arguments.example}: {compared} elements compared, the worst is {worst:.1e} of its output's largest value "
          f"away ({where}), {arguments.tolerance:g} is allowed")
    return 1 if worst > arguments.tolerance or compared == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
