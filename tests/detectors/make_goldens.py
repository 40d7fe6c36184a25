#!/usr/bin/env python3
"""Writes tests/detectors/goldens: what ONNX Runtime makes of real frames. Run it when an example or a model changes.

usage: make_goldens.py CAMD [EXAMPLE]...

Needs numpy and onnxruntime, which Debian does not carry, and ../shared:
  python3 -m venv /tmp/venv && /tmp/venv/bin/pip install numpy onnxruntime
  /tmp/venv/bin/python tests/detectors/make_goldens.py build/dev/bin/camd
`noise` is how far ONNX Runtime's outputs with and without its optimisations are apart: a sigmoid that is nowhere above
1e-3 has few digits to agree in. The network's input comes from camd itself (its plug-in `tensors`), so that the two differ in the network alone. Prints
how far camd's outputs are from ONNX Runtime's over all elements.
"""

import json
import sys
import tempfile
from pathlib import Path

import detectors
import numpy as np
import onnxruntime


def yolox(outputs: dict, score: float) -> bool:
    """Whether some cell's best class is person (0) with obj * class >= score (Megvii-BaseDetection/YOLOX)."""
    rows = outputs["output"][0]
    return bool(np.any((rows[:, 5:].argmax(1) == 0) & (rows[:, 4] * rows[:, 5] >= score)))


def nanodet(outputs: dict, score: float) -> bool:
    """Whether some cell has a person (0) with at least that score (RangiLyu/nanodet: classes are independent)."""
    return any(bool(np.any(outputs[f"cls_pred_stride_{s}"][0, :, 0] >= score)) for s in (8, 16, 32))


FINDS_PERSON = {"yolox": (yolox, 0.3), "nanodet": (nanodet, 0.35)}


def runs(frames: list[int]) -> list[list[int]]:
    """[1, 2, 3, 7] as [[1, 3], [7, 7]]."""
    result: list[list[int]] = []
    for frame in frames:
        if result and result[-1][1] == frame - 1:
            result[-1][1] = frame
        else:
            result.append([frame, frame])
    return result


def open_session(example: str, optimised: bool) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3  # weights listed as inputs are one warning each
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(detectors.SHARED / "models" / detectors.model_of(example)), options,
                                        providers=["CPUExecutionProvider"])


def make(camd: str, example: str) -> None:
    session, plain = (open_session(example, optimised) for optimised in (True, False))
    source = session.get_inputs()[0].name
    names = [output.name for output in session.get_outputs()]
    golden: dict = {"outputs": {}}
    worst = 0.0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        lines = detectors.run_example([camd], example, detectors.SHARED, folder, tensors={
            "dir": str(folder / "npy"), "every": 1 if example in FINDS_PERSON else detectors.EVERY,
            "outputs": names if example not in FINDS_PERSON else names[:1]})
        golden["frames"] = len(lines)
        if example in FINDS_PERSON:
            detectors.run_example([camd], example, detectors.SHARED, folder, frames=2 * detectors.EVERY + 1, tensors={
                "dir": str(folder / "npy"), "every": detectors.EVERY})
        people = []
        for file in sorted((folder / "npy").glob(f"*.{detectors.file_name(source)}.npy")):
            frame = int(file.name[:6])
            outputs = dict(zip(names, session.run(None, {source: np.load(file)})))
            if example in FINDS_PERSON:
                decode, score = FINDS_PERSON[example]
                if decode(outputs, score):
                    people.append(frame)
            if frame % detectors.EVERY or frame > 2 * detectors.EVERY:
                continue
            golden["outputs"][frame] = {}
            again = dict(zip(names, plain.run(None, {source: np.load(file)})))
            for name, want in outputs.items():
                largest = float(np.abs(want).max())
                got = np.load(folder / "npy" / f"{frame:06}.{detectors.file_name(name)}.npy")
                noise = float(np.abs(again[name] - want).max()) / largest
                error = float(np.abs(got - want).max()) / largest
                worst = max(worst, error)
                if error > 1e-4:
                    print(f"  frame {frame}: {name}, at most {largest:.1e}, differs by {error:.1e}; ONNX Runtime with and "
                          f"without its optimisations by {noise:.1e}")
                flat = want.ravel()
                golden["outputs"][frame][name] = {
                    "shape": list(want.shape), "largest": float(f"{largest:.7g}"),
                    "noise": float(f"{noise:.1e}"),
                    "values": [float(f"{flat[i]:.7g}") for i in detectors.sampled(flat.size)]}
        if example in FINDS_PERSON:
            golden["person"] = runs(people)
    text = json.dumps(golden).replace('}, "', '},\n"')
    (detectors.GOLDENS / f"{example}.json").write_text(text + "\n", encoding="utf-8")
    print(f"{example}: camd's outputs differ from ONNX Runtime's by at most {worst:.1e} of the largest value; "
          f"{golden['frames']} frames", flush=True)


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    for example in sys.argv[2:] or sorted(path.stem for path in detectors.EXAMPLES.glob("*.yaml")):
        make(sys.argv[1], example)


main()
