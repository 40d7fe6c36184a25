"""Builds a network that looks at its picture twice, at full and at half size, from the two files of one detector.

  python3 models/marker/pyramid.py --full out/marker/marker-1280x720.onnx --half out/marker/marker-640x360.onnx --out models/marker-1280x720.onnx

Both files are of one export. A cell of the network sees some 500 pixels around it, so that at 1280x720 it does not see the rim
of a code that fills the picture; at half the size it does. The half picture is the mean of two by two pixels, which the full network's first convolution makes along with its
own channels. The full network gives strides 8 and 16, the half one strides 16 and 32, which are 32 and 64 of the whole picture,
with anchors twice as large. The full network's own coarsest level, which boxes large codes in part, is left out.
models/marker-1280x720.yaml says so to camd.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

# Names of outputs: of the half network's levels in the whole, and of the full network's that are left out.
TO_WHOLE = {f"{kind}_{stride}": f"{kind}_{2 * stride}" for stride in (16, 32) for kind in ("cls", "box", "kps")}
LEFT_OUT = {f"{kind}_32" for kind in ("cls", "box", "kps")}


def renamed(graph: onnx.GraphProto, name_of: dict[str, str]) -> list[onnx.NodeProto]:
    nodes = []
    for node in graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [name_of.get(name, name) for name in node.input]
        copy.output[:] = [name_of.get(name, name) for name in node.output]
        copy.name = copy.output[0]
        nodes.append(copy)
    return nodes


def share_the_first_convolution(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], half_stem: onnx.NodeProto,
                                weight: np.ndarray) -> onnx.NodeProto:  # fmt: skip
    """The half picture is three more channels of the full network's first convolution, which has stride 2: so only one
    convolution reads the picture, and camd lets it read the camera's. Gives the half network's first convolution, on those
    channels; whatever else reads them multiplies them by zero."""
    first = next(node for node in nodes if "input" in node.input)
    relu = next(node for node in nodes if first.output[0] in node.input)
    depthwise = next(node for node in nodes if relu.output[0] in node.input)
    after = next(node for node in nodes if depthwise.output[0] in node.input)
    pointwise = next(node for node in nodes if after.output[0] in node.input)
    for node in (first, half_stem):
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        assert attributes["strides"] == [2, 2] and attributes["pads"] == [1] * 4 and attributes["kernel_shape"] == [3, 3]
    mean = np.zeros((3, 3, 3, 3), np.float32)
    for channel in range(3):
        mean[channel, channel, 1:, 1:] = 0.25
    own, no_bias = constants[pointwise.input[1]], np.zeros(3, np.float32)

    def widen(node: onnx.NodeProto, at: int, more: np.ndarray, axis: int = 0) -> None:
        constants[f"wide.{node.input[at]}"] = np.concatenate((constants[node.input[at]], more), axis=axis)
        node.input[at] = f"wide.{node.input[at]}"

    widen(first, 1, mean)
    widen(first, 2, no_bias)
    widen(depthwise, 1, np.zeros((3, 1, 3, 3), np.float32))
    widen(depthwise, 2, no_bias)
    next(a for a in depthwise.attribute if a.name == "group").i += 3
    widen(pointwise, 1, np.zeros((len(own), 3, 1, 1), np.float32), 1)
    inputs = [relu.output[0], "half." + half_stem.input[1], half_stem.input[2]]
    constants[inputs[1]] = np.concatenate((np.zeros((len(weight), own.shape[1], 3, 3), np.float32), weight), axis=1)
    return helper.make_node("Conv", inputs, ["half." + half_stem.output[0]], name="half." + half_stem.output[0],
                            kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, group=1)  # fmt: skip


def build(full: onnx.ModelProto, half: onnx.ModelProto) -> onnx.ModelProto:
    constants = {c.name: numpy_helper.to_array(c) for c in full.graph.initializer}
    name_of = {output: "full." + output for output in LEFT_OUT}
    nodes = renamed(full.graph, name_of)
    theirs = {c.name: numpy_helper.to_array(c) for c in half.graph.initializer}
    name_of = {}
    for name, value in theirs.items():  # weights are shared; sizes of resized maps are not
        if not np.array_equal(value, constants.get(name)):
            name_of[name] = "half." + name
            constants["half." + name] = value
    for node in half.graph.node:
        for name in node.output:
            name_of[name] = TO_WHOLE.get(name, "half." + name)
    for old, new in zip(half.graph.node, renamed(half.graph, name_of)):
        if "input" in old.input:
            new = share_the_first_convolution(nodes, constants, old, theirs[old.input[1]])
        nodes.append(new)
    outputs = [o for o in full.graph.output if o.name not in LEFT_OUT]
    for output in half.graph.output:
        if output.name in TO_WHOLE:
            shape = [d.dim_value for d in output.type.tensor_type.shape.dim]
            outputs.append(helper.make_tensor_value_info(TO_WHOLE[output.name], onnx.TensorProto.FLOAT, shape))
    needed = {o.name for o in outputs}
    kept = []
    for node in reversed(nodes):
        if needed & set(node.output):
            kept.append(node)
            needed |= set(node.input)
    weights = [numpy_helper.from_array(np.ascontiguousarray(v), k) for k, v in constants.items() if k in needed]
    graph = helper.make_graph(kept[::-1], "marker-twice", list(full.graph.input), outputs, weights)
    model = helper.make_model(graph, opset_imports=full.opset_import, ir_version=full.ir_version, producer_name=full.producer_name)
    onnx.checker.check_model(model)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("full", "half", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    args = parser.parse_args()
    onnx.save(build(onnx.load(args.full), onnx.load(args.half)), args.out)
    print(f"{args.out}: {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
