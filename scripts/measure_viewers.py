#!/usr/bin/env python3
"""Measures what those who look at the live page cost the cameras' latency: turns without and with viewers, side by side.

usage: measure_viewers.py --camd build/release/bin/camd [--device host] [--viewers 20] [--cameras 2] [--fps 30] [--rounds 12]
                          [--seconds 4] [--short SECONDS] [--cores N] [--awake]

Each viewer does what the page does: it takes events with metrics, and a picture of each camera four times a second. A round has
three turns in an order drawn by lot: nobody, nobody again, viewers. "Nobody again" shows what the measurement itself does to the
ratios. The viewers run in this process, at the lowest priority and on other cores than camd, where there are more than one.

Latency is that of each frame, from its capture to the plug-in that writes its detections. The intervals hold 95 of 100 ratios of
rounds drawn anew (bootstrap). --short: as many rounds as fit into so many seconds, and no intervals.
"""

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from turns import Awake, halves, pairs_of, percentile, ratio_of


def config_of(device: str, cameras: int, fps: float, source: Path, found: Path) -> str:
    lines = [f"device: {device}", f"model: {{path: {source}/models/marker-640x360.onnx}}", "cameras:"]
    lines += [f"  - {{name: c{i}, source: {{type: test, width: 1280, height: 720, fps: {fps}, format: nv12}}}}"
              for i in range(cameras)]
    lines += ["postprocess:", "  - {plugin: detections}", f"  - {{plugin: jsonl, config: {{path: {found}}}}}",
              "metrics: {period: 1s}", 'http: {listen: "127.0.0.1:0"}', ""]
    return "\n".join(lines)


async def ask(host: str, port: int, path: str):
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
    return reader, writer


async def pictures(host: str, port: int, camera: str, seen: list) -> None:
    while True:
        begun = time.monotonic()
        reader, writer = await ask(host, port, f"/api/v1/cameras/{camera}/latest.jpg?width=640")
        answer = await reader.read(-1)
        writer.close()
        seen[0] += answer.startswith(b"HTTP/1.1 200")
        await asyncio.sleep(max(0, 0.25 - (time.monotonic() - begun)))


async def events(host: str, port: int, seen: list) -> None:
    reader, writer = await ask(host, port, "/api/v1/events?metrics=1&every=500ms")
    try:
        while some := await reader.read(1 << 16):
            seen[1] += some.count(b"event: detections")
    finally:
        writer.close()


async def look(address: str, viewers: int, cameras: int, seconds: float) -> list:
    host, port = address.rsplit(":", 1)
    seen = [0, 0]
    tasks = [asyncio.create_task(events(host, int(port), seen)) for _ in range(viewers)]
    tasks += [asyncio.create_task(pictures(host, int(port), f"c{i}", seen)) for _ in range(viewers) for i in range(cameras)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return seen


KINDS = ("nobody", "nobody again", "viewers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--camd", required=True)
    parser.add_argument("--device", default="host")
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--cameras", type=int, default=2)
    parser.add_argument("--fps", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=4, help="of a turn; the first half second of it does not count")
    parser.add_argument("--short", type=float, default=0, metavar="SECONDS", help="for all rounds")
    parser.add_argument("--cores", type=int, default=0, help="for camd; half of all unless told otherwise")
    parser.add_argument("--awake", action="store_true", help="keeps the processors from falling asleep")
    options = parser.parse_args()
    ours, theirs = halves(options.cores)
    print(f"camd on processors {sorted(ours)}, the viewers on {sorted(theirs)}", flush=True)
    awake = Awake(ours | theirs if options.awake else ())
    dice = random.Random(1)
    turns = {kind: [] for kind in KINDS}  # when the frames of each count: (begin, end) in ns
    pictures_seen = events_seen = 0
    with tempfile.TemporaryDirectory() as folder:
        config, found, log_path = Path(folder) / "c.yaml", Path(folder) / "found.jsonl", Path(folder) / "log"
        config.write_text(config_of(options.device, options.cameras, options.fps, Path(__file__).resolve().parent.parent, found))
        lines = Path(folder) / "lines"
        with open(lines, "w") as out, open(log_path, "w") as log:
            camd = subprocess.Popen([options.camd, "run", str(config), "--metrics", "json"], stdout=out, stderr=log,
                                    preexec_fn=lambda: os.sched_setaffinity(0, ours))
        os.nice(19)
        os.sched_setaffinity(0, theirs)
        while not (match := re.search(r"listening on (\S+)", log_path.read_text())):
            if camd.poll() is not None:
                sys.exit(log_path.read_text())
            time.sleep(0.1)
        time.sleep(3)
        rounds, end = 0, time.monotonic() + options.short
        while time.monotonic() + (options.seconds + 0.2) * len(KINDS) < end if options.short else rounds < options.rounds:
            rounds += 1
            for kind in dice.sample(KINDS, len(KINDS)):
                begun = time.monotonic_ns()
                seen = asyncio.run(look(match[1], options.viewers if kind == "viewers" else 0, options.cameras, options.seconds))
                turns[kind].append((begun + 0.5e9, time.monotonic_ns()))
                pictures_seen += seen[0]
                events_seen += seen[1]
        camd.terminate()
        camd.wait()
        awake.end()
        frames = [(row["captured_mono_ns"], row["latency_us"] / 1000) for row in map(json.loads, found.read_text().splitlines())]
        rows = [json.loads(line) for line in lines.read_text().splitlines()]
    latency = {kind: [[late for captured, late in frames if begin <= captured < end] for begin, end in mine]
               for kind, mine in turns.items()}
    for kind, mine in latency.items():
        flat = [late for turn in mine for late in turn]
        line = f"{kind:12} {len(flat):6} frames"
        for name, part in (("p50", 0.5), ("p99", 0.99)):
            line += f"   {name} {percentile(flat, part):7.2f} ms"
            if kind != "nobody" and not options.short:
                line += " {:.2f} times ({:.2f} to {:.2f});".format(*ratio_of(mine, latency["nobody"], part))
            if kind != "nobody":
                line += " of the rounds, the middle half {0:.2f} to {2:.2f} times, median {1:.2f}".format(*pairs_of(mine, latency["nobody"], part))
        print(line)
        ends = [percentile(turn, 0.99) for turn in mine]
        print("             p99 of a turn: the middle one {1:.2f} ms, the middle half {0:.2f} to {2:.2f} ms".format(
            *(percentile(ends, quarter) for quarter in (0.25, 0.5, 0.75))))
    print(f"{rounds} rounds; {options.viewers} viewers took {pictures_seen} pictures and {events_seen} events")
    final = [row for row in rows if row["event"] == "stop"][0]["totals"]
    print("frames:", json.dumps(final))


if __name__ == "__main__":
    main()
