"""Random faults from a seed on one camd for as long as wanted, and whether anything grows all the while.

What may grow is sampled twice a second while camd is well: resident memory, descriptors, threads, and the latency's p99
of the cameras beside. After a warm-up, blocks of samples are averaged, because neighbours depend on each other, and a
line is laid through the means by least squares. Something grows when the slope is above 0 with 99 % confidence
(Student's t) and what it comes to over the whole run is more than the bound.
"""

import json
import math
import signal
import time
from dataclasses import dataclass

from bench import FPS_BESIDE, Bench, Case
from parts import now_ns, percentile, wait_until

BLOCKS = 30
WARM_UP = 0.15           # of the run
BOUNDS = {"rss_kib": 8 * 1024, "descriptors": 1, "threads": 1, "latency_us": 5000}


@dataclass
class Slope:
    growth: float      # over the whole span
    uncertain: float   # half of the confidence interval
    blocks: int

    def grows(self, bound):
        return self.growth - self.uncertain > 0 and self.growth > bound


def student_t(degrees):
    """The one-sided 99 % quantile of Student's t (Abramowitz and Stegun, 26.7.5)."""
    z = 2.3263479
    terms = ((z ** 3 + z) / 4, (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
             (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384)
    return z + sum(term / degrees ** (power + 1) for power, term in enumerate(terms))


def slope(times, values, blocks=BLOCKS):
    """How much the values grow over the span of the times; None for less than four blocks of samples."""
    size = max(1, len(times) // blocks)
    means = [(sum(times[i:i + size]) / size, sum(values[i:i + size]) / size)
             for i in range(0, len(times) - size + 1, size)]
    count = len(means)
    if count < 4:
        return None
    mean_x = sum(x for x, _ in means) / count
    mean_y = sum(y for _, y in means) / count
    spread = sum((x - mean_x) ** 2 for x, _ in means)
    rise = sum((x - mean_x) * (y - mean_y) for x, y in means) / spread
    left = sum((y - mean_y - rise * (x - mean_x)) ** 2 for x, y in means)
    error = math.sqrt(left / (count - 2) / spread)
    span = means[-1][0] - means[0][0]
    return Slope(rise * span, student_t(count - 2) * error * span, count)


# ---- The faults: name -> function of the bench that does harm and mends it

def _told(harm, mend, longest):
    def fault(bench):
        bench.camera.tell(harm)
        bench.pause(0.2, longest)
        if mend:
            bench.camera.tell(mend)
    return fault


def _stall(bench):
    bench.network.stall()
    bench.pause(0.2, 8)
    bench.network.go()


def _refuse(bench):
    bench.network.refuse()
    bench.pause(0.2, 3)
    bench.network.accept()


def _kill(bench):
    bench.camera.kill()
    bench.pause(0.2, 3)
    bench.camera.start()


def _slow(bench):
    bench.network.bytes_per_second = bench.random.randrange(5_000, 50_000)
    bench.pause(0.2, 5)
    bench.network.bytes_per_second = 0


def _corrupt(bench):
    bench.network.corrupt_chance = 0.1
    bench.pause(0.2, 3)
    bench.network.corrupt_chance = 0.0
    bench.network.cut()


def _kind(bench):
    import misdeeds
    bench.network.kind = misdeeds.KINDS[bench.random.choice(list(misdeeds.KINDS))]
    bench.network.cut()
    bench.pause(0.5, 3)
    bench.network.kind = None
    bench.network.cut()


def _reload(bench):
    bench.camd.signal(signal.SIGHUP)
    bench.pause(0.2)


# The cases of cases.py look for frames told younger than they are; here a fault may repeat pictures.
FAULTS = {
    "camera stalls": _told("stall", "go", 8), "camera freezes": _told("freeze", "go", 4),
    "stamps restart": _told("restart-stamps", None, 0.3), "stamps stand still": _told("hold-stamps", "go", 4),
    "clock jumps": _told("step 3000", None, 0.3), "clock drifts": _told("drift 200", "drift 0", 5),
    "packets lost": _told("drop 10", "drop 0", 3), "packets corrupted": _told("corrupt 10", "corrupt 0", 3),
    "connections closed": _told("kick", None, 0.3), "network stalls": _stall, "network refuses": _refuse,
    "network slow": _slow, "bytes corrupted": _corrupt, "server killed": _kill, "misbehaving server": _kind,
    "size changes": _told("size 640x480", "size 320x240", 1), "camd reloads": _reload,
    "connection cut": lambda bench: bench.network.cut(), "connection reset": lambda bench: bench.network.cut(True),
}


class Gaps:
    """Where the cameras beside lost frames: told as soon as it is seen, with what may explain it."""

    def __init__(self, bench):
        self.bench, self.begun, self.next = bench, now_ns(), {name: 0 for name in bench.beside}

    def told(self, fault):
        for name in self.bench.beside:
            frames = [frame for frame in self.bench.truth.of(name) if frame.number is not None]
            for before, after in zip(frames[self.next[name]:], frames[self.next[name] + 1:]):
                if after.number - before.number > 1:
                    yield self.line(name, fault, before, after)
            self.next[name] = max(0, len(frames) - 1)

    def line(self, name, fault, before, after):
        """Times are those of CLOCK_MONOTONIC; captured, arrived and seen count from when the picture was taken."""
        late = lambda frame: "/".join(f"{(at - frame.true) / 1e6:.1f}" for at in (frame.captured, frame.arrived, frame.seen))
        totals = self.bench.camd.totals(name) or {}
        return (f"{name} lost {after.number - before.number - 1} pictures after number {before.number}, taken at "
                f"{(before.true - self.begun) / 1e9:.2f} s, during {fault}; captured/arrived/seen after ms: {late(before)}, "
                f"then {late(after)}; sequence {before.sequence}, then {after.sequence}; "
                f"dropped so far {totals.get('dropped')}")


def run(build, minutes, seed, file=None):
    """The exit code."""
    case = Case("soak", "random faults", None, recovery_s=2.0, grows_kib=1 << 40, lies=None)
    bench = Bench(case, build, f"soak {seed}", 1)
    samples, recoveries = [], {}
    try:
        bench.usual(more=", timeout: 1s, reconnect: {initial: 100ms, max: 500ms}")
        begun = time.monotonic()
        gaps = Gaps(bench)
        end = begun + 60 * minutes
        while time.monotonic() < end and bench.camd.alive():
            name = bench.random.choice(list(FAULTS))
            before = len(bench.result.recoveries_s)
            with bench.fault(patience=30, same_picture=True, label=name):
                FAULTS[name](bench)
            if len(bench.result.recoveries_s) > before:
                recoveries.setdefault(name, []).append(bench.result.recoveries_s[-1])
            elif not bench.camd.alive():
                break
            for _ in range(4):
                time.sleep(0.5)
                usage, line = bench.camd.usage(), bench.camd.last("camera", "beside")
                if usage and line and line["latency_us"]["total"]["count"]:
                    samples.append((time.monotonic() - begun, *usage, line["latency_us"]["total"]["p99"]))
            print(f"{time.monotonic() - begun:7.1f} s {name:20} back after "
                  f"{bench.result.recoveries_s[-1] if recoveries.get(name) else -1:5.2f} s  {samples[-1][1:]}", flush=True)
            for gap in gaps.told(name):
                print(f"{time.monotonic() - begun:7.1f} s {gap}", flush=True)
            bench.truth.frames = [frame for frame in bench.truth.frames if frame.camera != "door"]
            bench.camd.lines = bench.camd.lines[-200:]
        bench.finish()
        return judge(bench, samples, recoveries, minutes, seed, file)
    finally:
        bench.close()


def judge(bench, samples, recoveries, minutes, seed, file):
    samples = samples[int(len(samples) * WARM_UP):]
    times = [sample[0] for sample in samples]
    slopes, record = {}, {"minutes": minutes, "seed": seed, "slopes": {}, "recoveries_s": {}}
    for column, (name, bound) in enumerate(BOUNDS.items(), start=1):
        found = slope(times, [sample[column] for sample in samples])
        if found is None:
            print(f"{name}: too short a run for a slope")
            continue
        slopes[name] = found
        record["slopes"][name] = {"growth": found.growth, "plus_minus": found.uncertain, "bound": bound}
        verdict = "GROWS" if found.grows(bound) else "does not grow"
        print(f"{name}: {found.growth:+.1f} ± {found.uncertain:.1f} over the run, bound {bound}: {verdict}")
        if found.grows(bound):
            bench.problem(f"{name} grows by {found.growth:.1f} ± {found.uncertain:.1f}")
    for name, values in sorted(recoveries.items()):
        record["recoveries_s"][name] = {"count": len(values), "p50": percentile(values, 50), "max": max(values)}
        print(f"{name}: {len(values)} times, back after p50 {percentile(values, 50):.2f} s, at most {max(values):.2f} s")
    record.update(problems=bench.result.problems, exit_code=bench.result.exit_code,
                  lost_beside=bench.result.lost_beside, ledger_lines=bench.result.ledger_lines)
    if file:
        file.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{bench.result.ledger_lines} totals checked, beside lost {bench.result.lost_beside}, "
          f"exit code {bench.result.exit_code}")
    for problem in bench.result.problems:
        print(f"fail: {problem}")
    for text in bench.camd.log[-30:] if bench.result.problems else ():
        print(f"camd said: {text}")
    return 1 if bench.result.problems else 0
