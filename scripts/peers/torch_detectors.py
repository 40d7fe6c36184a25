"""What PyTorch makes of the detectors of the DETR family that export_detectors.py exports, from the modules themselves, measured
as torch_onnx.py measures: that reads no graph with attention.

  python3 scripts/peers/torch_detectors.py NAME... [--frames 200] [--compile]       NAME: rtdetrv2_r18 dfine_n

Rows, microseconds: graph-f32 (PyTorch's default, with TF32 in convolutions), graph-f16 (channels last) and, with --compile,
compiled-f16 (torch.compile in its default mode), each as one CUDA graph, over one picture of 640x640. Needs transformers.
"""

from __future__ import annotations

import argparse

import torch
from export_detectors import DETRS, randomise
from torch_bench import Pipeline


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=sorted(DETRS), metavar="NAME")
    parser.add_argument("--frames", type=int, default=200)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    picture = torch.randint(0, 256, (640, 640, 3), dtype=torch.uint8)

    def show(name: str, kind: str, network: torch.nn.Module, half: bool) -> None:
        row = Pipeline(network, picture, half=half, pinned=True, scale=1.0 / 255).row("graph", args.frames)
        print(f"{name:20} {kind:13} network {row['network_us']['p50']:8.1f}  host to host p50 {row['e2e_us']['p50']:8.1f} us",
              flush=True)  # fmt: skip

    with torch.inference_mode():
        for name in args.names:
            torch.manual_seed(1)
            network = DETRS[name]()
            randomise(network)
            network.cuda()
            show(name, "graph-f32", network, False)
            network.half().to(memory_format=torch.channels_last)
            show(name, "graph-f16", network, True)
            if args.compile:
                torch.compiler.reset()
                show(name, "compiled-f16", torch.compile(network), True)


if __name__ == "__main__":
    main()
