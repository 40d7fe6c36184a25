"""Writes ONNX's own operator cases (Debian package python3-onnx) as files that the C++ tests read.

usage: /usr/bin/python3 make_conformance.py FOLDER
Each case with an f32 first input becomes FOLDER/NAME/{model.onnx,input.pb,output_N.pb}. Only the first input stays an
input; the others become weights, because a detector has one input.
Each case of an operator in LIVE becomes NAME_live besides: its inputs are weights, to each of which something is added
that depends on the model's one input, and is 0. So nothing but what LIVE names is known beforehand.
"""
import os
import sys

import numpy as np

for name, kind in (("float", float), ("int", int), ("bool", bool), ("object", object)):
    if not hasattr(np, name):
        setattr(np, name, kind)  # names that onnx 1.12 uses and newer numpy dropped

import onnx  # noqa: E402
import onnx.backend.test.case.node as node_cases  # noqa: E402
from onnx import TensorProto, numpy_helper  # noqa: E402


# Operators, and which of their inputs have to be known beforehand.
LIVE = {
    "ArgMax": [], "ArgMin": [], "TopK": [1], "Gather": [], "GatherElements": [], "GatherND": [], "ScatterElements": [],
    "ScatterND": [], "Where": [], "Equal": [], "Less": [], "LessOrEqual": [], "Greater": [], "GreaterOrEqual": [],
    "And": [], "Or": [], "Xor": [], "Not": [], "Mod": [], "CumSum": [1], "GridSample": [], "Einsum": [], "OneHot": [1],
    "Trilu": [1], "Clip": [1, 2], "Div": [], "IsNaN": [], "ConvInteger": [1, 2, 3], "MatMulInteger": [1, 2, 3],
}


def write(path: str, message) -> None:
    with open(path, "wb") as file:
        file.write(message.SerializeToString())


def convert(case, folder: str) -> None:
    graph = case.model.graph
    inputs, outputs = case.data_sets[0]
    if not graph.input or any(not v.type.HasField("tensor_type") for v in list(graph.input) + list(graph.output)):
        return
    if graph.input[0].type.tensor_type.elem_type != TensorProto.FLOAT or not isinstance(inputs[0], np.ndarray):
        return
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    del model.graph.input[1:]
    for value, data in list(zip(graph.input, inputs))[1:]:
        if value.name != graph.input[0].name:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(data), value.name))
    target = os.path.join(folder, case.name)
    os.makedirs(target, exist_ok=True)
    write(os.path.join(target, "model.onnx"), model)
    write(os.path.join(target, "input.pb"), numpy_helper.from_array(inputs[0], graph.input[0].name))
    for i, (value, data) in enumerate(zip(graph.output, outputs)):
        write(os.path.join(target, f"output_{i}.pb"), numpy_helper.from_array(np.asarray(data), value.name))


def convert_live(case, folder: str) -> None:
    graph = case.model.graph
    inputs, outputs = case.data_sets[0]
    node = graph.node[0]
    if len(graph.node) != 1 or node.op_type not in LIVE or case.name.endswith("_expanded"):
        return
    if any(not isinstance(data, np.ndarray) or data.dtype.kind not in "fiub" or data.size == 0 for data in inputs):
        return
    if any(not isinstance(data, np.ndarray) or data.dtype.kind not in "fiub" for data in outputs):
        return
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    g = model.graph
    del g.node[:], g.input[:]
    live = onnx.helper.make_tensor_value_info("live", TensorProto.FLOAT, [1])
    g.input.append(live)
    known = [node.input[i] for i in LIVE[node.op_type] if i < len(node.input)]
    for value, data in zip(graph.input, inputs):
        data = np.asarray(data)
        if value.name in known:
            g.initializer.append(numpy_helper.from_array(data, value.name))
            continue
        weight, zero = value.name + "_weight", value.name + "_zero"
        g.initializer.append(numpy_helper.from_array(data, weight))
        kind = value.type.tensor_type.elem_type
        g.node.append(onnx.helper.make_node("Cast", ["live"], [zero + "_one"], to=kind))
        # A scalar, so that no rank changes.
        g.initializer.append(numpy_helper.from_array(np.array([], np.int64), zero + "_shape"))
        g.node.append(onnx.helper.make_node("Reshape", [zero + "_one", zero + "_shape"], [zero]))
        g.node.append(onnx.helper.make_node("Or" if data.dtype.kind == "b" else "Add", [weight, zero], [value.name]))
    g.node.append(node)
    target = os.path.join(folder, case.name + "_live")
    os.makedirs(target, exist_ok=True)
    write(os.path.join(target, "model.onnx"), model)
    write(os.path.join(target, "input.pb"), numpy_helper.from_array(np.zeros([1], np.float32), "live"))
    for i, (value, data) in enumerate(zip(graph.output, outputs)):
        write(os.path.join(target, f"output_{i}.pb"), numpy_helper.from_array(np.asarray(data), value.name))


def main() -> None:
    folder = sys.argv[1]
    for case in node_cases.collect_testcases(None):
        # Expanded functions say the same again in operators that have cases of their own.
        if not case.name.endswith("_expanded"):
            convert(case, folder)
        convert_live(case, folder)


main()
