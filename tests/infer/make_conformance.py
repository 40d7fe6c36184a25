"""Writes ONNX's own operator cases (Debian package python3-onnx) as files that the C++ tests read.

usage: /usr/bin/python3 make_conformance.py FOLDER
Each case with an f32 first input becomes FOLDER/NAME/{model.onnx,input.pb,output_N.pb}. Only the first input stays an
input; the others become weights, because camd wants everything but the picture beforehand.
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


def write(path: str, message) -> None:
    with open(path, "wb") as file:
        file.write(message.SerializeToString())


def convert(case, folder: str) -> bool:
    graph = case.model.graph
    inputs, outputs = case.data_sets[0]
    if not graph.input or any(not v.type.HasField("tensor_type") for v in list(graph.input) + list(graph.output)):
        return False
    if graph.input[0].type.tensor_type.elem_type != TensorProto.FLOAT or not isinstance(inputs[0], np.ndarray):
        return False
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
    return True


def main() -> None:
    folder = sys.argv[1]
    count = 0
    for case in node_cases.collect_testcases(None):
        # Expanded functions say the same again in operators that have cases of their own.
        if not case.name.endswith("_expanded") and convert(case, folder):
            count += 1
    with open(os.path.join(folder, "done"), "w", encoding="utf-8") as file:
        file.write(f"{count}\n")


main()
