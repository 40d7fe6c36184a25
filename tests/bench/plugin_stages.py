#!/usr/bin/env python3
"""Where the time of a plug-in in a process goes, in a running camd: until it is awake, in it, and on the way back.

usage: plugin_stages.py BUILD [--device cuda] [--model FILE] [--fps 30] [--seconds 10] [--rounds 2]

One camera. In turns with one in camd's own process, a plug-in runs between two others of camd's process that note the time.
"touch" reads a byte of each cache line of all outputs, "none" reads nothing, and `detections` is the built-in. Microseconds,
p50 / p99 of the second half of each run. BUILD is a build's folder, or a bundle (scripts/bundle.sh), with lib/bad.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]


def configuration(options, what, isolation, lines):
    sums = options.build / "lib/bad/sums.so"

    def stamp(name):
        return f"  - {{plugin: {sums}, isolation: none, config: {{where: none, as: {name}}}}}\n"

    if what == "detections":
        measured = f"  - {{plugin: detections, isolation: {isolation}}}\n"
    else:
        measured = f"  - {{plugin: {sums}, isolation: {isolation}, config: {{where: {what}, as: measured}}}}\n"
    return f"""device: {options.device}
model: {{path: {options.model}}}
pipeline: {{transfer: pinned}}
cameras:
  - {{name: a, source: {{type: test, width: 1280, height: 720, fps: {options.fps}}}}}
postprocess:
{stamp("before")}{measured}{stamp("after")}  - {{plugin: jsonl, config: {{path: {lines}}}}}
"""


def quantiles(values):
    values = sorted(values)
    if not values:
        return "-"
    return f"{values[len(values) // 2]:.1f} / {values[min(len(values) * 99 // 100, len(values) - 1)]:.1f}"


def run(options, what, isolation):
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "lines.jsonl")
        file = Path(folder, "c.yaml")
        file.write_text(configuration(options, what, isolation, lines))
        done = subprocess.run([options.build / "bin/camd", "run", file, "--metrics", "json", "--duration", f"{options.seconds}s"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"camd run: exit {done.returncode}: {done.stderr[-2000:]}")
        frames = [json.loads(line) for line in lines.read_text().splitlines()]
        copied = [line for line in map(json.loads, done.stdout.splitlines()) if line["event"] == "plugin" and "bytes_copied" in line]
    waking, inside, back, whole = [], [], [], []
    for frame in frames[len(frames) // 2:]:
        at = {event["zone"]: event["numbers"] for event in frame["events"] if event["name"] == "sums"}
        begun, ended = at["before"]["left"], at["after"]["entered"]
        whole.append((ended - begun) / 1e3)
        if "measured" in at:
            waking.append((at["measured"]["entered"] - begun) / 1e3)
            inside.append((at["measured"]["left"] - at["measured"]["entered"]) / 1e3)
            back.append((ended - at["measured"]["left"]) / 1e3)
    bytes_copied = copied[-1]["bytes_copied"] if copied else "-"
    print(f"{what:11} {isolation:8} {quantiles(waking):>17} {quantiles(inside):>17} {quantiles(back):>17} {quantiles(whole):>17} "
          f"{len(whole):6} {bytes_copied:>7}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: Path(text).resolve())
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", type=Path, default=SOURCE / "models/marker-far-1280x720.onnx")
    parser.add_argument("--fps", type=int, default=30)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    print(f"{'plug-in':11} {'process':8} {'until it begins':>17} {'in it':>17} {'back':>17} {'all':>17} {'frames':>6} {'copied':>7}")
    for _ in range(options.rounds):
        for what in ("none", "touch", "detections"):
            for isolation in ("none", "process"):
                run(options, what, isolation)
    return 0


if __name__ == "__main__":
    sys.exit(main())
