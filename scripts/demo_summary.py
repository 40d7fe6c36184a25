#!/usr/bin/env python3
"""Sums up a run from what it left: the detections of the built-in `jsonl` and, where there is one, the metrics.

usage: demo_summary.py DETECTIONS.jsonl [METRICS.jsonl]
"""

import json
import sys
from collections import Counter
from pathlib import Path


def lines_of(path: Path):
    """The JSON objects of a file; a last line that was cut off is left out."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                return


def percentile(sorted_values, part):
    """The smallest value that at least `part` of all values do not exceed (nearest rank)."""
    rank = max(1, -(-len(sorted_values) * part // 100))
    return sorted_values[int(rank) - 1]


def summary(detections, metrics):
    """Lines of text for two iterables of JSON objects."""
    latencies, seconds, frames_with, found = [], [], 0, Counter()
    for frame in detections:
        latencies.append(frame["latency_us"])
        seconds.append(frame["captured_mono_ns"] / 1e9)
        frames_with += bool(frame["detections"])
        found.update(d["class"] for d in frame["detections"])
    totals = {}
    for line in metrics:
        if line.get("event") == "stop":
            totals = {camera["camera"]: camera["totals"] for camera in line["cameras"]}

    text = []
    if not latencies:
        return ["  no frame was delivered"]
    span = max(seconds) - min(seconds)
    rate = f", {(len(seconds) - 1) / span:.1f} a second" if span > 0 else ""
    text.append(f"  frames      {len(latencies)} delivered{rate}")
    latencies.sort()
    text.append("  latency     p50 {:.1f} ms, p99 {:.1f} ms, from the capture stamp to the written line".format(
        percentile(latencies, 50) / 1000, percentile(latencies, 99) / 1000))
    classes = ", ".join(f"{count} {name}" for name, count in sorted(found.items())) or "none"
    text.append(f"  detections  {classes}; in {frames_with} of {len(latencies)} frames")
    for camera, total in totals.items():
        dropped = {reason: count for reason, count in total["dropped"].items() if count}
        reasons = ", ".join(f"{count} {reason}" for reason, count in dropped.items()) or "none"
        closes = total["captured"] == total["delivered"] + sum(total["dropped"].values()) + total["in_flight"]
        text.append(f"  accounting  {camera}: {total['captured']} captured = {total['delivered']} delivered + "
                    f"{sum(dropped.values())} dropped + {total['in_flight']} in flight"
                    f"{'' if closes else ' (DOES NOT ADD UP)'}; dropped: {reasons}")
    return text


def main(arguments):
    if not 1 <= len(arguments) <= 2 or arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if arguments in (["-h"], ["--help"]) else 2
    detections = Path(arguments[0])
    if not detections.exists():
        print(f"error: {detections}: there is no such file, nothing was detected", file=sys.stderr)
        return 1
    metrics = Path(arguments[1]) if len(arguments) == 2 else None
    has_metrics = metrics is not None and metrics.exists()
    for line in summary(lines_of(detections), lines_of(metrics) if has_metrics else ()):
        print(line)
    print(f"  lines       {detections}" + (f", {metrics}" if has_metrics else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
