"""What the checks of real detectors share: the examples of docs/examples/detectors, how camd runs them, how its .npy
files are read, and which of a tensor's elements are compared. Needs nothing but Python's own library."""

import argparse
import array
import ast
import json
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
EXAMPLES = SOURCE / "docs/examples/detectors"
GOLDENS = Path(__file__).resolve().parent / "goldens"
SHARED = SOURCE.parent / "shared"
SAMPLES = 64  # elements of an output that are kept
EVERY = 50  # frames 0, 50 and 100 are compared
SKIP = 77  # the exit status that tests/detectors/CMakeLists.txt tells ctest


def skip(reason: str) -> None:
    """Ends the check as GoogleTest ends a skipped test, so that scripts/test_summary.py finds the reason."""
    print(f"{sys.argv[0]}:1: Skipped\n{reason}\n\n")
    sys.exit(SKIP)


def need_shared(shared: Path) -> None:
    if not (shared / "models").is_dir() or not (shared / "video").is_dir():
        skip("the real models and clips of ../shared are not here")


def parser_of(text: str) -> argparse.ArgumentParser:
    """The arguments that every check takes; `text` is its help."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("camd")
    parser.add_argument("example")
    parser.add_argument("--shared", type=Path, default=SHARED)
    return parser


def example_text(name: str) -> str:
    return (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")


def model_of(name: str) -> str:
    """The file name of the example's model."""
    return re.search(r"^  path: .*/([^/\s]+\.onnx)$", example_text(name), re.M).group(1)


def clip_of(name: str) -> str:
    return re.search(r"path: .*/([^/\s]+\.(?:mkv|mp4))", example_text(name)).group(1)


def run_example(camd: list[str], name: str, shared: Path, folder: Path, frames: int = 0, tensors: dict | None = None,
                settings: list[str] = ()) -> list[dict]:
    """Runs the example over its clip and returns its detection lines."""
    lines = folder / f"{name}.jsonl"
    command = [*camd, "--log", "error", "run", str(EXAMPLES / f"{name}.yaml"), "--metrics", "off",
               "--set", f"model.path={shared / 'models' / model_of(name)}",
               "--set", f"cameras.0.source.path={shared / 'video' / clip_of(name)}",
               "--set", f"postprocess.jsonl.config.path={lines}"]
    for setting in settings:
        command += ["--set", setting]
    if frames:
        command += ["--frames", str(frames)]
    if tensors is not None:
        command += ["--set", "postprocess.2=" + json.dumps({"plugin": "tensors", "config": tensors})]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    return [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]


def read_npy(path: Path) -> tuple[tuple[int, ...], array.array]:
    """Shape and elements of an f32 file in C order (numpy.org/doc/stable/reference/generated/numpy.lib.format.html)."""
    data = path.read_bytes()
    if data[:8] != b"\x93NUMPY\x01\x00":
        sys.exit(f"{path}: not a .npy file of version 1")
    end = 10 + int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10:end].decode("latin1"))
    if header["descr"] != "<f4" or header["fortran_order"]:
        sys.exit(f"{path}: not f32 in C order: {header}")
    values = array.array("f")
    values.frombytes(data[end:])
    return header["shape"], values


def file_name(tensor: str) -> str:
    """What the plug-in `tensors` makes of a tensor's name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", tensor)


def sampled(count: int) -> list[int]:
    """Which elements of an output are compared: spread evenly, in no step with any dimension."""
    if count <= SAMPLES:
        return list(range(count))
    return [i * 2654435761 % count for i in range(SAMPLES)]
