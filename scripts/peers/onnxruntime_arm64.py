#!/usr/bin/env python3
"""Instructions and memory traffic of a network on 64-bit ARM, camd's CPU engine beside ONNX Runtime's, under qemu-user; one thread each.

  python3 scripts/peers/onnxruntime_arm64.py FOLDER [--cpu cortex-a76] [--bench build/arm64/bin/bench_infer] [--half f16,bf16] MODEL...

FOLDER: is made; ARM's Python from Debian and ONNX Runtime's wheel from PyPI go there, nothing is installed.
Printed: millions of instructions for one run, and of bytes that it loads and stores; the difference of 1 and 3 runs by two. With --half
camd in f32 and in those types, without ONNX Runtime; bf16 needs --cpu max. Needs qemu-user (which takes plug-ins; qemu-user-static
takes none), CAMD_ARM64_SYSROOT (docs/arm64.md) and a build with CAMD_BUILD_BENCHMARKS.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

VERSION = "1.31.1"
NUMPY = "2.2.6"
RUN = """
import sys, numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
spec = session.get_inputs()[0]
shape = [int(n) for n in sys.argv[3].split("x")]
picture = np.random.default_rng(1).uniform(0, 255, shape).astype(np.float32)
for _ in range(int(sys.argv[2])): session.run(None, {spec.name: picture})
"""
OPEN_SIZES = {"retinaface_mnet25": "1x3x320x320", "FastestDet": "1x3x352x352"}
# ONNX Runtime asks the machine which processor it has, and fails over that of the machine that emulates.
CPUINFO = """processor\t: 0
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x4
CPU part\t: 0xd0b
CPU revision\t: 1
"""


def call(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def prepare(folder: Path) -> None:
    """ARM's Python with ONNX Runtime in FOLDER/root, and the plug-in."""
    root = folder / "root"
    if not (root / "usr/bin/python3.11").exists():
        state = folder / "apt"
        for part in ("lists/partial", "cache/archives/partial"):
            (state / part).mkdir(parents=True, exist_ok=True)
        (state / "status").touch()
        options = ["-q", "-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64", "-o", f"Dir::State={state}",
                   "-o", f"Dir::State::status={state}/status", "-o", f"Dir::Cache={state}/cache",
                   "-o", "Debug::NoLocking=true"]
        call("apt-get", *options, "update")
        call("apt-get", *options, "install", "-y", "--no-install-recommends", "--download-only", "python3.11", "libstdc++6")
        for package in (state / "cache/archives").glob("*.deb"):
            call("dpkg-deb", "-x", package, root)
    modules = root / "usr/lib/python3/dist-packages"
    if not (modules / "onnxruntime").exists():
        call(sys.executable, "-m", "pip", "install", "-q", "--target", modules, "--only-binary=:all:", "--no-deps",
             "--platform", "manylinux_2_28_aarch64", "--platform", "manylinux_2_17_aarch64", "--platform", "any",
             "--python-version", "3.11", "--implementation", "cp", f"onnxruntime=={VERSION}", f"numpy=={NUMPY}")
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/cpuinfo").write_text(CPUINFO)
    (folder / "run.py").write_text(RUN)


