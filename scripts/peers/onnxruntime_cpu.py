"""camd's CPU engine beside ONNX Runtime's, on one machine in one run: the network alone, the same number of threads.

  python3 scripts/peers/onnxruntime_cpu.py [--camd build/release/bin/camd] [--threads 2] [--rounds 8] [--frames 30]
                                           MODEL...

The two take turns, round by round, so that what else the machine does meets both. Printed for each model: the least of
all runs, which a busy machine spoils last, and the middle of the rounds' medians, in milliseconds, and the ratios of
both (above 1: camd is faster). camd runs with all cores,
so give --threads as many as there are. Needs onnxruntime and numpy.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

WARM_UP = 3


def camd_ms(camd: str, model: str, width: int, height: int, frames: int) -> tuple[float, float]:
    """Least and median time of the network, as `camd bench` reports it."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [camd, "bench", "--model", model, "--device", "host", "--input", f"{width}x{height}", "--strategy",
                   "pinned-async", "--frames", str(frames), "--warmup", str(WARM_UP), "--json", report.name]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            sys.exit(f"camd bench failed on {model}: {ran.stderr.strip()}")
        times = json.loads(Path(report.name).read_text())["rows"][0]["infer_us"]
        return times["min"] / 1000, times["p50"] / 1000


def session_of(model: str, threads: int) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Spinning threads of a waiting session would take the cores away from camd's rounds.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def onnxruntime_ms(session: ort.InferenceSession, frames: int) -> tuple[float, float]:
    """Least and median time of run(): the network with fresh outputs, its input in place."""
    spec = session.get_inputs()[0]
    feed = {spec.name: np.zeros(spec.shape, np.float32)}
    times = []
    for i in range(frames + WARM_UP):
        begin = time.perf_counter()
        session.run(None, feed)
        if i >= WARM_UP:
            times.append((time.perf_counter() - begin) * 1000)
    return min(times), statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--camd", default="build/release/bin/camd")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--frames", type=int, default=30)
    arguments = parser.parse_args()

    print(f"onnxruntime {ort.__version__}, {arguments.threads} threads, {arguments.rounds} rounds of "
          f"{arguments.frames} frames; ms, least of all runs / middle of the rounds' medians")
    print(f"{'model':28} {'camd':>17} {'onnxruntime':>17} {'ratio':>13}")
    for model in arguments.models:
        session = session_of(model, arguments.threads)
        _, _, height, width = session.get_inputs()[0].shape
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            ours.append(camd_ms(arguments.camd, model, width, height, arguments.frames))
            theirs.append(onnxruntime_ms(session, arguments.frames))
        row = []
        for times in (ours, theirs):
            row.append((min(least for least, _ in times), statistics.median(middle for _, middle in times)))
        (our_least, our_middle), (their_least, their_middle) = row
        print(f"{Path(model).name:28} {our_least:7.2f} / {our_middle:7.2f} {their_least:7.2f} / {their_middle:7.2f} "
              f"{their_least / our_least:5.2f} / {their_middle / our_middle:5.2f}", flush=True)


if __name__ == "__main__":
    main()
