#!/usr/bin/env python3
"""Counts the cache lines that a frame touches on its way through the pipeline, with valgrind's lackey.

  python3 scripts/cache_lines.py [--build DIR]

  --build DIR  a build with CAMD_BUILD_BENCHMARKS (default: build/release)

Between two frames of a camera a core's caches are emptied by others, so that a frame costs what it takes to fetch its
code and data again: times differ by a factor of three from minute to minute on a shared machine, this does not. Counted
are lines of 64 bytes and pages of 4096 that bench_pipeline's user code touches from one frame's plug-ins to the
next frame's at 30 frames a second, on all threads, the benchmark's source, engine and plug-in included: the middle of the
last frames. Takes half a minute. Needs valgrind and nm.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

FRAMES = 16  # counted
LINES_KEPT = 30_000 * FRAMES + 2_000_000  # of the trace: more than so many frames and the end of the process have
FILTER = "--benchmark_filter=BM_Pipeline/fps:30"
FRAME_BEGINS = "camd::pipeline::PluginHost::Frame::process("


def address_of(program: Path, function: str) -> int:
    """Where a function lies in the program's file as loaded at 0."""
    symbols = subprocess.run(["nm", "-C", program], capture_output=True, text=True, check=True).stdout
    for line in symbols.splitlines():
        match = re.match(r"([0-9a-f]+) [tT] (.*)", line)
        if match and match[2].startswith(function):
            return int(match[1], 16)
    sys.exit(f"error: {program} has no function {function}...): was it stripped?")


def load_address(pid: int, program: Path) -> int:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split()
        if fields[-1] == str(program) and int(fields[2], 16) == 0:
            return int(fields[0].split("-")[0], 16)
    sys.exit(f"error: {program} is not loaded where valgrind runs it")


def trace(program: Path) -> tuple[collections.deque[str], int]:
    """The end of what the program touches, and where it was loaded."""
    read_end, write_end = os.pipe()
    command = ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-fd={write_end}", program, FILTER]
    with subprocess.Popen(command, pass_fds=[write_end], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as run:
        os.close(write_end)
        kept: collections.deque[str] = collections.deque(maxlen=LINES_KEPT)
        base = 0
        with os.fdopen(read_end) as lines:
            for line in lines:
                kept.append(line)
                if base == 0 and line.startswith("I "):  # the loader runs: the program is mapped
                    base = load_address(run.pid, program)
        if run.wait() != 0:
            sys.exit(f"error: {program} failed under valgrind")
    return kept, base


def frames_of(lines: collections.deque[str], begin: int) -> list[dict[str, int]]:
    counts = []
    code: set[int] | None = None
    data: set[int] = set()
    for line in lines:
        match = re.match(r"(I | S| L| M) +([0-9a-f]+),(\d+)", line)
        if not match:
            continue
        address, size = int(match[2], 16), int(match[3])
        if match[1] == "I " and address == begin:
            if code is not None:
                counts.append({
                    "lines of code": len(code),
                    "lines of data": len(data),
                    "pages of code": len({one >> 6 for one in code}),
                    "pages of data": len({one >> 6 for one in data}),
                })
            code, data = set(), set()
        if code is not None:
            touched = range(address >> 6, (address + size - 1 >> 6) + 1)
            (code if match[1] == "I " else data).update(touched)
    return counts[-FRAMES:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", type=Path)
    program = (parser.parse_args().build / "bin" / "bench_pipeline").resolve()
    if not program.exists():
        sys.exit(f"error: {program} is not there: cmake --preset release && "
                 "cmake --build --preset release --target bench_pipeline")
    for tool in ("valgrind", "nm"):
        if shutil.which(tool) is None:
            sys.exit(f"error: {tool} is not there: apt-get install {'binutils' if tool == 'nm' else tool}")
    lines, base = trace(program)
    counts = frames_of(lines, base + address_of(program, FRAME_BEGINS))
    if not counts:
        sys.exit(f"error: no frame in the last {LINES_KEPT} lines of the trace")
    print("a frame touches: " + ", ".join(f"{statistics.median(one[what] for one in counts):.0f} {what}"
                                          for what in counts[0]))


if __name__ == "__main__":
    main()
