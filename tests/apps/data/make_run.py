#!/usr/bin/env python3
"""Writes run.jsonl: a made-up run of three cameras over forty periods, exact to docs/metrics.md.

The numbers are invented but consistent: in every line captured == delivered + dropped + in_flight.
Deterministic: running it again gives the same file.
"""
import json
import random
import sys

STAGES = {"capture": 900, "queue": 300, "h2d": 56, "preprocess": 40, "infer": 300, "d2h": 23, "postprocess": 420}
REASONS = ["superseded", "too_old", "source_error", "device_error", "plugin_error", "shutdown"]
START_NS = 5_000_000_000_000
PERIODS = 40


def line(event, period, **fields):
    seconds = 30 + period
    time = f"2026-11-21T12:{seconds // 60:02}:{seconds % 60:02}.000Z"
    record = {"event": event, "schema": 1, "time": time, "mono_ns": START_NS + period * 1_000_000_000, **fields}
    sys.stdout.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")


def latency(rng, count, load):
    if count == 0:
        zero = {"count": 0, "p50": 0, "p90": 0, "p99": 0, "p999": 0, "max": 0}
        return {stage: dict(zero) for stage in ["total", *STAGES]}
    out = {}
    for stage, base in STAGES.items():
        p50 = base * load * rng.uniform(0.95, 1.05)
        spread = 4.0 if stage == "queue" else 1.3
        p90, p99 = p50 * (1 + (spread - 1) * 0.4), p50 * spread
        out[stage] = [p50, p90, p99, p99 * 1.1, p99 * 1.2]
    total = [sum(values[i] for values in out.values()) for i in range(5)]
    keys = ["p50", "p90", "p99", "p999", "max"]
    named = {"total": total, **out}
    return {stage: {"count": count, **dict(zip(keys, (round(v, 1) for v in values)))}
            for stage, values in named.items()}


def main():
    rng = random.Random(1)
    cameras = {name: {"captured": 0, "delivered": 0, "dropped": dict.fromkeys(REASONS, 0), "state": "starting"}
               for name in ["door", "Einfahrt Süd", "倉庫カメラ"]}
    line("start", 0, version="0.1.0", device="NVIDIA H200", engine="cuda",
         model={"path": "models/marker.onnx", "sha256": "0" * 64,
                "inputs": [{"name": "input", "shape": [1, 3, 360, 640], "type": "f32"}],
                "outputs": [{"name": f"{kind}_{stride}", "shape": [1, -1, n], "type": "f32"}
                            for stride in (8, 16, 32) for kind, n in (("class", 2), ("box", 4), ("keypoint", 8))]},
         transfer="pinned", streams="split", choice="a 720p frame: pinned 56 us, mapped 240 us, pageable 194 us",
         config_sha256="1" * 64)
    for name, cam in cameras.items():
        line("state", 0, camera=name, state="running", reason="first frame")
        cam["state"] = "running"
    for period in range(1, PERIODS + 1):
        for index, (name, cam) in enumerate(cameras.items()):
            stalled = index == 1 and 20 <= period < 26
            if index == 1 and period in (20, 26):
                cam["state"] = "stalled" if stalled else "running"
                line("state", period, camera=name, state=cam["state"],
                     reason="no frame for 2.0 s" if stalled else "frames again after 6.1 s")
            captured = 0 if stalled else 30
            late = rng.choice([0, 0, 0, 0, 1]) if captured and index != 2 else 0
            cam["captured"] += captured
            cam["dropped"]["superseded"] += late
            if index == 1 and period == 26:
                cam["dropped"]["too_old"] += 2
                late += 2
            in_flight = 0 if stalled or period == PERIODS else 1
            before = cam["delivered"]
            cam["delivered"] = cam["captured"] - sum(cam["dropped"].values()) - in_flight
            count = cam["delivered"] - before
            load = (1 + index * 0.4) * (2.5 if period in (12, 13) else 1)
            line("camera", period, camera=name, state=cam["state"], period_s=1.0,
                 totals={"captured": cam["captured"], "delivered": cam["delivered"], "in_flight": in_flight,
                         "dropped": dict(cam["dropped"])},
                 fps={"captured": float(captured), "delivered": float(count)},
                 latency_us=latency(rng, count, load),
                 bytes_per_frame={"h2d": 2764800 if captured else 0, "d2h": 230400 if captured else 0})
        line("process", period, cpu_percent=round(rng.uniform(30, 40), 1), rss_bytes=312_000_000 + period * 1000,
             gpu_memory_bytes=1_240_000_000, threads=14)
    totals = [{"captured": c["captured"], "delivered": c["delivered"], "in_flight": 0, "dropped": c["dropped"]}
              for c in cameras.values()]
    summed = {key: sum(t[key] for t in totals) for key in ["captured", "delivered", "in_flight"]}
    summed["dropped"] = {reason: sum(t["dropped"][reason] for t in totals) for reason in REASONS}
    line("stop", PERIODS + 1, exit_code=0, reason="every source has ended", uptime_s=41.0, totals=summed,
         cameras=[{"camera": name, "totals": t} for name, t in zip(cameras, totals)])


main()
