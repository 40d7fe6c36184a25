#!/usr/bin/env python3
"""Draws the plots of docs/performance.md from the measurement files in docs/measurements.

  python3 scripts/plots.py [--out docs/images]

Needs matplotlib (Debian: python3-matplotlib). The same matplotlib draws the same bytes. Each SVG names the files that
it was drawn from and their SHA-256 sums, so that tests/house/test_plots.py finds a plot that is out of date without
drawing it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MEASUREMENTS = ROOT / "docs/measurements"

# Okabe and Ito's colours, which people with any colour vision tell apart.
BLUE, SKY, GREEN, ORANGE, RED, PURPLE, GREY = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#999999"

STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "legend.frameon": False,
    # White, so that a page with a dark background shows black text on white as well.
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    # Text stays text, and ids are the same in every run.
    "svg.fonttype": "none",
    "svg.hashsalt": "camd",
}


def load(name: str) -> list[dict]:
    """The rows of a measurement file."""
    return json.loads((MEASUREMENTS / name).read_text(encoding="utf-8"))["rows"]


def source_of(names: tuple[str, ...]) -> str:
    """What an SVG says of where its figures come from: "NAME sha256:SUM" for each file."""
    return "; ".join(f"{name} sha256:{hashlib.sha256((MEASUREMENTS / name).read_bytes()).hexdigest()}" for name in names)


def rows_from_the_top(axes, names: list[str]) -> None:
    """Labels horizontal bars, the first row at the top."""
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#DDDDDD")


def bars_with_p99(axes, pairs: list[list[float]], colors: list[str], unit: str) -> None:
    """A bar to the p50 of each row, a mark at its p99, both written beside it."""
    widest = max(p99 for _, p99 in pairs)
    for y, ((p50, p99), color) in enumerate(zip(pairs, colors)):
        axes.barh(y, p50, color=color, height=0.62)
        axes.plot([p99, p99], [y - 0.31, y + 0.31], color="black", linewidth=1.5)
        axes.text(p99 + widest * 0.012, y, f"{p50:g} / {p99:g} {unit}", va="center")
    axes.set_xlim(0, widest * 1.2)


def latency(axes) -> None:
    rows = load("gpu-peers.json")
    bars_with_p99(axes, [row["host_to_host"] for row in rows],
                  [BLUE if row["program"] == "camd" else ORANGE for row in rows], "µs")
    rows_from_the_top(axes, [row["name"] for row in rows])
    axes.set_title("One frame, host to host, on one H200: p50 (bar) and p99 (mark)")
    axes.set_xlabel("microseconds; reference detector, BGR picture of 1280x720, all nine outputs read")


def stages(axes) -> None:
    rows = {row["strategy"]: row for row in load("gpu-strategies.json") if (row["pictures"], row["outputs"]) == ("NV12", "f16")}
    shown = ["pageable-sync", "pinned-async", "mapped", "graph", "graph-direct"]
    parts = [("h2d", "upload (h2d)", SKY), ("preprocess", "preprocessing", GREEN), ("network", "network", BLUE),
             ("d2h", "outputs back (d2h)", ORANGE)]
    for y, name in enumerate(shown):
        left = 0
        for key, label, color in parts:
            p50 = rows[name][key][0]
            axes.barh(y, p50, left=left, color=color, height=0.62, label=label if y == 0 else None)
            if p50 >= 14:
                axes.text(left + p50 / 2, y, f"{p50:g}", ha="center", va="center", color="white" if color == BLUE else "black")
            left += p50
        whole = rows[name]["host_to_host"][0]
        axes.barh(y, whole - left, left=left, color="#DDDDDD", height=0.62, label="the rest: launch, wait" if y == 0 else None)
        axes.text(whole + 4, y, f"{whole:g} µs", va="center")
    rows_from_the_top(axes, shown)
    axes.set_xlim(0, 450)
    axes.legend(ncol=5, loc="upper left", bbox_to_anchor=(-0.02, -0.2), columnspacing=1.2, handlelength=1.2)
    axes.set_title("Stages of a frame on one H200, p50 of each")
    axes.set_xlabel("microseconds; NV12 picture of 1280x720, f16 outputs")


def throughput(axes) -> None:
    rows = [row for row in load("gpu-strategies.json") if (row["pictures"], row["outputs"]) == ("NV12", "f16")]
    for y, row in enumerate(rows):
        rate = row["frames_per_second"]
        axes.barh(y, rate, color=BLUE if row["strategy"].startswith("graph") else SKY, height=0.62)
        axes.text(rate + 120, y, f"{rate:,}", va="center")
    rows_from_the_top(axes, [row["strategy"] for row in rows])
    axes.set_xlim(0, 15000)
    axes.set_title("Frames a second on one H200, three in flight")
    axes.set_xlabel("frames a second; NV12 pictures of 1280x720, f16 outputs, pictures already in their slots")


def cameras(axes) -> None:
    rows = load("gpu-cameras.json")
    bars_with_p99(axes, [row["total"] for row in rows], [BLUE] * len(rows), "µs")
    rows_from_the_top(axes, [f"{row['cameras']}\n({row['cpu_percent']:g} % of a core)" for row in rows])
    axes.set_title("Live cameras on one H200, capture to last plug-in: p50 (bar) and p99 (mark)")
    axes.set_xlabel("microseconds; cameras at so many frames a second, NV12 of 1280x720 from test sources")


def grouped(axes, names: list[str], groups: list[tuple[str, str, list[float]]], digits: int) -> None:
    """Vertical bars side by side: for each name one of every group."""
    width = 0.8 / len(groups)
    for i, (label, color, values) in enumerate(groups):
        places = [x + (i - (len(groups) - 1) / 2) * width for x in range(len(names))]
        bars = axes.bar(places, values, width=width * 0.94, color=color, label=label)
        axes.bar_label(bars, fmt=f"%.{digits}f", padding=1, fontsize=8)
    axes.set_xticks(range(len(names)), names)
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="y", color="#DDDDDD")
    axes.legend(ncol=len(groups), loc="upper left")


def detectors(axes) -> None:
    rows = load("gpu-detectors.json")
    grouped(axes, [row["detector"].replace(", ", "\n") for row in rows], [
        ("camd f16, direct", BLUE, [row["f16_direct"][0] for row in rows]),
        ("camd f32, direct", SKY, [row["f32_direct"][0] for row in rows]),
        ("PyTorch, the better of its two CUDA graphs", ORANGE, [row["torch"][0] for row in rows]),
    ], 0)
    axes.set_ylim(0, 1100)
    axes.set_title("Seven public detectors on an H200, host to host, p50")
    axes.set_ylabel("microseconds")


def cpu(axes) -> None:
    rows = load("cpu-detectors.json")
    grouped(axes, [f"{row['detector']}\n{row['input']}" for row in rows], [
        ("camd", BLUE, [row["camd"] for row in rows]),
        ("ONNX Runtime", ORANGE, [row["onnxruntime"] for row in rows]),
        ("OpenCV's DNN", GREY, [row["opencv"] for row in rows]),
    ], 1)
    axes.set_ylim(0, 88)
    axes.set_title("Seven public detectors on two cores of an AMD EPYC, the network alone, p50")
    axes.set_ylabel("milliseconds")


# Name of the SVG: what draws it, its measurement files, width and height in inches.
PLOTS = {
    "latency.svg": (latency, ("gpu-peers.json",), (9, 3.6)),
    "stages.svg": (stages, ("gpu-strategies.json",), (9, 3.2)),
    "throughput.svg": (throughput, ("gpu-strategies.json",), (9, 3.2)),
    "cameras.svg": (cameras, ("gpu-cameras.json",), (9, 3.0)),
    "detectors.svg": (detectors, ("gpu-detectors.json",), (9, 3.8)),
    "cpu.svg": (cpu, ("cpu-detectors.json",), (9, 3.8)),
}


def draw(folder: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as pyplot

    folder.mkdir(parents=True, exist_ok=True)
    for name, (paint, sources, size) in PLOTS.items():
        with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
            figure, axes = pyplot.subplots(figsize=size)
            paint(axes)
            figure.savefig(folder / name, format="svg", bbox_inches="tight", metadata={"Date": None, "Source": source_of(sources)})
            pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/images")
    draw(parser.parse_args().out)


if __name__ == "__main__":
    main()
