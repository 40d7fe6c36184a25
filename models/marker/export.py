"""Writes a trained (or, for tests, an untrained) network as ONNX, opset 17, with batch norm folded away.

The graph is built node by node rather than traced: Conv, Relu, Add, Concat, Resize and Sigmoid are all
there is, every tensor has a speaking name, and the file does not depend on the version of an exporter.

  python3 models/marker/export.py --weights marker.pt --out models
  python3 models/marker/export.py --random --out /tmp
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from model import OUTPUT_NAMES, STRIDES, ConvBN, MarkerNet, flatten, level_sizes

SIZES = ((640, 360), (1280, 720))
MAX_BYTES = 2 * 1024 * 1024


class GraphBuilder:
    """Collects nodes and weights; each method returns the name of the tensor that it makes."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def _constant(self, name: str, value: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def node(self, op: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def _conv(self, x: str, name: str, conv: nn.Conv2d, weight: torch.Tensor, bias: torch.Tensor) -> str:
        kernel, pad = conv.kernel_size[0], conv.padding[0]
        wide = {} if conv.dilation[0] == 1 else {"dilations": list(conv.dilation)}
        inputs = [x, self._constant(f"{name}.weight", weight.numpy()), self._constant(f"{name}.bias", bias.numpy())]
        return self.node(
            "Conv", inputs, name, kernel_shape=[kernel] * 2, strides=list(conv.stride), pads=[pad] * 4, group=conv.groups, **wide
        )

    def block(self, x: str, name: str, block: ConvBN) -> str:
        y = self._conv(x, name, block.conv, *(part.detach() for part in block.folded()))
        return self.node("Relu", [y], f"{name}.relu") if block.relu else y

    def head(self, x: str, name: str, conv: nn.Conv2d) -> str:
        return self._conv(x, name, conv, conv.weight.detach(), conv.bias.detach())

    def upsample(self, x: str, name: str, height: int, width: int) -> str:
        sizes = self._constant(f"{name}.sizes", np.array([1, 64, height, width], np.int64))
        return self.node(
            "Resize", [x, "", "", sizes], name,
            mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        )  # fmt: skip


def blocks_of(net: MarkerNet) -> dict[str, ConvBN | nn.Conv2d]:
    """Every convolution of the network by its name in the file."""
    named: dict[str, ConvBN | nn.Conv2d] = {"stem": net.stem}
    for i, stage in enumerate(net.stages):
        for j, block in enumerate(stage):
            named |= {f"stage{i}.{j}.depthwise": block.depthwise, f"stage{i}.{j}.pointwise": block.pointwise}
    for i, (context, mix, head) in enumerate(zip(net.contexts, net.mixes, net.heads)):
        named |= {f"lateral{i}": net.laterals[i], f"mix{i}": mix}
        named |= {f"context{i}.{name}": block for name, block in context.named_children()}
        named |= {f"logit_{STRIDES[i]}": head.cls, f"box_{STRIDES[i]}": head.box, f"kps_{STRIDES[i]}": head.kps}
    return named | {f"merge{i}": merge for i, merge in enumerate(net.merges)}


def load_onnx(net: MarkerNet, *paths: Path) -> None:
    """Takes over the weights of a file of build_onnx(), whose blocks are folded, and freezes the blocks; of several files the mean."""
    each = [{c.name: torch.from_numpy(numpy_helper.to_array(c).copy()) for c in onnx.load(path).graph.initializer} for path in paths]

    def mean(name: str) -> torch.Tensor:
        return torch.stack([weights[name] for weights in each]).mean(dim=0)

    for name, block in blocks_of(net).items():
        weight, bias = mean(f"{name}.weight"), mean(f"{name}.bias")
        if isinstance(block, ConvBN):
            block.unfold(weight, bias)
            block.frozen = True
        else:
            with torch.no_grad():
                block.weight.copy_(weight)
                block.bias.copy_(bias)


