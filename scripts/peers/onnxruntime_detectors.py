#!/usr/bin/env python3
"""Times the detectors of docs/examples/detectors in camd's engines of the host and in ONNX Runtime, one after the other.

usage: onnxruntime_detectors.py CAMD [--frames N] [--threads N] [EXAMPLE]...

Prints the figures of docs/measurements/cpu-detectors.json: the network alone, p50 in milliseconds. Needs ../shared, numpy and onnxruntime
(PyPI, in a virtual environment). camd's engines use all cores: run it under `taskset` for fewer.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/detectors"))
import detectors  # noqa: E402


def network_size(example: str, session: onnxruntime.InferenceSession) -> tuple[int, int]:
    """Width and height: the model's, or where it leaves them open the example's."""
    shape = session.get_inputs()[0].shape
    if isinstance(shape[2], int):
        return shape[3], shape[2]
    said = re.search(r"width: (\d+), height: (\d+)", detectors.example_text(example))
    return int(said.group(1)), int(said.group(2))


def time_onnxruntime(session: onnxruntime.InferenceSession, width: int, height: int, frames: int) -> float:
    picture = np.random.default_rng(1).uniform(0, 255, (1, 3, height, width)).astype(np.float32)
    source = session.get_inputs()[0].name
    times = []
    for _ in range(frames + 5):
        start = time.perf_counter()
        session.run(None, {source: picture})
        times.append(time.perf_counter() - start)
    return statistics.median(times[5:]) * 1000


def time_camd(camd: str, model: Path, engine: str, size: tuple[int, int], frames: int) -> float:
    with tempfile.NamedTemporaryFile(suffix=".json") as rows:
        command = [camd, "--log", "error", "bench", "--model", str(model), "--device", "host", "--engine", engine, "--input",
                   f"{size[0]}x{size[1]}", "--strategy", "pinned-async", "--frames", str(frames), "--warmup", "5",
                   "--json", rows.name]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
        return json.loads(Path(rows.name).read_text(encoding="utf-8"))["rows"][0]["infer_us"]["p50"] / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("camd")
    parser.add_argument("examples", nargs="*")
    parser.add_argument("--frames", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2, help="of ONNX Runtime")
    arguments = parser.parse_intermixed_args()
    print(f"ONNX Runtime {onnxruntime.__version__}, {arguments.threads} threads, {arguments.frames} frames\n")
    print("| detector | input | cpu | opencv | ONNX Runtime |\n|---|---|---|---|---|")
    for example in arguments.examples or sorted(path.stem for path in detectors.EXAMPLES.glob("*.yaml")):
        model = detectors.SHARED / "models" / detectors.model_of(example)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = arguments.threads
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        size = network_size(example, session)
        ours = [time_camd(arguments.camd, model, engine, size, arguments.frames) for engine in ("cpu", "opencv")]
        theirs = time_onnxruntime(session, *size, arguments.frames)
        print(f"| {example} | {size[0]}x{size[1]} | {ours[0]:.1f} | {ours[1]:.1f} | {theirs:.1f} |", flush=True)


if __name__ == "__main__":
    main()
