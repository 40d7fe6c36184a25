#!/usr/bin/env python3
"""Measures what `gate: motion` saves and what it costs: frames that run through the network, CPU a frame, and detections
that are told late.

  cmake --preset release && cmake --build --preset release --target camd
  python3 scripts/measure_gate.py docs/examples/demo.yaml docs/examples/detectors/fastestdet.yaml

The first camera of each configuration is run in real time, once through its clip, with and without the gate, with
`detections` as in the configuration and `jsonl` behind it. CPU is that of the whole process (decoding included) between
the first and the last metrics line, for each captured frame. Both runs take turns, and the least of --runs counts.

A frame that is gated stands for the one before it. So each detection of the run without a gate is looked for in the last
frame that the run with it delivered until then: a box of its class that overlaps it by half (intersection over union).
"late" is how many are not found there, and "longest" for how long the same object was not found in a row.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import yaml

OVERLAP = 0.5
SAME_OBJECT = 0.3  # overlap of a box and the one of the frame before that was not found either


@dataclass
class Run:
    captured: int = 0
    delivered: int = 0
    gated: int = 0
    cpu_ms: float = 0.0  # a captured frame
    frames: dict[int, list[dict]] = field(default_factory=dict)  # detections by the frame's number
    seconds: float = 0.0  # from one frame to the next


def configuration(path: Path, gate: object, out: Path) -> dict:
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    base = path.resolve().parent
    config["model"]["path"] = str((base / config["model"]["path"]).resolve())
    camera = config["cameras"][0]
    source = camera["source"]
    if source["type"] != "file":
        sys.exit(f"{path}: the first camera is no file")
    source.update(path=str((base / source["path"]).resolve()), realtime=True, loop=False)
    camera["gate"] = gate
    plugins = [entry for entry in config["postprocess"] if entry["plugin"] == "detections"]
    plugins.append({"plugin": "jsonl", "config": {"path": str(out)}})
    return {"device": "host", "model": config["model"], "cameras": [camera], "postprocess": plugins, "metrics": {"period": "500ms"}}


def run(camd: Path, config: dict, folder: Path) -> Run:
    file = folder / "camd.yaml"
    file.write_text(json.dumps(config), encoding="utf-8")
    out = Path(config["postprocess"][-1]["config"]["path"])
    out.unlink(missing_ok=True)
    done = subprocess.run([camd, "run", file, "--metrics", "json"], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    result = Run()
    cpu, first, last = 0.0, None, None
    for line in map(json.loads, done.stdout.splitlines()):
        if line["event"] == "camera":
            last = line["totals"]["captured"]
            first = last if first is None else first
            period = line["period_s"]
            totals = line["totals"]
        elif line["event"] == "process" and last is not None and last > first:
            cpu += line["cpu_percent"] / 100 * period
        elif line["event"] == "stop":
            totals = line["totals"]
    result.captured, result.delivered, result.gated = totals["captured"], totals["delivered"], totals["dropped"]["gated"]
    result.cpu_ms = 1000 * cpu / (last - first)
    times = {}
    for line in map(json.loads, out.read_text(encoding="utf-8").splitlines()):
        if "seq" not in line:
            continue
        result.frames[line["seq"]] = line["detections"]
        times[line["seq"]] = line["captured_mono_ns"]
    low, high = min(times), max(times)
    result.seconds = (times[high] - times[low]) / 1e9 / max(1, high - low)
    return result


def overlap(a: list[float], b: list[float]) -> float:
    width = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    height = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / (a[2] * a[3] + b[2] * b[3] - both)


def late(without: Run, with_gate: Run) -> tuple[int, int, int]:
    """Detections of `without`, how many of them are not in what `with_gate` showed last, and the longest row in ms."""
    told: list[dict] = []
    count = missed = longest = 0
    before: list[tuple[list[float], int]] = []  # boxes that were not found in the frame before, and for how many frames
    for number in range(max(without.frames) + 1):
        told = with_gate.frames.get(number, told)
        if number not in without.frames:
            continue
        now = []
        for one in without.frames[number]:
            count += 1
            if any(one["class_id"] == other["class_id"] and overlap(one["box"], other["box"]) >= OVERLAP for other in told):
                continue
            missed += 1
            row = 1 + max((frames for box, frames in before if overlap(one["box"], box) >= SAME_OBJECT), default=0)
            longest = max(longest, row)
            now.append((one["box"], row))
        before = now
    return count, missed, round(1000 * longest * without.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configurations", nargs="+", type=Path)
    parser.add_argument("--camd", type=Path, default=Path("build/release/bin/camd"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--gate", default="motion", help="as `gate:` has it, in YAML")
    arguments = parser.parse_args()
    gate = yaml.safe_load(arguments.gate)
    print("| clip | network | frames | delivered with the gate | CPU a frame, without | with | detections | late | longest |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in arguments.configurations:
            kinds = {"none": [], "gate": []}
            for _ in range(arguments.runs):
                for kind, setting in (("none", "none"), ("gate", gate)):
                    config = configuration(path, setting, folder / "out.jsonl")
                    kinds[kind].append(run(arguments.camd, config, folder))
            without, with_gate = kinds["none"], kinds["gate"]
            # The run without a gate that delivered most is the one to compare with.
            count, missed, longest = max((late(max(without, key=lambda r: r.delivered), r) for r in with_gate), key=lambda row: row[2])
            delivered = max(r.delivered for r in with_gate)
            cells = (Path(config["cameras"][0]["source"]["path"]).name, Path(config["model"]["path"]).stem, with_gate[0].captured,
                     f"{delivered} ({100 * delivered / with_gate[0].captured:.0f} %)", f"{min(r.cpu_ms for r in without):.2f} ms",
                     f"{min(r.cpu_ms for r in with_gate):.2f} ms", count, f"{missed} ({100 * missed / max(1, count):.1f} %)", f"{longest} ms")
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
