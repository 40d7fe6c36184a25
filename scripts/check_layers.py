#!/usr/bin/env python3
"""Checks that includes run in the one direction of knowledge (docs/architecture.md).

usage: check_layers.py [ROOT]

Prints FILE:LINE: what is wrong, for each include that is not allowed; exit 1 if there was one.
"""

import re
import sys
from pathlib import Path

from source_tree import HEADERS, ROOMS, Include, includes, source_files

# Who may include whom. A folder's own headers are always allowed.
ALLOWED = {
    "base": set(),
    "config": {"base"},
    "device": {"base"},
    "capture": {"device", "config", "base"},
    "infer": {"device", "config", "base"},
    "pipeline": {"capture", "infer", "device", "config", "base"},
    "plugins": set(),
    "apps": {"pipeline", "config", "base"},
}
# Single headers on top of that.
ALLOWED_HEADERS = {
    # The plug-in interface and the table of those that are linked in (docs/adr/0006). The format of recordings, which the
    # built-in `record` writes.
    "pipeline": {"plugins/camd_plugin.h", "plugins/builtin.hpp", "plugins/record/recording.hpp"},
    # Pictures as JPEG: by one encoder for the live page and for snapshot.
    "apps": {"plugins/jpeg/jpeg.hpp"},
}
# Wings: folders inside a room, and which others of the room each may include. Headers that lie in the room itself are
# there for all of its wings; sources there put the wings together and may include any.
WINGS = {
    "infer": {
        "onnx": set(),
        "graph": {"onnx"},
        "cpu": {"graph", "onnx"},
        "tail": {"graph", "onnx"},
        "opencv": {"onnx"},
        "cuda": {"graph", "cuda/plan", "cuda/kernels"},
        "cuda/plan": {"graph", "cuda/kernels"},
        "cuda/kernels": {"graph"},
    },
    "pipeline": {
        "core": set(),
        "plugin": set(),
        "plugin_process": {"plugin"},
        "run": {"core", "plugin", "plugin_process"},
        "diagnose": {"core", "plugin", "run"},
    },
}
CUDA_FOLDERS = ("device/cuda/", "infer/cuda/", "tests/device/cuda/", "tests/infer/cuda/")
CUDA_HEADER = re.compile(r"^(cuda|cublas|cudnn|nvrtc|nvtx|nvml|cooperative_groups|mma\.h|driver_types\.h)")
# base is what every room needs: the standard library and these.
BASE_THIRD_PARTY = ("fmt/", "spdlog/", "openssl/")


def room_of(path: str) -> str:
    return path.split("/", 1)[0]


def wing_of(path: str) -> str:
    """The wing of its room that a file lies in: "cuda/plan" of infer/cuda/plan/plan.hpp; "" in the room itself."""
    room, _, rest = path.partition("/")
    found = [wing for wing in WINGS.get(room, ()) if rest.startswith(wing + "/")]
    return max(found, key=len, default="")


def wing_problem_of(room: str, name: str, target: str) -> str | None:
    """What is wrong with an include that stays inside a room, or None."""
    wing, other = wing_of(name), wing_of(target)
    if other in ("", wing) or (wing == "" and not name.endswith(HEADERS)):
        return None
    may = WINGS[room].get(wing, set())
    if other in may:
        return None
    where = f"{room}/{wing}" if wing else f"a header in {room}/ itself"
    return f'"{target}": {where} must not know {room}/{other}; it may include {", ".join(sorted(may)) or "no wing"}'


def problem_of(root: Path, file: Path, include: Include) -> str | None:
    """What is wrong with this include of this file, or None."""
    name = file.as_posix()
    target = include.target
    if CUDA_HEADER.match(target) and not name.startswith(CUDA_FOLDERS):
        return f"<{target}>: CUDA headers belong in device/cuda/ and infer/cuda/ only"
    room = room_of(name)
    if not include.quoted:
        if room == "base" and "/" in target and not target.startswith(BASE_THIRD_PARTY + ("sys/",)):
            return f"<{target}>: base knows the standard library and {', '.join(BASE_THIRD_PARTY)} only"
        if room_of(target) in ROOMS and (root / target).exists():
            return f'<{target}>: our own headers are included with quotes: "{target}"'
        return None

    if not (root / target).exists():
        # plugins/ is installed flat, so its headers name each other without the folder; tests may name a neighbour.
        if room in ("plugins", "tests") and "/" not in target and (root / file.parent / target).exists():
            return None
        return f'"{target}": not found from the repository root; write the path from there'
    other = room_of(target)
    if room == "tests":
        parts = file.parts
        room = parts[1] if len(parts) > 2 else "tests"
        if other == "tests" or room not in ROOMS:
            return None
    if other == room and name.startswith(room + "/"):
        return wing_problem_of(room, name, target)
    if other == room or other in ALLOWED[room] or target in ALLOWED_HEADERS.get(room, ()):
        return None
    may = sorted(ALLOWED[room] | ALLOWED_HEADERS.get(room, set())) or ["nothing of ours"]
    return f'"{target}": {room} must not know {other}; it may include {", ".join(may)}'


def check(root: Path) -> list[str]:
    problems = []
    for file in source_files(root):
        for include in includes(root / file):
            problem = problem_of(root, file, include)
            if problem:
                problems.append(f"{file}:{include.line}: {problem}")
    return problems


def main(arguments: list[str]) -> int:
    if "--help" in arguments or "-h" in arguments or len(arguments) > 1:
        print(__doc__.strip())
        return 0 if len(arguments) <= 1 else 2
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    problems = check(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
