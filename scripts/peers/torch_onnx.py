"""What PyTorch makes of ONNX models with one picture as their input, such as the detectors of docs/models.md, measured as
`camd bench` measures: a BGR picture of the network's size in host memory until all outputs can be read by the host.

  python3 scripts/peers/torch_onnx.py MODEL... [--input 640x480] [--scale 1] [--frames 500] [--compile [MODE]] [--json FILE]
  python3 scripts/peers/torch_onnx.py MODEL... [--input 640x480] [--scale 1] --check [--device cpu]

Rows, microseconds; the network's time is that on the device, without the picture's conversion to floats:
  eager-f32-pinned    page-locked memory, asynchronous copies, one wait
  graph-f32           the same as one CUDA graph, copies included
  graph-f16           f16, channels last, one CUDA graph
  compiled-f16        torch.compile, then one CUDA graph (--compile: up to minutes of start-up)
f32 is PyTorch's default, which lets convolutions multiply in TF32. "Off by" compares the outputs of the measured
frames with f32 on the CPU: the worst element relative to its output's largest value.

A model that has an operator that is not known here is named and left out; the exit code is 1 then.
--input is for models that leave their size open; the others keep theirs. Numbers 0..255 times --scale go into the network.
--check measures nothing. It compares f32 outputs on the CPU and, if it is another one, on --device (without TF32) with ONNX
Runtime over smooth random pictures, and calls the f16 network with tensors that have no contents, where every
wait for a value fails. Exit 1 if an element is further off than --tolerance of its output's largest value, and than
2.4e-7: ONNX Runtime's sigmoid is off by 1e-7, which is much for an output that nowhere reaches 1e-4 (YuNet's obj_32;
such outputs are named). Needs onnx, and for --check onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from pathlib import Path

import torch
from onnx_module import OnnxModule, Unsupported
from torch_bench import Pipeline

PICTURES = 3
ROUNDING = 2 * torch.finfo(torch.float32).eps  # about what ONNX Runtime's sigmoid is off by, however small its result


def smooth_picture(size: tuple[int, int], seed: int) -> torch.Tensor:
    """BGR u8 [H,W,3]."""
    width, height = size
    coarse = torch.rand(1, 3, height // 16 + 1, width // 16 + 1, generator=torch.Generator().manual_seed(seed))
    fine = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")
    return (fine * 255).byte()[0].permute(1, 2, 0).contiguous()


def network_input(picture: torch.Tensor, scale: float) -> torch.Tensor:
    return (picture.permute(2, 0, 1).unsqueeze(0).float() * scale).contiguous()


def distance_of(made: torch.Tensor, expected: torch.Tensor) -> tuple[float, float]:
    """How far the worst element is off, and that relative to the largest expected value."""
    if made.shape != expected.shape:
        return math.inf, math.inf
    far = float((made.cpu().float() - expected).abs().nan_to_num(nan=math.inf).max())
    return far, far / max(float(expected.abs().max()), 1e-30)


def check(path: Path, net: OnnxModule, args: argparse.Namespace) -> bool:
    try:
        import onnxruntime
    except ImportError:
        raise SystemExit("torch_onnx.py: --check needs onnxruntime") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    right = True
    for device in dict.fromkeys(["cpu", args.device]):
        net.to(device)
        worst, tiny = (0.0, "none"), {}
        for seed in range(PICTURES):
            x = network_input(smooth_picture(net.size, seed), args.scale)
            for name, made, wanted in zip(net.names, net(x.to(device)), session.run(net.names, {net.source: x.numpy()})):
                far, error = distance_of(made, torch.from_numpy(wanted))
                if error > args.tolerance and far <= ROUNDING:
                    tiny[name] = max(error, tiny.get(name, 0.0))
                else:
                    worst = max(worst, (error, name))
        right = right and worst[0] <= args.tolerance
        print(f"{path.name:24} {net.size[0]}x{net.size[1]}  f32 on {device}: worst {worst[0]:.1e} ({worst[1]}), "
              f"{args.tolerance:g} is allowed", flush=True)  # fmt: skip
        for name, error in tiny.items():
            print(f"{'':24} {name}: {error:.1e} of its largest value, but less than {ROUNDING:.1e}")
    call_without_contents(net)
    print(f"{path.name:24} waits for no value: {len(net.steps)} calls", flush=True)
    return right


def call_without_contents(net: OnnxModule) -> None:
    """The f16 network as it is captured, with tensors that tell only shape, order in memory and an accelerator as their
    place: asking for a value raises, and so does mixing places."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        def empty(t: torch.Tensor) -> torch.Tensor:
            order = torch.channels_last if t.ndim == 4 else torch.contiguous_format
            dtype = torch.float16 if t.is_floating_point() else t.dtype
            return torch.empty(t.shape, dtype=dtype, device="cuda", memory_format=order)

        weights = {name: empty(t) for name, t in net.named_buffers()}
        torch.func.functional_call(net, weights, (empty(torch.empty(1, 3, net.size[1], net.size[0])),))


