#!/usr/bin/env python3
"""Measures camd on one GPU and prints the tables behind docs/performance.md: every strategy, paced and busy, beside PyTorch.

  python3 scripts/measure_gpu.py CAMD [--out DIR] [--frames 1000] [--no-peers]

CAMD is the program of a build or of a bundle (scripts/bundle.sh). In one run, reference detector, 1280x720:
  1. camd bench, all strategies: BGR with f32 outputs, BGR and NV12 with f16 outputs
  2. graph and graph-direct paced at 30 frames a second
  3. all outputs against engine cpu on frames of the demo clip, in f32 and f16; detections against those in f32
  4. four cameras at 30 frames a second; start to the first delivered frame
  5. scripts/peers/torch_pipeline.py, where PyTorch is there
Nothing else should use the GPU. JSON and logs go to DIR, the files of docs/measurements to DIR/measurements, from where
they are copied when the figures of the manual shall be these. Exit status 1 when a bound of the table "bounds" is missed.
Needs nothing but Python's own library; the peers need PyTorch.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "detectors"))
import measurement  # noqa: E402
from detectors import read_npy  # noqa: E402

CLIP = ROOT / "models/demo/demo.mp4"
COMPARED_FRAMES = 101  # frames 0, 50 and 100 of the clip have all their outputs compared

Box = list[float]


def run(command: list[str], log: Path, timeout_s: float = 300) -> float:
    """Seconds that the command took; ends the measuring when it fails."""
    started = time.monotonic()
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False, timeout=timeout_s)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{log.read_text(encoding='utf-8')[-2000:]}")
    return time.monotonic() - started


class Bounds:
    """Figures and what they must reach."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, bool]] = []

    def add(self, name: str, value: float, fine: bool, bound: str) -> None:
        self.rows.append((name, f"{value:.4g}", bound, fine))

    def show(self) -> bool:
        print("\n| bound | measured | asked | |\n|---|---|---|---|")
        for name, value, bound, fine in self.rows:
            print(f"| {name} | {value} | {bound} | {'ok' if fine else 'MISSED'} |")
        return all(row[3] for row in self.rows)


def bench(camd: str, out: Path, name: str, *options: str) -> list[dict]:
    result = out / f"{name}.json"
    run([camd, "--log", "error", "bench", "--model", str(ROOT / "models/marker-far-1280x720.onnx"), "--input", "1280x720",
         "--device", "cuda", *options, "--json", str(result)], out / f"{name}.log")
    return json.loads(result.read_text(encoding="utf-8"))["rows"]


def show_bench(title: str, rows: list[dict], last: str = "p99") -> None:
    stages = ("e2e_us", "h2d_us", "preprocess_us", "infer_us", "d2h_us")
    print(f"\n{title}; microseconds, p50 / {last}\n\n| strategy | host to host | h2d | preprocess | network | d2h | frames/s | bytes up | bytes down |")
    print("|---|" + "---|" * 8)
    for row in rows:
        cells = [f"{row[s]['p50']:.0f} / {row[s][last]:.0f}" for s in stages]
        print(f"| {row['strategy']} | {' | '.join(cells)} | {row['fps']:.0f} | {row['h2d_bytes']} | {row['d2h_bytes']} |")


def record(out: Path, name: str, rows: list[dict], **said: str) -> None:
    """Writes DIR/measurements/NAME. `said`: what, unit and command."""
    device = json.loads((out / "nv12-f16.json").read_text(encoding="utf-8"))["device"]
    measurement.write(out / "measurements" / name, {"machine": f"one {device}, nothing else on the GPU",
                                                    "recorded": datetime.date.today().isoformat(), **said, "rows": rows})


def configuration(out: Path, device: str, precision: str) -> Path:
    name = f"{device}-{precision}"
    path = out / f"{name}.yaml"
    path.write_text(f"""device: {device}
model: {{path: {ROOT}/models/marker-640x360.onnx, precision: {precision}}}
cameras: [{{name: clip, source: {{type: file, path: {CLIP}, realtime: false}}}}]
postprocess:
  - plugin: detections
  - {{plugin: jsonl, config: {{path: {out}/{name}.jsonl}}}}
  - {{plugin: tensors, config: {{dir: {out}/{name}-npy, every: 50, input: false}}}}
""", encoding="utf-8")  # fmt: skip
    return path


def worst_difference(first: Path, second: Path) -> tuple[float, int]:
    """Largest distance of an element, in shares of its output's largest value, and how many elements were compared."""
    worst, count = 0.0, 0
    for file in sorted(first.glob("*.npy")):
        if int(file.name[:6]) >= COMPARED_FRAMES:
            continue
        a, b = read_npy(file)[1], read_npy(second / file.name)[1]
        if len(a) != len(b):
            sys.exit(f"{file.name}: {len(a)} and {len(b)} elements")
        largest = max(max(a), -min(a)) or 1.0
        worst = max(worst, max(abs(x - y) for x, y in zip(a, b)) / largest)
        count += len(a)
    return worst, count


