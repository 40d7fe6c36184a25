#!/usr/bin/env python3
"""Whole networks on 64-bit ARM, under qemu-user, beside ONNX Runtime on this machine, on real pictures.

  /tmp/venv/bin/python scripts/peers/parity_arm64.py CAMD FOLDER [--program build/arm64/bin/run_model] [--half f16|bf16] [--native] [--count] [EXAMPLE | MODEL.onnx]...

--native: PROGRAM is one of this machine (build/dev/bin/run_model) and runs without an emulator.
--count: millions of instructions of one frame as well, and of bytes that they load and store (count_instructions.c), so that a trial of half precision
that takes minutes serves both. Needs qemu-user, as qemu-user-static takes no plug-in.
CAMD: of this machine; it decodes the clips and makes the networks' inputs (its plug-in `tensors`), frames 0, 50 and 100.
EXAMPLE: of docs/examples/detectors; a model without an example gets BGR from 0 to 255, stretched. Without either: all
examples and the reference detector. Each output is compared whole, relative to its largest value; `noise` is how far
ONNX Runtime's outputs with and without its optimisations are apart. FOLDER keeps the inputs, so that a second call
begins with the networks. Exit 1 where a difference is above 1e-4 and that noise; with --half, in that type, above 0.04 of the
output's largest value. Needs ../shared,
CAMD_ARM64_SYSROOT (docs/arm64.md), a build with CAMD_BUILD_BENCHMARKS, and numpy and onnxruntime:
  python3 -m venv /tmp/venv && /tmp/venv/bin/pip install numpy onnxruntime
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import onnxruntime_arm64

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/detectors"))
import detectors  # noqa: E402  (its folder is named above)

REFERENCE = "marker-640x360"
TOLERANCE = 1e-4
HALF_TOLERANCE = 4e-2


def open_session(model: Path, optimised: bool) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # weights listed as inputs are one warning each
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def run_plain(camd: str, model: Path, clip: Path, settings: dict, folder: Path) -> None:
    """The inputs that camd makes for a model without an example."""
    config = {"device": "host", "model": {"path": str(model), "input": settings},
              "cameras": [{"name": "clip", "source": {"type": "file", "path": str(clip), "realtime": False}}],
              "postprocess": [{"plugin": "tensors", "config": {"dir": str(folder), "every": detectors.EVERY}}]}
    file = folder.parent / f"{folder.name}.yaml"
    file.write_text(json.dumps(config), encoding="utf-8")
    subprocess.run([camd, "--log", "error", "run", str(file), "--metrics", "off", "--frames",
                    str(2 * detectors.EVERY + 1)], check=True)


def make_inputs(camd: str, name: str, model: Path, source: str, folder: Path) -> list[Path]:
    wanted = [folder / f"{frame:06}.{detectors.file_name(source)}.npy" for frame in range(0, 101, detectors.EVERY)]
    if not all(file.exists() for file in wanted):
        folder.parent.mkdir(parents=True, exist_ok=True)
        if (detectors.EXAMPLES / f"{name}.yaml").exists():
            detectors.run_example([camd], name, detectors.SHARED, folder.parent, frames=2 * detectors.EVERY + 1,
                                  tensors={"dir": str(folder), "every": detectors.EVERY}, settings=["device=host"])
        elif name == REFERENCE:
            run_plain(camd, model, SOURCE / "models/demo/demo.mp4", {}, folder)
        else:
            run_plain(camd, model, detectors.SHARED / "video/one-by-one-person-detection.mp4",
                      {"color": "bgr", "scale": 1, "resize": "stretch"}, folder)
    return wanted


def compare(arguments: argparse.Namespace, name: str) -> bool:
    if name.endswith(".onnx"):
        model, name = Path(name), Path(name).stem
    elif name == REFERENCE:
        model = SOURCE / f"models/{REFERENCE}.onnx"
    else:
        model = detectors.SHARED / "models" / detectors.model_of(name)
    session, plain = (open_session(model, optimised) for optimised in (True, False))
    source = session.get_inputs()[0].name
    names = [output.name for output in session.get_outputs()]
    emulator = ["qemu-aarch64", "-plugin", f"{arguments.folder}/count.so,bytes=on"] if arguments.count else ["qemu-aarch64-static"]
    qemu = [] if arguments.native else [*emulator, "-cpu", arguments.cpu, "-L", os.environ["CAMD_ARM64_SYSROOT"]]
    worst, noise, elements, within = 0.0, 0.0, 0, True
    files = make_inputs(arguments.camd, name, model, source, arguments.folder / name)
    pictures = [np.load(file) for file in files]
    raw, made = arguments.folder / f"{name}.f32", arguments.folder / f"{name}.arm64.f32"
    np.stack(pictures).astype("<f4").tofile(raw)
    # All of them at once, as the engine's trial of half precision takes minutes under emulation.
    ran = subprocess.run([*qemu, arguments.program, str(model), str(pictures[0].shape[3]), str(pictures[0].shape[2]), str(raw),
                          str(made), *([arguments.half] if arguments.half else [])], check=False, stderr=subprocess.PIPE, text=True)
    print(*(line for line in ran.stderr.splitlines() if not re.match("(instructions|bytes): ", line)), sep="\n", end="", file=sys.stderr)
    if ran.returncode != 0:
        sys.exit(f"{arguments.program} ended with {ran.returncode}")
    got, at = np.fromfile(made, "<f4"), 0
    for file, picture in zip(files, pictures):
        for output, want, again in zip(names, session.run(None, {source: picture}), plain.run(None, {source: picture})):
            part = got[at:at + want.size].reshape(want.shape)
            at += want.size
            largest = float(np.abs(want).max())
            error, apart = (float(np.abs(other - want).max()) / largest for other in (part, again))
            worst, noise, elements = max(worst, error), max(noise, apart), elements + want.size
            if not error <= (HALF_TOLERANCE if arguments.half else TOLERANCE) + apart:
                within = False
                print(f"  {file.name}: {output}, at most {largest:.1e}, differs by {error:.1e}, the noise is {apart:.1e}")
    if at != got.size:
        sys.exit(f"{model}: {got.size} numbers, not {at}")
    counted = ""
    if arguments.count:
        marks = onnxruntime_arm64.counts_in(ran.stderr)  # before and after each frame, and at the end
        counted = "".join(f" {(marks[1][what] - marks[0][what]) / 1e6:.1f} |" for what in (0, 1))
    print(f"| {name} | {elements} | {worst:.1e} | {noise:.1e} |{counted}", flush=True)
    return within


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("camd")
    parser.add_argument("folder", type=Path)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--cpu", default="cortex-a76")
    parser.add_argument("--program", default="build/arm64/bin/run_model")
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--half", choices=["f16", "bf16"])
    parser.add_argument("--count", action="store_true")
    arguments = parser.parse_intermixed_args()
    if arguments.count:
        onnxruntime_arm64.build_plugin(arguments.folder)
    counted = " instructions | bytes |" if arguments.count else ""
    print(f"| network | elements of 3 frames | worst difference | ONNX Runtime {onnxruntime.__version__}'s own |{counted}")
    networks = arguments.networks or [REFERENCE, *sorted(path.stem for path in detectors.EXAMPLES.glob("*.yaml"))]
    return 0 if all([compare(arguments, name) for name in networks]) else 1


if __name__ == "__main__":
    sys.exit(main())
