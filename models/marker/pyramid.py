"""Builds a network that looks at its picture twice, at full and at half size, from the two files of one detector.

  python3 models/marker/pyramid.py --full out/marker/marker-1280x720.onnx --half out/marker/marker-640x360.onnx --out models/marker-close-1280x720.onnx

Both files are of one export. The committed one comes from weights that models/README.md calls "finer training". A cell of the network sees some 500 pixels around it, so that at 1280x720 it
does not see the rim of a code that fills the picture; at half the size it does. The half picture is the mean of two by two
pixels. That mean and the half network's stem are one convolution, 6x6 with stride 4. The full network gives strides 8 and
16, the half one strides 16 and 32, which are 32 and 64 of the whole picture, with anchors twice as large. The full network's
own coarsest level, which boxes large codes in part, is left out. models/marker-close.yaml says so to camd.
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


def stem_of_half(node: onnx.NodeProto, weight: np.ndarray) -> tuple[onnx.NodeProto, np.ndarray]:
    """A 3x3 convolution with stride 2 on the mean of two by two pixels, as one on the pixels."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    assert attributes["strides"] == [2, 2] and attributes["pads"] == [1] * 4 and weight.shape[2:] == (3, 3)
    wide = weight.repeat(2, axis=2).repeat(2, axis=3) / 4
    name = "half." + node.input[1]
    new = helper.make_node("Conv", ["input", name, node.input[2]], ["half." + node.output[0]], name="half." + node.output[0],
                           kernel_shape=[6, 6], strides=[4, 4], pads=[2] * 4, group=1)  # fmt: skip
    return new, wide.astype(np.float32)


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
            new, wide = stem_of_half(old, theirs[old.input[1]])
            constants[new.input[1]] = wide
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
    graph = helper.make_graph(kept[::-1], "marker-close", list(full.graph.input), outputs, weights)
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
