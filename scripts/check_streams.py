#!/usr/bin/env python3
"""Checks that our CUDA code names the stream of everything that it asks of a GPU.

usage: check_streams.py [ROOT]

Our streams do not wait for CUDA's default stream. So no call may work there: no cudaMemcpy() or cudaMemset() without
Async, and no kernel launch without a stream. Prints FILE:LINE: what is wrong; exit 1 if there was something.
"""

import re
import sys
from pathlib import Path

from source_tree import source_files

CUDA_FOLDERS = ("device", "infer/cuda")
_DEFAULT_STREAM = re.compile(r"\b(cudaMem(?:cpy|set)(?:2D|3D)?(?:(?:To|From)Symbol)?)\s*\(")
_LAUNCH = re.compile(r"<<<(.*?)>>>")
_LAUNCH_ARGUMENTS = 4  # grid, block, shared memory, stream


def problems_of(line: str) -> list[str]:
    code = line.split("//", 1)[0]
    problems = [f"{name}() works on the default stream, for which our streams do not wait: use {name}Async()"
                for name in _DEFAULT_STREAM.findall(code)]
    for arguments in _LAUNCH.findall(code):
        if arguments.count(",") + 1 < _LAUNCH_ARGUMENTS:
            problems.append("a kernel is launched without a stream: <<<grid, block, shared bytes, stream>>>")
    return problems


def check(root: Path) -> list[str]:
    found = []
    for file in source_files(root, CUDA_FOLDERS):
        lines = (root / file).read_text(encoding="utf-8", errors="replace").splitlines()
        for number, line in enumerate(lines, start=1):
            found += [f"{file}:{number}: {problem}" for problem in problems_of(line)]
    return found


def main(arguments: list[str]) -> int:
    if "--help" in arguments or "-h" in arguments or len(arguments) > 1:
        print(__doc__.strip())
        return 0 if len(arguments) <= 1 else 2
    found = check(Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