def build_onnx(net: MarkerNet, width: int, height: int) -> onnx.ModelProto:
    """The network at one fixed input size, batch 1; mirrors MarkerNet.forward line by line."""
    g = GraphBuilder()
    x = g.block("input", "stem", net.stem)
    taps = []
    for i, stage in enumerate(net.stages):
        for j, block in enumerate(stage):
            x = g.block(x, f"stage{i}.{j}.depthwise", block.depthwise)
            x = g.block(x, f"stage{i}.{j}.pointwise", block.pointwise)
        taps.append(x)
    sizes = level_sizes(height, width)
    levels = [g.block(tap, f"lateral{i}", net.laterals[i]) for i, tap in enumerate(taps)]
    for i in (1, 0):
        up = g.upsample(levels[i + 1], f"up{i}", *sizes[i])
        levels[i] = g.block(g.node("Add", [levels[i], up], f"sum{i}"), f"merge{i}", net.merges[i])
    for i, (level, context, mix, head) in enumerate(zip(levels, net.contexts, net.mixes, net.heads)):
        view3 = g.block(level, f"context{i}.view3", context.view3)
        reduced = g.block(level, f"context{i}.reduce", context.reduce)
        view5 = g.block(reduced, f"context{i}.view5", context.view5)
        deep = g.block(reduced, f"context{i}.deepen", context.deepen)
        view7 = g.block(deep, f"context{i}.view7", context.view7)
        features = g.node("Concat", [view3, view5, view7], f"context{i}.views", axis=1)
        features = g.block(g.node("Relu", [features], f"context{i}.relu"), f"mix{i}", mix)
        g.node("Sigmoid", [g.head(features, f"logit_{STRIDES[i]}", head.cls)], f"cls_{STRIDES[i]}")
        g.head(features, f"box_{STRIDES[i]}", head.box)
        g.head(features, f"kps_{STRIDES[i]}", head.kps)
    channels = {"cls": net.heads[0].cls.out_channels, "box": net.heads[0].box.out_channels,
                "kps": net.heads[0].kps.out_channels}  # fmt: skip
    outputs = []
    for name in OUTPUT_NAMES:
        kind, stride = name.split("_")
        h, w = sizes[STRIDES.index(int(stride))]
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, channels[kind], h, w]))
    graph = helper.make_graph(
        g.nodes, "marker", [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, 3, height, width])],
        outputs, g.weights,
    )  # fmt: skip
    # IR 8 is the version of opset 17's release; older readers refuse a newer one.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="camd")
    onnx.checker.check_model(model, full_check=True)
    return model


def verify(net: MarkerNet, model: onnx.ModelProto, width: int, height: int) -> float:
    """Largest difference between PyTorch and ONNX Runtime on one random picture."""
    import onnxruntime

    x = torch.rand(1, 3, height, width, generator=torch.Generator().manual_seed(1))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    got = flatten([torch.from_numpy(o) for o in session.run(list(OUTPUT_NAMES), {"input": x.numpy()})])
    with torch.no_grad():
        want = flatten(net(x))
    pairs = ((got[0], want[0].sigmoid()), (got[1], want[1]), (got[2], want[2]))
    return max(float((a - b).abs().max()) for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--weights", type=Path, help="state dict written by train.py")
    source.add_argument("--random", action="store_true", help="untrained weights, for tests of the readers")
    parser.add_argument("--out", type=Path, required=True, help="folder for marker-WxH.onnx")
    parser.add_argument("--no-verify", action="store_true", help="skip the comparison with ONNX Runtime")
    args = parser.parse_args()

    torch.manual_seed(0)
    net = MarkerNet().eval()
    if args.weights:
        net.load_state_dict(torch.load(args.weights, map_location="cpu", weights_only=True))
    args.out.mkdir(parents=True, exist_ok=True)
    for width, height in SIZES:
        model = build_onnx(net, width, height)
        data = model.SerializeToString()
        if len(data) >= MAX_BYTES:
            raise SystemExit(f"marker-{width}x{height}.onnx would be {len(data)} bytes, {MAX_BYTES} allowed")
        path = args.out / f"marker-{width}x{height}.onnx"
        path.write_bytes(data)
        note = "" if args.no_verify else f", largest difference to PyTorch {verify(net, model, width, height):.2e}"
        print(f"{path}: {len(data)} bytes{note}")


if __name__ == "__main__":
    main()
