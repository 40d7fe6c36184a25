"""camd's CPU engine beside ONNX Runtime and OpenVINO, on one machine in one run: the network alone, the same number of threads, f32.

  python3 scripts/peers/cpu_engines.py [--camd build/release/bin/camd] [--threads 2] [--rounds 8] [--frames 30] MODEL[@WxH]...

They take turns, round by round, so that what else the machine does meets all. Printed for each model: the least of
all runs, which a busy machine spoils last, and the middle of the rounds' medians, in milliseconds, and the ratios of
both (above 1: camd is faster). WxH is for models that leave their input's size open. Before that, one run of each: how far
camd's outputs are from ONNX Runtime's, as a share of each output's largest value or, where that is below 1, as it is. camd runs on as many
processors as --threads says. Needs onnxruntime, numpy and, where it is installed, openvino.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/detectors"))
import detectors  # noqa: E402

try:
    import openvino
except ImportError:
    openvino = None

WARM_UP = 3


def camd_ms(camd: str, model: str, shape: list[int], threads: int, frames: int) -> tuple[float, float]:
    """Least and median time of the network, as `camd bench` reports it."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [camd, "bench", "--model", model, "--device", "host", "--input", f"{shape[3]}x{shape[2]}", "--strategy",
                   "pinned-async", "--frames", str(frames), "--warmup", str(WARM_UP), "--json", report.name]
        ran = subprocess.run(command, capture_output=True, text=True, check=False,
                             preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads]))
        if ran.returncode != 0:
            sys.exit(f"camd bench failed on {model}: {ran.stderr.strip()}")
        times = json.loads(Path(report.name).read_text())["rows"][0]["infer_us"]
        return times["min"] / 1000, times["p50"] / 1000


def onnxruntime_run(model: str, shape: list[int], threads: int):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Spinning threads of a waiting session would take the cores away from the others' rounds.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: np.zeros(shape, np.float32)}
    return lambda: session.run(None, feed)


def openvino_run(model: str, shape: list[int], threads: int):
    core = openvino.Core()
    network = core.read_model(model)
    network.reshape({network.input(0): shape})
    compiled = core.compile_model(network, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
                                                   "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    request.set_input_tensor(openvino.Tensor(np.zeros(shape, np.float32)))
    return request.infer


def peer_ms(run, frames: int) -> tuple[float, float]:
    """Least and median time of a run: the network, its input in place."""
    times = []
    for i in range(frames + WARM_UP):
        begin = time.perf_counter()
        run()
        if i >= WARM_UP:
            times.append((time.perf_counter() - begin) * 1000)
    return min(times), statistics.median(times)


def farthest(camd: str, model: str, shape: list[int], spec: list[str]) -> float:
    """The largest difference of an output's element from ONNX Runtime's, on one picture."""
    with tempfile.TemporaryDirectory() as folder:
        configuration = {
            "device": "host", "cameras": [{"name": "a", "source": {"type": "test", "frames": 1, "width": shape[3], "height": shape[2]}}],
            "model": {"path": str(Path(model).resolve()), "input": {"width": shape[3], "height": shape[2]}},
            "postprocess": [{"plugin": "tensors", "config": {"dir": f"{folder}/npy"}}]}
        Path(folder, "c.yaml").write_text(json.dumps(configuration))
        ran = subprocess.run([camd, "run", f"{folder}/c.yaml", "--metrics", "off"], capture_output=True, text=True, check=False)
        session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        source = session.get_inputs()[0].name
        if ran.returncode != 0:
            sys.exit(f"camd run failed on {model}: {ran.stderr.strip()[-500:]}")
        found = {name: np.load(path) for name in [*names, source]
                 for path in Path(folder, "npy").glob(f"*.{detectors.file_name(name)}.npy")}
        worst = 0.0
        for name, want in zip(names, session.run(None, {source: found[source]})):
            if name not in found:
                spec.append(name)
                continue
            got = found[name].reshape(want.shape)
            worst = max(worst, float(np.abs(got - want).max() / max(np.abs(want).max(), 1.0)))
        return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL[@WxH]")
    parser.add_argument("--camd", default="build/release/bin/camd")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--frames", type=int, default=30)
    arguments = parser.parse_args()
    ort.set_default_logger_severity(3)

    print(f"onnxruntime {ort.__version__}, openvino {openvino.__version__.split('-')[0] if openvino else 'none'}, {arguments.threads} threads, "
          f"{arguments.rounds} rounds of {arguments.frames} frames; ms, least of all runs / middle of the rounds' medians")
    print("| model | input | camd | ONNX Runtime | OpenVINO | ONNX Runtime / camd | OpenVINO / camd | farthest |\n"
          "|---|---|---|---|---|---|---|---|")
    for model in arguments.models:
        model, _, size = model.partition("@")
        shape = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).get_inputs()[0].shape
        if size:
            width, height = map(int, size.split("x"))
            shape = [1, 3, height, width]
        untold: list[str] = []
        off = farthest(arguments.camd, model, shape, untold)
        peers = [onnxruntime_run(model, shape, arguments.threads)]
        if openvino is not None:
            peers.append(openvino_run(model, shape, arguments.threads))
        rounds: list[list[tuple[float, float]]] = [[] for _ in range(len(peers) + 1)]
        for _ in range(arguments.rounds):
            rounds[0].append(camd_ms(arguments.camd, model, shape, arguments.threads, arguments.frames))
            for times, run in zip(rounds[1:], peers):
                times.append(peer_ms(run, arguments.frames))
        rows = [(min(least for least, _ in times), statistics.median(middle for _, middle in times)) for times in rounds]
        cells = [f"{least:.2f} / {middle:.2f}" for least, middle in rows] + [""] * (2 - len(peers))
        ratios = [f"{least / rows[0][0]:.2f} / {middle / rows[0][1]:.2f}" for least, middle in rows[1:]] + [""] * (2 - len(peers))
        print(f"| {Path(model).stem} | {shape[3]}x{shape[2]} | {' | '.join(cells + ratios)} | {off:.1e} |", flush=True)
        if untold:
            print(f"not compared: {', '.join(untold)}", file=sys.stderr)


if __name__ == "__main__":
    main()
