"""An ONNX graph as a PyTorch module. What depends only on constants and shapes is computed once, when the graph is read;
the rest is a list of calls of PyTorch's functions with arguments fixed by then, so that nothing waits for the device and
a CUDA graph can capture it. Batch normalisation is folded into the convolution in front and x * sigmoid(x) is one call,
as the networks' authors would run them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from google.protobuf.message import DecodeError
from torch import Tensor

# Attributes that say nothing which shapes or other attributes do not say, or that concern training only.
IDLE = {"kernel_shape", "momentum", "cubic_coeff_a", "storage_order", "exclude_outside", "extrapolation_value"}
STANDARD = ("", "ai.onnx")  # both name the domain of the standard's operators


class Unsupported(Exception):
    pass


def need(condition: bool, what: str) -> None:
    if not condition:
        raise Unsupported(what)


class Node:
    """An operator's attributes and inputs while its call is made. Inputs are constants, or tensors without contents (device
    meta) that tell their shape; those asked for by `constant` or `ints` are not handed to the call."""

    def __init__(self, node: onnx.NodeProto, values: dict[str, Tensor], version: int) -> None:
        self.op, self.version = node.op_type, version
        self.attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        self.names = list(node.input)
        self.inputs = [values[name] if name else None for name in node.input]
        self.outputs = len(node.output)
        self.handed = [i for i, name in enumerate(node.input) if name]

    def take(self, name: str, default: object = None) -> object:
        value = self.attributes.pop(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def constant(self, index: int) -> Tensor | None:
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            return None
        need(not value.is_meta, f'its input "{self.names[index]}" is not constant')
        self.handed.remove(index)
        return value

    def ints(self, name: str, index: int) -> list[int] | None:
        """The attribute of older operator sets, the input of newer ones."""
        value = self.take(name)
        if value is None:
            value = self.constant(index)
        return value if value is None or isinstance(value, list) else value.flatten().tolist()

    @property
    def shape(self) -> list[int]:
        return list(self.inputs[0].shape)


def pads_of(n: Node, kernel: list[int], strides: list[int], dilations: list[int]) -> tuple[list[int], list[int]]:
    """Pads in front and behind."""
    pads, auto = n.take("pads"), n.take("auto_pad", "NOTSET")
    rank = len(kernel)
    if not auto.startswith("SAME"):
        pads = pads if pads and auto == "NOTSET" else [0] * 2 * rank
        return pads[:rank], pads[rank:]
    total = [max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
             for size, k, s, d in zip(n.shape[2:], kernel, strides, dilations)]  # fmt: skip
    less, more = [t // 2 for t in total], [t - t // 2 for t in total]
    return (less, more) if auto == "SAME_UPPER" else (more, less)


def window(n: Node, kernel: list[int]) -> tuple[list[int], list[int], list[int], list[int]]:
    """Strides, dilations, pads in front and behind."""
    need(len(kernel) == 2, f"{len(kernel)} dimensions instead of two")
    strides, dilations = n.take("strides", [1, 1]), n.take("dilations", [1, 1])
    return strides, dilations, *pads_of(n, kernel, strides, dilations)


def conv(n: Node) -> Callable:
    strides, dilations, front, behind = window(n, list(n.inputs[1].shape[2:]))
    group = n.take("group", 1)
    if front == behind:
        return lambda x, w, b=None: F.conv2d(x, w, b, strides, front, dilations, group)
    sides = [front[1], behind[1], front[0], behind[0]]
    return lambda x, w, b=None: F.conv2d(F.pad(x, sides), w, b, strides, 0, dilations, group)


def conv_transpose(n: Node) -> Callable:
    need("output_shape" not in n.attributes and n.attributes.get("auto_pad", b"NOTSET") == b"NOTSET", "output_shape or auto_pad")
    strides, dilations, front, behind = window(n, list(n.inputs[1].shape[2:]))
    need(front == behind, "other pads in front than behind")
    more, group = n.take("output_padding", [0, 0]), n.take("group", 1)
    return lambda x, w, b=None: F.conv_transpose2d(x, w, b, strides, front, more, group, dilations)


def pool(n: Node) -> Callable:
    need(n.outputs == 1, "a second output")
    kernel, ceil = n.attributes["kernel_shape"], bool(n.take("ceil_mode", 0))
    strides, dilations, front, behind = window(n, kernel)
    sides = [front[1], behind[1], front[0], behind[0]]
    native = front == behind and all(2 * p <= k for p, k in zip(front, kernel))
    if n.op == "MaxPool":
        if native:
            return lambda x: F.max_pool2d(x, kernel, strides, front, dilations, ceil)
        return lambda x: F.max_pool2d(F.pad(x, sides, value=float("-inf")), kernel, strides, 0, dilations, ceil)
    counted = bool(n.take("count_include_pad", 0))
    need(native and dilations == [1, 1], "these pads or dilations")
    return lambda x: F.avg_pool2d(x, kernel, strides, front, ceil, counted)


def resize(n: Node) -> Callable:
    how, place = n.take("mode", "nearest"), n.take("coordinate_transformation_mode", "half_pixel")
    rounding = n.take("nearest_mode", "round_prefer_floor")
    if n.version < 11:  # Upsample as well
        place, rounding, sizes = "asymmetric", "floor", None
        scales = n.take("scales") or n.constant(1).tolist()
    else:
        n.constant(1)  # the region, for a mode that is refused below
        scales, sizes = (None if t is None else t.tolist() for t in (n.constant(2), n.constant(3)))
    shape = n.shape
    size = sizes if sizes else [int(e * s) for e, s in zip(shape, scales)]
    need(size[:2] == shape[:2] and len(size) == 4, "anything but height and width")
    need(bool(sizes) or all(a == e * s for a, e, s in zip(size, shape, scales)), "scales that give no whole size")
    size, whole = size[2:], all(a % e == 0 for a, e in zip(size[2:], shape[2:]))
    if how == "nearest":
        floor = (place, rounding) == ("asymmetric", "floor")
        near = place.endswith("half_pixel") and rounding.startswith("round_prefer") and whole
        need(floor or near, f"nearest, {place}, {rounding}")
        return lambda x: F.interpolate(x, size, mode="nearest")
    half = place == "half_pixel" or (place == "pytorch_half_pixel" and min(size) > 1)
    need(how == "linear" and (half or place == "align_corners"), f"{how}, {place}")
    corners = place == "align_corners"
    return lambda x: F.interpolate(x, size, mode="bilinear", align_corners=corners)


def slices(n: Node) -> Callable:
    starts, ends = n.ints("starts", 1), n.ints("ends", 2)
    axes, steps = n.ints("axes", 3) or range(len(starts)), n.ints("steps", 4) or [1] * len(starts)
    cut, back = [slice(None)] * len(n.shape), []
    for axis, *bounds in zip(axes, starts, ends, steps):
        taken = range(*slice(*bounds).indices(n.shape[axis]))
        if bounds[2] < 0:
            back.append(axis)
            taken = taken[::-1]
        cut[axis] = slice(taken.start, taken.stop, taken.step)
    return lambda x: x[tuple(cut)].flip(back) if back else x[tuple(cut)]


def gather(n: Node) -> Callable:
    axis = n.take("axis", 0)
    indices = n.constant(1)
    if indices.ndim == 0:
        at = int(indices)
        return lambda x: x.select(axis, at)
    n.handed.append(1)
    shape = n.shape
    size = shape[axis]
    shape[axis : axis % len(shape) + 1] = indices.shape
    if int(indices.min()) < 0:
        return lambda x, i: x.index_select(axis, i.flatten() % size).reshape(shape)
    return lambda x, i: x.index_select(axis, i.flatten()).reshape(shape)


def split(n: Node) -> Callable:
    axis, sizes = n.take("axis", 0), n.ints("split", 1)
    n.take("num_outputs")
    part = sizes or -(-n.shape[axis] // n.outputs)
    return lambda x: torch.split(x, part, axis)


def reshape(n: Node) -> Callable:
    keep = not n.take("allowzero", 0)
    to = [n.shape[i] if e == 0 and keep else e for i, e in enumerate(n.ints("shape", 1))]
    return lambda x: x.reshape(to)


def flatten(n: Node) -> Callable:
    axis = n.take("axis", 1)
    first = torch.Size(n.shape[:axis]).numel()
    return lambda x: x.reshape(first, -1)


def unsqueeze(n: Node) -> Callable:
    axes = n.ints("axes", 1)
    rank = len(n.shape) + len(axes)
    left = iter(n.shape)
    new = {a % rank for a in axes}
    to = [1 if i in new else next(left) for i in range(rank)]
    return lambda x: x.reshape(to)


def squeeze(n: Node) -> Callable:
    axes = n.ints("axes", 1)
    gone = {a % len(n.shape) for a in axes} if axes else {i for i, e in enumerate(n.shape) if e == 1}
    to = [e for i, e in enumerate(n.shape) if i not in gone]
    return lambda x: x.reshape(to)


def pad(n: Node) -> Callable:
    mode = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}.get(n.take("mode", "constant"))
    need(mode is not None and len(n.inputs) < 4, "this mode, or axes")
    pads, value = n.ints("pads", 1), n.constant(2) if n.version >= 11 else n.take("value", 0.0)
    rank = len(pads) // 2
    sides = [p for i in reversed(range(rank)) for p in (pads[i], pads[rank + i])]
    while sides and sides[-2:] == [0, 0]:
        sides = sides[:-2]
    fill = float(value or 0) if mode == "constant" else None
    return (lambda x: F.pad(x, sides, mode, fill)) if sides else (lambda x: x)


def softmax(n: Node) -> Callable:
    axis = n.take("axis", -1 if n.version >= 13 else 1)
    if n.version >= 13 or axis in (-1, len(n.shape) - 1):
        return lambda x: x.softmax(axis)
    shape = n.shape
    return lambda x: x.flatten(axis).softmax(-1).reshape(shape)


def clip(n: Node) -> Callable:
    low, high = (n.take("min"), n.take("max")) if n.version < 11 else (n.constant(1), n.constant(2))
    low, high = (None if bound is None else float(bound) for bound in (low, high))
    return lambda x: x if low is None and high is None else x.clamp(low, high)


def reduce(n: Node) -> Callable:
    axes, keep = n.ints("axes", 1) or list(range(len(n.shape))), bool(n.take("keepdims", 1))
    call = {"ReduceMean": torch.mean, "ReduceSum": torch.sum, "ReduceMax": torch.amax}[n.op]
    return lambda x: call(x, axes, keep)


def layer_norm(n: Node) -> Callable:
    epsilon, size = n.take("epsilon", 1e-5), n.shape[n.take("axis", -1) :]
    n.take("stash_type")
    need(n.outputs == 1, "a second output")
    return lambda x, gain, offset=None: F.layer_norm(x, size, gain, offset, epsilon)


def grid_sample(n: Node) -> Callable:
    how = {"linear": "bilinear", "bilinear": "bilinear", "nearest": "nearest"}.get(n.take("mode", "linear"))
    padding, corners = n.take("padding_mode", "zeros"), bool(n.take("align_corners", 0))
    need(how is not None, "this mode")
    return lambda x, grid: F.grid_sample(x, grid.to(x.dtype), how, padding, corners)


def top_k(n: Node) -> Callable:
    axis, largest, in_order = n.take("axis", -1), bool(n.take("largest", 1)), bool(n.take("sorted", 1))
    (count,) = n.ints("k", 1)
    return lambda x: x.topk(count, axis, largest, in_order)


def gather_elements(n: Node) -> Callable:
    axis = n.take("axis", 0)
    return lambda x, i: x.gather(axis, i)


def expand(n: Node) -> Callable:
    to = torch.broadcast_shapes(n.shape, n.ints("shape", 1))
    return lambda x: x.expand(to)


def tile(n: Node) -> Callable:
    repeats = n.ints("repeats", 1)
    return lambda x: x.repeat(repeats)


def einsum(n: Node) -> Callable:
    equation = n.take("equation")
    return lambda *x: torch.einsum(equation, *x)


def gemm(n: Node) -> Callable:
    alpha, beta = n.take("alpha", 1.0), n.take("beta", 1.0)
    across, down = n.take("transA", 0), n.take("transB", 0)
    need(alpha == 1 and beta == 1 and not across, "a factor, or a transposed first matrix")
    return (lambda x, w, b=None: F.linear(x, w, b)) if down else (lambda x, w, b=0: x @ w + b)


def cast(n: Node) -> Callable:
    to = onnx.helper.tensor_dtype_to_np_dtype(n.take("to"))
    kind = torch.from_numpy(np.zeros(1, to)).dtype
    floats = kind.is_floating_point
    # A float stays what the network computes in.
    return lambda x: (x if x.is_floating_point() else x.float()) if floats else x.to(kind)


def constant_of_shape(n: Node) -> Callable:
    value, size = n.take("value"), n.constant(0).tolist()
    made = torch.zeros(size) if value is None else tensor_of(value).expand(size).clone()
    return lambda: made


def ranges(n: Node) -> Callable:
    made = torch.arange(*(n.constant(i).item() for i in range(3)))
    return lambda: made


def norm(n: Node) -> Callable:
    epsilon = n.take("epsilon", 1e-5)
    need(not n.take("training_mode", 0), "training_mode")
    if n.op == "InstanceNormalization":
        return lambda x, scale, bias: F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)
    return lambda x, scale, bias, mean, var: F.batch_norm(x, mean, var, scale, bias, eps=epsilon)


def hard_sigmoid(n: Node) -> Callable:
    alpha, beta = n.take("alpha", 0.2), n.take("beta", 0.5)
    return lambda x: (x * alpha + beta).clamp(0, 1)


def leaky_relu(n: Node) -> Callable:
    slope = n.take("alpha", 0.01)
    return lambda x: F.leaky_relu(x, slope)


def concat(n: Node) -> Callable:
    axis = n.take("axis")
    return lambda *parts: torch.cat(parts, axis)


def transpose(n: Node) -> Callable:
    order = n.take("perm", list(reversed(range(len(n.shape)))))
    return lambda x: x.permute(order)


def divide(n: Node) -> Callable:
    rounding = None if n.inputs[0].is_floating_point() else "trunc"
    return lambda a, b: torch.div(a, b, rounding_mode=rounding)


def constant(n: Node) -> Callable:
    (value,) = n.attributes.values()
    n.attributes.clear()
    made = tensor_of(value) if isinstance(value, onnx.TensorProto) else torch.tensor(value)
    return lambda: made


def shape(n: Node) -> Callable:
    n.handed.clear()
    made = torch.tensor(n.shape)
    return lambda: made


def same(call: Callable) -> Callable[[Node], Callable]:
    """For operators without attributes."""
    return lambda n: call


OPERATORS: dict[str, Callable[[Node], Callable]] = {
    "Add": same(torch.add), "AveragePool": pool, "BatchNormalization": norm, "Clip": clip, "Concat": concat, "Constant": constant,
    "Conv": conv, "ConvTranspose": conv_transpose, "Div": divide, "Exp": same(torch.exp), "Flatten": flatten, "Gather": gather,
    "GlobalAveragePool": same(lambda x: x.mean((2, 3), keepdim=True)), "HardSigmoid": hard_sigmoid, "HardSwish": same(F.hardswish),
    "Identity": same(lambda x: x), "InstanceNormalization": norm, "LeakyRelu": leaky_relu, "MatMul": same(torch.matmul),
    "MaxPool": pool, "Mul": same(torch.mul),
    "Pad": pad, "Pow": same(torch.pow), "ReduceMean": reduce, "Relu": same(F.relu), "Reshape": reshape, "Resize": resize, "Shape": shape,
    "Sigmoid": same(torch.sigmoid), "Slice": slices, "Softmax": softmax, "Split": split, "Sqrt": same(torch.sqrt),
    "Squeeze": squeeze, "Sub": same(torch.sub), "Tanh": same(torch.tanh), "Transpose": transpose, "Unsqueeze": unsqueeze,
    "Upsample": resize,
    "Abs": same(torch.abs), "Cast": cast, "ConstantOfShape": constant_of_shape, "Cos": same(torch.cos), "Einsum": einsum,
    "Equal": same(torch.eq), "Erf": same(torch.erf), "Expand": expand, "GatherElements": gather_elements, "Gemm": gemm,
    "GridSample": grid_sample, "LayerNormalization": layer_norm, "Log": same(torch.log), "Neg": same(torch.neg), "Range": ranges,
    "ReduceMax": reduce, "ReduceSum": reduce, "Sin": same(torch.sin), "Tile": tile, "TopK": top_k, "Where": same(torch.where),
}  # fmt: skip


def tensor_of(proto: onnx.TensorProto) -> Tensor:
    made = torch.from_numpy(onnx.numpy_helper.to_array(proto).copy())
    return made.float() if made.dtype == torch.float64 else made


@dataclass(eq=False)
class Step:
    op: str
    call: Callable
    inputs: list[str]
    outputs: list[str]
    over: list[str] = field(default_factory=list)  # values that nobody needs afterwards


class OnnxModule(torch.nn.Module):
    """[1,3,H,W] in, the list of all outputs out. `size` is (width, height), for a model that leaves them open. Raises
    Unsupported, with the node and the operator."""

    def __init__(self, path: Path, size: tuple[int, int] | None = None) -> None:
        super().__init__()
        try:
            model = onnx.load(path)
        except DecodeError:
            raise Unsupported(f"{path.name} is no ONNX model") from None
        graph = model.graph
        version = next(o.version for o in model.opset_import if o.domain in STANDARD)
        values = {t.name: tensor_of(t) for t in graph.initializer}
        sources = [i for i in graph.input if i.name not in values]
        need(len(sources) == 1, f"{path.name}: {len(sources)} inputs instead of one")
        dims = [d.dim_value for d in sources[0].type.tensor_type.shape.dim]
        need(len(dims) == 4 and dims[0] in (0, 1) and dims[1] == 3, f"{path.name}: its input is no picture [1,3,H,W]")
        if not (dims[2] and dims[3]):
            need(size is not None, f"{path.name} leaves the size of its input open: --input WxH is needed")
            dims[2:] = [size[1], size[0]]
        self.source, self.size = sources[0].name, (dims[3], dims[2])
        self.names = [o.name for o in graph.output]
        self.uses = Counter([*(name for node in graph.node for name in node.input), *self.names])
        self.steps: list[Step] = []
        values[self.source] = torch.empty(1, *dims[1:], device="meta")
        for i, node in enumerate(graph.node):
            try:
                self.add(node, values, version)
            except Unsupported as e:
                raise Unsupported(f'{path.name}: node "{node.name or i}" ({node.op_type}): {e}') from e
        self.finish(values)

    def add(self, proto: onnx.NodeProto, values: dict[str, Tensor], version: int) -> None:
        need(proto.op_type in OPERATORS and proto.domain in STANDARD, "this operator is not known here")
        node = Node(proto, values, version)
        call = OPERATORS[node.op](node)
        unread = sorted(node.attributes.keys() - IDLE)
        need(not unread, f"attribute {', '.join(unread)} is not known here")
        step = Step(node.op, call, [node.names[i] for i in node.handed], list(proto.output))
        if any(values[name].is_meta for name in step.inputs):
            self.fuse(step, values)
            self.steps.append(step)
            made = step.call(*(values[name].to("meta") for name in step.inputs))
        else:
            made = call(*(values[name] for name in step.inputs))
        values.update(zip(step.outputs, [made] if isinstance(made, Tensor) else made))

    def fuse(self, step: Step, values: dict[str, Tensor]) -> None:
        """Lets a step do the work of the one in front as well, where nobody else reads that one's result."""
        wanted = {"BatchNormalization": "Conv", "Mul": "Sigmoid"}.get(step.op)
        for front in [s for s in self.steps if s.op == wanted and s.outputs[0] in step.inputs]:
            if self.uses[front.outputs[0]] != 1:
                continue
            if step.op == "Mul" and front.inputs[0] in step.inputs:
                step.op, step.call, step.inputs = "SiLU", F.silu, front.inputs
            elif step.op == "BatchNormalization" and not any(values[name].is_meta for name in front.inputs[1:] + step.inputs[1:]):
                weight, *bias = (values[name].double() for name in front.inputs[1:])
                norm_of = [values[name].double() for name in step.inputs[1:]]
                shift = step.call(torch.zeros(1, len(weight), 1, 1).double(), *norm_of).flatten()
                gain = step.call(torch.ones(1, len(weight), 1, 1).double(), *norm_of).flatten() - shift
                names = [f"{step.outputs[0]}: {what}" for what in ("weight", "bias")]
                values[names[0]] = (weight * gain.reshape(-1, 1, 1, 1)).float()
                values[names[1]] = ((bias[0] if bias else 0) * gain + shift).float()
                step.op, step.call, step.inputs = "Conv", front.call, [front.inputs[0], *names]
            else:
                continue
            self.steps.remove(front)
            return

    def finish(self, values: dict[str, Tensor]) -> None:
        """Keeps the constants that steps read, and notes when each value is read for the last time."""
        read = dict.fromkeys([*(name for step in self.steps for name in step.inputs), *self.names])
        self.constants = {name: f"constant_{i}" for i, name in enumerate(read) if not values[name].is_meta}
        for name, buffer in self.constants.items():
            self.register_buffer(buffer, values[name])
        kept = {*self.names, *self.constants}
        for step in reversed(self.steps):
            step.over = [name for name in dict.fromkeys(step.inputs + step.outputs) if name not in kept]
            kept.update(step.over)

    def forward(self, x: Tensor) -> list[Tensor]:
        values = {name: getattr(self, buffer) for name, buffer in self.constants.items()}
        values[self.source] = x
        for step in self.steps:
            made = step.call(*[values[name] for name in step.inputs])
            values.update(zip(step.outputs, (made,) if isinstance(made, Tensor) else made))
            for name in step.over:
                del values[name]
        return [values[name] for name in self.names]