def measure(path: Path, net: OnnxModule, args: argparse.Namespace) -> dict:
    picture = smooth_picture(net.size, 0)
    expected = net(network_input(picture, args.scale))
    rows = []

    def add(name: str, network: torch.nn.Module, strategy: str, half: bool = False) -> None:
        pipeline = Pipeline(network, picture, half=half, pinned=True, scale=args.scale)
        row = {"strategy": name, **pipeline.row(strategy, args.frames)}
        error = max(distance_of(made, wanted)[1] for made, wanted in zip(pipeline.host, expected))
        row["off_by"] = error if math.isfinite(error) else None
        rows.append(row)
        e2e = row["e2e_us"]
        print(f"{path.stem:20} {name:17} network {row['network_us']['p50']:8.1f}  host to host p50 {e2e['p50']:8.1f}  p99 "
              f"{e2e['p99']:8.1f} us  off by {error:.0e}", flush=True)  # fmt: skip

    net.cuda()
    add("eager-f32-pinned", net, "one wait")
    add("graph-f32", net, "graph")
    net.half().to(memory_format=torch.channels_last)
    add("graph-f16", net, "graph", half=True)
    if args.compile:
        torch.compiler.reset()
        add("compiled-f16", torch.compile(net, mode=args.compile, fullgraph=True), "graph", half=True)
    return {"model": path.name, "input": list(net.size), "rows": rows}


def size_of(text: str) -> tuple[int, int]:
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f'"{text}" is no size like 640x480')
    width, height = text.split("x")
    return int(width), int(height)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--input", type=size_of, metavar="WxH", help="for models that leave the size open")
    parser.add_argument("--scale", type=float, default=1, help="what the picture's numbers are multiplied by")
    parser.add_argument("--frames", type=int, default=500)
    parser.add_argument("--compile", nargs="?", const="default", metavar="MODE", help="also the compiled row: torch.compile's "
                        "mode, such as max-autotune-no-cudagraphs [default]")  # fmt: skip
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with ONNX Runtime instead of measuring")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="of --check")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: for --check only")
    args = parser.parse_intermixed_args()
    if args.device == "cpu" and not args.check:
        parser.error("--device cpu is for --check")
    if args.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("torch_onnx.py: PyTorch finds no GPU" + (" (--device cpu checks without)" if args.check else ""))
    torch.backends.cudnn.benchmark = not args.check
    torch.backends.cudnn.allow_tf32 = not args.check

    work = check if args.check else measure
    results, left_out = [], 0
    with torch.inference_mode():
        for path in args.models:
            try:
                results.append(work(path, OnnxModule(path, args.input).eval(), args))
            except (Unsupported, OSError) as e:
                print(f"torch_onnx.py: {e}", file=sys.stderr, flush=True)
                left_out += 1
    if args.check:
        return 0 if all(results) and not left_out else 1
    if args.json:
        document = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "models": results}
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
