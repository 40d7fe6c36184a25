#!/usr/bin/env python3
"""Quantised networks on camd's CPU engine beside ONNX Runtime: how far their outputs are apart, on real pictures.

  /tmp/venv/bin/python scripts/peers/quantised.py FOLDER --clip ../shared/video/one-by-one-person-detection.mp4 \\
    --run 'bytes=build/dev/bin/run_model' MODEL[@WxH[xSCALE]]...

A model that is quantised already (QDQ) is taken as it is; another one is quantised into FOLDER by onnxruntime's
quantize_static: QDQ, weights of 8 bits with a scale for each channel, calibrated on four frames of the clip; --per-tensor
gives weights one scale. WxH and SCALE: of the input, where the model leaves the size open, and what pixels from 0 to 255 are
multiplied by (1). --run, repeated: a name and a command that takes what run_model takes, as 'f32=qemu-aarch64-static -cpu
cortex-a53 -L SYSROOT build/arm64/bin/run_model'. Frames 0, 50 and 100. Printed for each pair: the worst element and the mean
of all, as shares of the output's largest value, of the output where they are most. `plain` is ONNX Runtime without its
optimisations. Needs numpy, onnx, onnxruntime and opencv-python.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shlex
import subprocess
from pathlib import Path

import cv2
import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

OPSET = 13  # the first in which weights have a scale for each channel


def pictures(clip: Path, numbers: list[int], width: int, height: int, scale: float) -> list[np.ndarray]:
    video = cv2.VideoCapture(str(clip))
    taken = []
    for number in numbers:
        video.set(cv2.CAP_PROP_POS_FRAMES, number)
        ok, frame = video.read()
        if not ok:
            raise SystemExit(f"{clip} has no frame {number}")
        taken.append(cv2.resize(frame, (width, height)).transpose(2, 0, 1)[None].astype(np.float32) * np.float32(scale))
    return taken


class Frames(CalibrationDataReader):
    def __init__(self, name: str, frames: list[np.ndarray]) -> None:
        self.rest = iter([{name: frame} for frame in frames])

    def get_next(self) -> dict | None:
        return next(self.rest, None)


def quantise(model: onnx.ModelProto, path: Path, folder: Path, frames: list[np.ndarray], per_channel: bool) -> Path:
    if any(node.op_type == "QuantizeLinear" for node in model.graph.node):
        return path
    weights = {weight.name for weight in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    for dim, size in zip(inputs[0].type.tensor_type.shape.dim, frames[0].shape, strict=True):
        dim.dim_value = size
    # Weights that are listed as inputs are no constants to ONNX Runtime.
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    if model.opset_import[0].version < OPSET:
        model = onnx.version_converter.convert_version(model, OPSET)
    prepared, result = folder / f"{path.stem}.prepared.onnx", folder / f"{path.stem}_qdq.onnx"
    onnx.save(model, prepared)
    quant_pre_process(str(prepared), str(prepared), skip_symbolic_shape=True)
    quantize_static(str(prepared), str(result), Frames(inputs[0].name, frames), quant_format=QuantFormat.QDQ,
                    per_channel=per_channel, weight_type=QuantType.QInt8)
    return result


def onnxruntime_outputs(model: Path, frames: list[np.ndarray], optimised: bool) -> list[list[np.ndarray]]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return [session.run(None, {name: frame}) for frame in frames]


def camd_outputs(command: str, model: Path, folder: Path, frames: list[np.ndarray], like: list[np.ndarray]) -> list[list[np.ndarray]]:
    results = []
    for frame in frames:
        given, made = folder / "input.bin", folder / "output.bin"
        frame.tofile(given)
        height, width = frame.shape[2:]
        subprocess.run([*shlex.split(command), str(model), str(width), str(height), str(given), str(made)], check=True)
        values = np.split(np.fromfile(made, np.float32), np.cumsum([output.size for output in like])[:-1])
        results.append([part.reshape(output.shape) for part, output in zip(values, like, strict=True)])
    return results


def apart(some: list[list[np.ndarray]], others: list[list[np.ndarray]]) -> tuple[float, float]:
    worst = mean = 0.0
    for index in range(len(some[0])):
        largest = max(np.abs(frame[index]).max() for frame in others)
        differences = [np.abs(a[index] - b[index]) / largest for a, b in zip(some, others, strict=True)]
        worst = max(worst, *(d.max() for d in differences))
        mean = max(mean, float(np.mean([d.mean() for d in differences])))
    return worst, mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--clip", type=Path, required=True)
    parser.add_argument("--run", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--per-tensor", action="store_true")
    arguments = parser.parse_intermixed_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for given in arguments.models:
        name, _, size = given.partition("@")
        path, model = Path(name), onnx.load(name)
        asked = re.fullmatch(r"(\d+)x(\d+)(?:x([\d.]+))?", size)
        dims = model.graph.input[0].type.tensor_type.shape.dim
        width, height = (int(asked[1]), int(asked[2])) if asked else (dims[3].dim_value, dims[2].dim_value)
        scale = float(asked[3]) if asked and asked[3] else 1.0
        calibration = pictures(arguments.clip, [0, 25, 50, 75], width, height, scale)
        quantised = quantise(model, path, arguments.folder, calibration, not arguments.per_tensor)
        frames = pictures(arguments.clip, [0, 50, 100], width, height, scale)
        outputs = {"ONNX Runtime": onnxruntime_outputs(quantised, frames, True), "plain": onnxruntime_outputs(quantised, frames, False)}
        for run in arguments.run:
            label, _, command = run.partition("=")
            outputs[f"camd {label}"] = camd_outputs(command, quantised, arguments.folder, frames, outputs["plain"][0])
        print(quantised)
        for one, other in itertools.combinations(outputs, 2):
            worst, mean = apart(outputs[one], outputs[other])
            print(f"  {one:14} {other:14} worst {worst:.3f}  mean {mean:.5f}", flush=True)


if __name__ == "__main__":
    main()