def iou(a: Box, b: Box) -> float:
    """Of boxes x, y, width, height."""
    w = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    h = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    shared = max(0.0, w) * max(0.0, h)
    return shared / (a[2] * a[3] + b[2] * b[3] - shared)


def compare_detections(first: Path, second: Path) -> tuple[int, int, float, float]:
    """Detections, frames with another number of them, the worst IoU and the largest difference of scores."""

    def read(path: Path) -> dict[int, list[dict]]:
        lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
        return {line["seq"]: line["detections"] for line in lines}

    a, b = read(first), read(second)
    count, unlike, worst_iou, worst_score = 0, len(a.keys() ^ b.keys()), 1.0, 0.0
    for seq in a.keys() & b.keys():
        if len(a[seq]) != len(b[seq]):
            unlike += 1
            continue
        for one in a[seq]:
            match = max((d for d in b[seq] if d["class"] == one["class"]), key=lambda d: iou(one["box"], d["box"]), default=None)
            count += 1
            worst_iou = min(worst_iou, iou(one["box"], match["box"]) if match else 0.0)
            worst_score = max(worst_score, abs(one["score"] - match["score"]) if match else 1.0)
    return count, unlike, worst_iou, worst_score


def check_equality(camd: str, out: Path, bounds: Bounds) -> None:
    for device, precision in (("host", "f32"), ("cuda", "f32"), ("cuda", "f16")):
        run([camd, "--log", "error", "run", str(configuration(out, device, precision)), "--metrics", "off"],
            out / f"{device}-{precision}.log")  # fmt: skip
    for precision, limit in (("f32", 1e-4), ("f16", 2e-2)):
        worst, count = worst_difference(out / "host-f32-npy", out / f"cuda-{precision}-npy")
        bounds.add(f"{precision} from engine cpu, worst of {count} elements, share of the output's largest", worst,
                   count > 0 and worst <= limit, f"<= {limit:g}")  # fmt: skip
    count, unlike, worst_iou, worst_score = compare_detections(out / "host-f32.jsonl", out / "cuda-f16.jsonl")
    bounds.add("frames of the demo clip with another number of detections", unlike, unlike == 0 and count > 0, "0")
    bounds.add(f"worst IoU of {count} detections, host f32 and GPU f16", worst_iou, worst_iou >= 0.9, ">= 0.9")
    bounds.add("largest difference of scores", worst_score, worst_score <= 0.02, "<= 0.02")


def named(rows: list[dict], strategy: str) -> dict:
    return next(row for row in rows if row["strategy"] == strategy)


