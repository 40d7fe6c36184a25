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
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch_bench import Pipeline

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "models" / "marker"))
from model import MarkerNet  # noqa: E402


def with_scores(net: Callable) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """The network gives logits where camd's model gives scores."""
    return lambda x: [o.sigmoid() if i % 3 == 0 else o for i, o in enumerate(net(x))]


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
    picture = torch.randint(0, 256, (args.height, args.width, 3), dtype=torch.uint8)

    rows = []

    def add(name: str, net: Callable, strategy: str, half: bool = False) -> None:
        pipeline = Pipeline(with_scores(net), picture, half=half, pinned=strategy != "waiting", scale=1.0 / 255)
        row = {"strategy": name, **pipeline.row(strategy, args.frames)}
        rows.append(row)
        e2e = row["e2e_us"]
        print(f"{name:20} host to host p50 {e2e['p50']:8.1f}  p99 {e2e['p99']:8.1f} us  {row['h2d_bytes']} + "
              f"{row['d2h_bytes']} bytes", flush=True)  # fmt: skip

    with torch.inference_mode():
        net = MarkerNet().eval().cuda()
        add("eager-f32-waiting", net, "waiting")
        add("eager-f32-pinned", net, "one wait")
        add("graph-f32", net, "graph")
        half = MarkerNet().eval().cuda().half().to(memory_format=torch.channels_last)
        add("graph-f16", half, "graph", half=True)
        if args.compile:
            add("compiled-f16", torch.compile(half, mode="max-autotune-no-cudagraphs"), "graph", half=True)
    if args.json:
        document = {"device": torch.cuda.get_device_name(), "model": "marker", "input": [args.width, args.height], "rows": rows}
        args.json.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
