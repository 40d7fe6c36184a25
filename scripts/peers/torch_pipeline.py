"""What PyTorch makes of the reference detector, measured as `camd bench` measures: a BGR picture in host memory until
all nine outputs can be read by the host.

  python3 scripts/peers/torch_pipeline.py [--width 1280 --height 720] [--frames 500] [--compile] [--json FILE]

Rows, from the plainest to the best that we know to write:
  eager-f32-waiting   pageable memory, every copy waits
  eager-f32-pinned    page-locked memory, asynchronous copies, one wait
  graph-f32           the same as one CUDA graph, copies included
  graph-f16           f16, channels last, one CUDA graph
  compiled-f16        torch.compile(max-autotune), then one CUDA graph (--compile: some two minutes of start-up)
Weights are random: they do not change the time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "models" / "marker"))
from model import MarkerNet  # noqa: E402

WARM_UP = 50


def percentiles(samples_us: list[float]) -> dict[str, float]:
    ordered = sorted(samples_us)

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 1)

    return {"p50": round(statistics.median(ordered), 1), "p90": at(0.9), "p99": at(0.99), "max": round(ordered[-1], 1)}


def measure(frame: Callable[[], None], frames: int) -> list[float]:
    samples = []
    for i in range(frames + WARM_UP):
        start = time.perf_counter_ns()
        frame()
        if i >= WARM_UP:
            samples.append((time.perf_counter_ns() - start) / 1000)
    return samples


def device_time(work: Callable[[], object], frames: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    samples = []
    for _ in range(frames):
        begin.record()
        work()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) * 1000)
    return round(statistics.median(samples), 1)


class Pipeline:
    """Static buffers and the work between them."""

    def __init__(self, net: Callable, width: int, height: int, half: bool, pinned: bool) -> None:
        self.net = net
        self.half = half
        self.picture = torch.randint(0, 256, (height, width, 3), dtype=torch.uint8)
        if pinned:
            self.picture = self.picture.pin_memory()
        self.on_device = torch.empty_like(self.picture, device="cuda")
        self.outputs = [o.clone() for o in self.network()]
        self.host = [torch.empty(o.shape, dtype=o.dtype, pin_memory=pinned) for o in self.outputs]

    def network(self) -> list[torch.Tensor]:
        x = self.on_device.permute(2, 0, 1).unsqueeze(0)
        x = x.half() if self.half else x.float()
        x = x * (1.0 / 255)
        if self.half:
            x = x.contiguous(memory_format=torch.channels_last)
        else:
            x = x.contiguous()
        out = self.net(x)
        return [o.sigmoid() if i % 3 == 0 else o for i, o in enumerate(out)]

    def waiting(self) -> None:
        self.on_device.copy_(self.picture)
        torch.cuda.synchronize()
        for to, made in zip(self.host, self.network()):
            to.copy_(made)

    def enqueue(self) -> None:
        self.on_device.copy_(self.picture, non_blocking=True)
        for to, made in zip(self.host, self.network()):
            to.copy_(made, non_blocking=True)

    def one_wait(self) -> None:
        self.enqueue()
        torch.cuda.current_stream().synchronize()

    def captured(self) -> Callable[[], None]:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(5):
                self.enqueue()
        side.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.enqueue()

        def frame() -> None:
            graph.replay()
            torch.cuda.current_stream().synchronize()

        return frame


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=720)
    parser.add_argument("--frames", type=int, default=500)
    parser.add_argument("--compile", action="store_true", help="also the compiled row")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("torch_pipeline.py: PyTorch finds no GPU")
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)

    rows = []

    def add(strategy: str, pipeline: Pipeline, frame: Callable[[], None]) -> None:
        e2e = percentiles(measure(frame, args.frames))
        h2d = pipeline.picture.numel()
        d2h = sum(o.numel() * o.element_size() for o in pipeline.host)
        row = {"strategy": strategy, "e2e_us": e2e, "fps": round(1e6 / e2e["p50"], 1), "h2d_bytes": h2d,
               "d2h_bytes": d2h, "frames": args.frames}  # fmt: skip
        row["network_us"] = {"p50": device_time(pipeline.network, 100)}
        rows.append(row)
        print(f"{strategy:20} host to host p50 {e2e['p50']:8.1f}  p99 {e2e['p99']:8.1f} us  {h2d} + {d2h} bytes", flush=True)

    with torch.inference_mode():
        net = MarkerNet().eval().cuda()
        size = (args.width, args.height)
        plain = Pipeline(net, *size, half=False, pinned=False)
        add("eager-f32-waiting", plain, plain.waiting)
        pinned = Pipeline(net, *size, half=False, pinned=True)
        add("eager-f32-pinned", pinned, pinned.one_wait)
        add("graph-f32", pinned, pinned.captured())
        half_net = MarkerNet().eval().cuda().half().to(memory_format=torch.channels_last)
        half = Pipeline(half_net, *size, half=True, pinned=True)
        add("graph-f16", half, half.captured())
        if args.compile:
            fast = Pipeline(torch.compile(half_net, mode="max-autotune-no-cudagraphs"), *size, half=True, pinned=True)
            add("compiled-f16", fast, fast.captured())
    if args.json:
        document = {"device": torch.cuda.get_device_name(), "model": "marker", "input": [args.width, args.height], "rows": rows}
        args.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
