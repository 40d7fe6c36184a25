#!/usr/bin/env python3
"""Measures what those who look at the live page cost the cameras' latency: turns without and with viewers, side by side.

usage: measure_viewers.py --camd build/release/bin/camd [--viewers 20] [--cameras 2] [--fps 15] [--turns 6] [--seconds 6]

Each viewer does what the page does: it takes events with metrics, and a picture of each camera four times a second. The
viewers run in this process, at the lowest priority. Prints p50 and p99 of each turn, and the ratios of neighbours.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path


def config_of(cameras: int, fps: float, source: Path) -> str:
    lines = ["device: host", f"model: {{path: {source}/models/marker-640x360.onnx}}", "cameras:"]
    lines += [f"  - {{name: c{i}, source: {{type: test, width: 1280, height: 720, fps: {fps}, format: nv12}}}}"
              for i in range(cameras)]
    lines += ["postprocess: [{plugin: detections}]", "metrics: {period: 1s}", 'http: {listen: "127.0.0.1:0"}', ""]
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--camd", required=True)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--cameras", type=int, default=2)
    parser.add_argument("--fps", type=float, default=15)
    parser.add_argument("--turns", type=int, default=6, help="of each kind")
    parser.add_argument("--seconds", type=float, default=6)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "c.yaml"
        config.write_text(config_of(options.cameras, options.fps, Path(__file__).resolve().parent.parent))
        lines = Path(folder) / "lines"
        with open(lines, "w") as out, open(Path(folder) / "log", "w") as log:
            camd = subprocess.Popen([options.camd, "run", str(config), "--metrics", "json"], stdout=out, stderr=log)
        os.nice(19)
        while not (match := re.search(r"listening on (\S+)", (Path(folder) / "log").read_text())):
            assert camd.poll() is None, (Path(folder) / "log").read_text()
            time.sleep(0.1)
        time.sleep(3)
        turns = []
        for turn in range(2 * options.turns):
            viewers = options.viewers if turn % 2 else 0
            begun = time.monotonic_ns()
            seen = asyncio.run(look(match[1], viewers, options.cameras, options.seconds))
            turns.append((viewers, begun, time.monotonic_ns(), seen))
        camd.terminate()
        camd.wait()
        rows = [json.loads(line) for line in lines.read_text().splitlines()]
    results = []
    for viewers, begun, ended, seen in turns:
        # A line tells of the second before it.
        mine = [row["latency_us"]["total"] for row in rows
                if row["event"] == "camera" and begun + 1.1e9 < row["mono_ns"] < ended]
        p50, p99 = (statistics.median(one[key] for one in mine) for key in ("p50", "p99"))
        results.append((p50, p99))
        print(f"{viewers:3} viewers: p50 {p50 / 1000:6.2f} ms, p99 {p99 / 1000:6.2f} ms, {seen[0]} pictures, {seen[1]} events")
    for name, index in (("p50", 0), ("p99", 1)):
        ratios = [results[i + 1][index] / results[i][index] for i in range(0, len(results), 2)]
        print(f"{name} with viewers by {name} without: median {statistics.median(ratios):.3f}, "
              f"from {min(ratios):.3f} to {max(ratios):.3f}")
    final = [row for row in rows if row["event"] == "stop"][0]["totals"]
    print("frames:", json.dumps(final))


if __name__ == "__main__":
    main()