def four_cameras(camd: str, out: Path) -> None:
    path = out / "four.yaml"
    source = "{type: test, width: 1280, height: 720, fps: 30, format: nv12}"
    cameras = "\n".join(f"  - {{name: camera{i}, source: {source}}}" for i in range(1, 5))
    path.write_text(f"device: cuda\nmodel: {{path: {ROOT}/models/marker-far-1280x720.onnx}}\ncameras:\n{cameras}\n"
                    "postprocess: [{plugin: detections}]\nmetrics: {period: 5s}\n", encoding="utf-8")  # fmt: skip
    run([camd, "--log", "error", "run", str(path), "--duration", "11s", "--metrics", "json"], out / "four.jsonl")
    lines = [json.loads(line) for line in (out / "four.jsonl").read_text(encoding="utf-8").splitlines()]
    rows: dict[str, dict] = {}
    for line in lines:  # the second period's: the first one holds the start
        if line.get("event") == "camera" and line["totals"]["delivered"] > 200:
            rows.setdefault(line["camera"], line)
    print("\nFour cameras at 30 frames a second, 1280x720 NV12; total latency from capture to delivery\n")
    print("| camera | frames/s | dropped | p50 | p99 | p99.9 |\n|---|---|---|---|---|---|")
    for name, line in sorted(rows.items()):
        total = line["latency_us"]["total"]
        print(f"| {name} | {line['fps']['delivered']:.1f} | {sum(line['totals']['dropped'].values())} | {total['p50']:.0f} | {total['p99']:.0f} | {total['p999']:.0f} |")
    starts = [run([camd, "--log", "error", "run", str(path), "--frames", "1", "--metrics", "off"], out / "start.log") for _ in range(3)]
    print(f"\nFrom the start of the process to its end after the first delivered frame: {', '.join(f'{s:.2f}' for s in starts)} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("camd")
    parser.add_argument("--out", type=Path, default=Path("out/measure_gpu"))
    parser.add_argument("--frames", type=int, default=1000, help="a row of camd bench, and of the paced run")
    parser.add_argument("--no-peers", action="store_true")
    args = parser.parse_args()
    out, frames = args.out.resolve(), ["--frames", str(args.frames)]
    out.mkdir(parents=True, exist_ok=True)
    bounds = Bounds()

    bgr = bench(args.camd, out, "bgr-f32", *frames, "--warmup", "100")
    show_bench("BGR pictures, f32 outputs", bgr)
    half = bench(args.camd, out, "bgr-f16", *frames, "--warmup", "100", "--half-outputs")
    show_bench("BGR pictures, f16 outputs", half)
    nv12 = bench(args.camd, out, "nv12-f16", *frames, "--warmup", "100", "--half-outputs", "--format", "nv12")
    show_bench("NV12 pictures, f16 outputs", nv12)
    by_name = {row["strategy"]: row for row in bgr}
    gain = by_name["pageable-sync"]["e2e_us"]["p50"] / by_name["pinned-async"]["e2e_us"]["p50"]
    bounds.add("pinned-async over pageable-sync, BGR, f32 outputs", gain, gain >= 1.4, ">= 1.4")
    for title, rows in (("BGR, f16 outputs", half), ("NV12, f16 outputs", nv12)):
        graph = named(rows, "graph")
        e2e = graph["e2e_us"]
        slowest = max(graph["h2d_us"]["p50"], graph["preprocess_us"]["p50"] + graph["infer_us"]["p50"], graph["d2h_us"]["p50"])
        bounds.add(f"graph, host to host, p50, {title}", e2e["p50"], e2e["p50"] < 250, "< 250")
        bounds.add(f"graph, p99 over p50, {title}", e2e["p99"] / e2e["p50"], e2e["p99"] < 1.3 * e2e["p50"], "< 1.3")
        bounds.add(f"graph, frames a second with three in flight, {title}", graph["fps"], graph["fps"] >= 6000, ">= 6000")
        share = graph["fps"] * slowest / 1e6
        bounds.add(f"... of what the slowest stage alone allows ({slowest:.0f} us)", share, share >= 0.9, ">= 0.9")

    direct = named(nv12, "graph-direct")
    network = named(nv12, "graph")["infer_us"]["p50"]
    bounds.add("graph, network, NV12, f16 outputs", network, network <= 80, "<= 80")
    bounds.add("graph-direct, host to host, p50, the same", direct["e2e_us"]["p50"], direct["e2e_us"]["p50"] <= 150, "<= 150")
    bounds.add("graph-direct, host to host, p99, the same", direct["e2e_us"]["p99"], direct["e2e_us"]["p99"] <= 180, "<= 180")
    bounds.add("graph-direct, frames a second with three in flight, the same", direct["fps"], direct["fps"] >= 10000, ">= 10000")

    paced = bench(args.camd, out, "paced", *frames, "--warmup", "20", "--half-outputs", "--format", "nv12", "--pace", "30",
                  "--strategy", "graph,graph-direct")  # fmt: skip
    show_bench("At 30 frames a second, NV12 pictures, f16 outputs", paced)
    show_bench("The same, p99.9", paced, "p999")
    command = "python3 scripts/measure_gpu.py BUNDLE/bin/camd --out DIR"
    record(out, "gpu-strategies.json",
           [row for pictures, outputs, rows in (("BGR", "f32", bgr), ("BGR", "f16", half), ("NV12", "f16", nv12))
            for row in measurement.bench_rows(rows, extra={"pictures": pictures, "outputs": outputs})],
           what="A frame of the reference detector at 1280x720, nine outputs, host to host and by stage, for each way to move the data",
           unit="us, [p50, p99]; frames_per_second with three frames in flight",
           command=f"{command} (camd bench, {args.frames} frames a row)")  # fmt: skip
    record(out, "gpu-paced.json", measurement.bench_rows(paced, ("p50", "p99", "p999")),
           what="The same frame paced at 30 frames a second: NV12 pictures, f16 outputs", unit="us, [p50, p99, p99.9]",
           command=command)  # fmt: skip
    check_equality(args.camd, out, bounds)
    four_cameras(args.camd, out)
    if not args.no_peers:
        print("\nPyTorch, BGR pictures, host to host\n")
        run([sys.executable, str(ROOT / "scripts/peers/torch_pipeline.py"), "--frames", "300", "--compile", "--json", str(out / "peers.json")],
            out / "peers.log", timeout_s=500)  # fmt: skip
        print((out / "peers.log").read_text(encoding="utf-8"))
        peers = json.loads((out / "peers.json").read_text(encoding="utf-8"))["rows"]
        record(out, "gpu-peers.json", measurement.peer_rows(half, peers),
               what="A BGR picture of 1280x720 in host memory until all nine outputs of the reference detector are readable by the host",
               unit="us, [p50, p99]",
               command=f"{command}; of it PyTorch: python3 scripts/peers/torch_pipeline.py --frames 300 --compile")  # fmt: skip
    sys.exit(0 if bounds.show() else 1)


if __name__ == "__main__":
    main()
