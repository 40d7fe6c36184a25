"""Writes small models with the groups of nodes that exporters of today's detectors write, for libFuzzer to begin with.

usage: /usr/bin/python3 make_models.py FOLDER
Each becomes FOLDER/NAME.onnx. They need Debian's package python3-onnx. ONNX's own cases hold each operator alone
(tests/infer/make_conformance.py); here they work together, on numbers that the picture decides.
"""
import os
import sys

import numpy as np

for name, kind in (("float", float), ("int", int), ("bool", bool), ("object", object)):
    if not hasattr(np, name):
        setattr(np, name, kind)  # names that onnx 1.12 uses and newer numpy dropped

import onnx  # noqa: E402
import onnx.parser  # noqa: E402
from onnx import numpy_helper  # noqa: E402

# From a picture x [1,3,8,8].
MODELS = {
    "attention": """
        shape = Constant <value_ints = [1, 3, 64]> () tokens = Reshape(x, shape) q = Transpose <perm = [0, 2, 1]> (tokens)
        products = MatMul(q, tokens) scale = Constant <value_float = 0.5> () scaled = Mul(products, scale)
        shares = Softmax <axis = -1> (scaled) mixed = MatMul(shares, q) y = Transpose <perm = [0, 2, 1]> (mixed)""",
    "masked_attention": """
        shape = Constant <value_ints = [1, 3, 64]> () tokens = Reshape(x, shape) q = Transpose <perm = [0, 2, 1]> (tokens)
        products = Einsum <equation = "bid,bdj->bij"> (q, tokens) mask = Trilu <upper = 0> (products)
        zero = Constant <value_float = 0.0> () small = Constant <value_float = -1000.0> () there = Equal(mask, zero)
        chosen = Where(there, small, products) shares = Softmax <axis = -1> (chosen) y = MatMul(shares, q)""",
    "layer_norm_gelu": """
        shape = Constant <value_ints = [1, 3, 64]> () tokens = Reshape(x, shape) gain = ConstantOfShape(sixtyfour)
        n = LayerNormalization <axis = -1> (tokens, gain, gain) root = Constant <value_float = 1.4142135> ()
        half = Constant <value_float = 0.5> () one = Constant <value_float = 1.0> () d = Div(n, root) e = Erf(d)
        a = Add(e, one) m = Mul(n, a) y = Mul(m, half)""",
    "best_rows": """
        shape = Constant <value_ints = [1, 3, 64]> () rows = Reshape(x, shape) best = ReduceMax <axes = [1], keepdims = 0> (rows)
        count = Constant <value_ints = [5]> () scores, places = TopK <axis = -1> (best, count) kinds = ArgMax <axis = 1, keepdims = 0> (rows)
        kind = GatherElements <axis = 1> (kinds, places) last = Constant <value_ints = [1]> () at = Unsqueeze(places, last)
        three = Constant <value_ints = [1, 3, 1]> () wide = Expand(at, three) boxes = GatherElements <axis = 2> (rows, wide)
        y = Cast <to = 1> (kind) z = Concat <axis = 1> (boxes, boxes)""",
    "best_rows_nd": """
        shape = Constant <value_ints = [64, 3]> () rows = Reshape(x, shape) best = ReduceMax <axes = [1], keepdims = 0> (rows)
        count = Constant <value_ints = [4]> () scores, places = TopK (best, count) last = Constant <value_ints = [1]> ()
        at = Unsqueeze(places, last) chosen = GatherND(rows, at) divisor = Constant <value_ints = [7]> ()
        rest = Mod(places, divisor) again = Unsqueeze(rest, last) z = ScatterND(rows, again, chosen) y = Identity(chosen)""",
    "places": """
        first = Constant <value_int = 2> () sums = CumSum(x, first) second = Constant <value_int = 3> () also = CumSum <exclusive = 1> (x, second)
        perm = Constant <value_ints = [1, 8, 8, 2]> () both = Concat <axis = 1> (sums, also) starts = Constant <value_ints = [0]> ()
        ends = Constant <value_ints = [2]> () one = Constant <value_ints = [1]> () two = Slice(both, starts, ends, one)
        grid = Transpose <perm = [0, 2, 3, 1]> (two) y = GridSample <mode = "bilinear", padding_mode = "zeros"> (x, grid)""",
    "enlarged": """
        none = Constant <value_float = 0.0> () factors = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> () w = ConstantOfShape(weight)
        c = Conv <kernel_shape = [1, 1]> (x, w) s = Sigmoid(c) g = Mul(c, s) p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (g)
        e = Resize <mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"> (p, , factors)
        both = Concat <axis = 1> (e, g) y = Conv <kernel_shape = [1, 1]> (both, v)""",
    "stack": """
        last = Constant <value_ints = [4]> () a = Unsqueeze(x, last) s = Sigmoid(x) b = Unsqueeze(s, last) stack = Concat <axis = 4> (a, b)
        sum = ReduceSum <keepdims = 0> (stack, last) edge = Constant <value_ints = [0, 0, 0, 0, 0, 0, 1, 1]> ()
        padded = Pad(sum, edge, lowest) y = MaxPool <kernel_shape = [3, 3], strides = [2, 2]> (padded)""",
    "boxes_nms": """
        shape = Constant <value_ints = [1, 48, 4]> () boxes = Reshape(x, shape) turned = Transpose <perm = [0, 2, 1]> (boxes)
        most = Constant <value_ints = [9]> () overlap = Constant <value_floats = [0.5]> () least = Constant <value_floats = [0.1]> ()
        chosen = NonMaxSuppression(boxes, turned, most, overlap, least) y = Cast <to = 1> (chosen)""",
    "found": """
        half = Constant <value_float = 0.5> () s = Sigmoid(x) there = Greater(s, half) places = NonZero(there) rows = Transpose <perm = [1, 0]> (places)
        y = GatherND(s, rows)""",
}
WEIGHTS = {"sixtyfour": [64], "weight": [4, 3, 1, 1]}


def model_of(nodes: str) -> onnx.ModelProto:
    outputs = "float[a, b, c] y" + (", float[d, e, f] z" if " z = " in nodes else "")
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, 3, 8, 8] x) => ({outputs}) {{ {nodes} }}')
    for name, values in WEIGHTS.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(values, np.int64), name))
    model.graph.initializer.append(numpy_helper.from_array(np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8, 1, 1), "v"))
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(-np.inf, np.float32), "lowest"))
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, nodes in MODELS.items():
        with open(os.path.join(sys.argv[1], f"{name}.onnx"), "wb") as file:
            file.write(model_of(nodes).SerializeToString())


if __name__ == "__main__":
    main()