def build_plugin(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    call("gcc", "-O2", "-shared", "-fPIC", "-o", folder / "count.so", Path(__file__).with_name("count_instructions.c"))


def count(folder: Path, cpu: str, root: Path, command: list[str], **environment: str) -> tuple[int, int]:
    """Instructions, and bytes loaded and stored, of one program from its start to its end."""
    ran = subprocess.run(["qemu-aarch64", "-cpu", cpu, "-plugin", f"{folder}/count.so,bytes=on", "-L", str(root), *command],
                         capture_output=True, text=True, check=False, env={**os.environ, **environment})
    found = counts_in(ran.stderr)
    if ran.returncode != 0 or not found:
        sys.exit(f"{' '.join(command)}\nended with {ran.returncode}:\n{ran.stderr[-2000:]}")
    return found[-1]


def counts_in(text: str) -> list[tuple[int, int]]:
    """Instructions and bytes as often as the plug-in has printed them."""
    return [(int(some), int(more)) for some, more in re.findall(r"^instructions: (\d+)\nbytes: (\d+)$", text, re.MULTILINE)]


def of_one_run(few: tuple[int, int], many: tuple[int, int]) -> tuple[float, float]:
    """Millions of each, from the counts of one run and of three."""
    return (many[0] - few[0]) / 2e6, (many[1] - few[1]) / 2e6


def onnxruntime(folder: Path, cpu: str, model: str, shape: str) -> tuple[float, float]:
    root = folder / "root"
    few, many = (count(folder, cpu, root, [str(root / "usr/bin/python3.11"), str(folder / "run.py"), model, str(n), shape],
                       PYTHONPATH=str(root / "usr/lib/python3/dist-packages")) for n in (1, 3))
    return of_one_run(few, many)


def bench(folder: Path, cpu: str, program: str, model: str, shape: str | None, **environment: str) -> tuple[float, float]:
    """With a least time of nothing, a benchmark does one iteration; CAMD_BENCH_RUNS says how many runs that has."""
    sysroot = Path(os.environ["CAMD_ARM64_SYSROOT"])
    size = {}
    if Path(model).stem in OPEN_SIZES:
        height, width = (shape or OPEN_SIZES[Path(model).stem]).split("x")[-2:]
        size = {"CAMD_BENCH_SIZE": f"{width}x{height}"}
    few, many = (count(folder, cpu, sysroot, [program, "--benchmark_filter=BM_Network/3/1/", "--benchmark_min_time=1e-9"],
                       CAMD_BENCH_MODEL=model, CAMD_BENCH_RUNS=str(n), **size, **environment) for n in (1, 3))
    return of_one_run(few, many)


def half(arguments: argparse.Namespace) -> None:
    environments = {"f32": {}} | {name: {"CAMD_BENCH_HALF": name} for name in arguments.half.split(",")}
    columns = "".join(f" {name:>9}" for name in environments)
    print(f"{arguments.cpu}; a run in millions\n{'':28}{'instructions':>{len(columns)}}{'bytes':>{len(columns)}}\n"
          f"{'model':28}{columns}{columns}")
    for model in arguments.models:
        pairs = [bench(arguments.folder, arguments.cpu, arguments.bench, model, None, **environment) for environment in environments.values()]
        print(f"{Path(model).name:28} " + " ".join(f"{pair[what]:9.1f}" for what in (0, 1) for pair in pairs), flush=True)


def preprocessing(folder: Path, cpu: str, program: str) -> None:
    """Millions of instructions for a picture of 1280x720 to a network's input, by format."""
    sysroot = Path(os.environ["CAMD_ARM64_SYSROOT"])
    for number, name in ((0, "BGR"), (2, "NV12"), (3, "I420"), (4, "YUY2"), (5, "GRAY8")):
        for width, height in ((640, 360), (1280, 720), (320, 180), (416, 416)):
            one = f"BM_Preprocess720p/{number}/{width}/{height}$"
            if subprocess.run(["qemu-aarch64", "-L", str(sysroot), program, "--benchmark_list_tests", f"--benchmark_filter={one}"],
                              capture_output=True, text=True, check=False).stdout.strip() == "":
                continue
            few, many = (count(folder, cpu, sysroot, [program, f"--benchmark_filter={one}", "--benchmark_min_time=1e-9"],
                               CAMD_BENCH_RUNS=str(n)) for n in (1, 3))
            print(f"{name:6} to {width}x{height} {of_one_run(few, many)[0]:9.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--cpu", default="cortex-a76")
    parser.add_argument("--bench", default="build/arm64/bin/bench_infer")
    parser.add_argument("--preprocessing", action="store_true", help="count camd's preprocessing as well")
    parser.add_argument("--half", metavar="TYPES", help="camd in these types beside f32, without ONNX Runtime: f16, bf16 or both")
    arguments = parser.parse_intermixed_args()
    build_plugin(arguments.folder)
    if arguments.half:
        return half(arguments)
    prepare(arguments.folder)
    if arguments.preprocessing:
        preprocessing(arguments.folder, arguments.cpu, arguments.bench)
    print(f"{arguments.cpu}, onnxruntime {VERSION}; a run in millions\n{'':28}{'instructions':>30}{'bytes':>30}\n"
          f"{'model':28}" + 2 * f" {'camd':>9} {'onnxruntime':>12} {'ratio':>6}")
    for model in arguments.models:
        shape = OPEN_SIZES.get(Path(model).stem) or model_shape(arguments.folder, model)
        ours = bench(arguments.folder, arguments.cpu, arguments.bench, model, shape)
        theirs = onnxruntime(arguments.folder, arguments.cpu, model, shape)
        columns = "".join(f" {mine:9.1f} {other:12.1f} {other / mine:6.2f}" for mine, other in zip(ours, theirs))
        print(f"{Path(model).name:28}{columns}", flush=True)


def model_shape(folder: Path, model: str) -> str:
    root = folder / "root"
    asked = ("import sys, onnxruntime; "
             "print('x'.join(map(str, onnxruntime.InferenceSession(sys.argv[1]).get_inputs()[0].shape)))")
    return subprocess.run(["qemu-aarch64", "-L", str(root), str(root / "usr/bin/python3.11"), "-c", asked, model],
                          capture_output=True, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": str(root / "usr/lib/python3/dist-packages")}).stdout.strip()


if __name__ == "__main__":
    main()
