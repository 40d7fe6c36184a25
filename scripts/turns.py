"""What turns with something and turns without it, side by side, say about latency: a ratio and how sure it is."""

import os
import random
import subprocess
import sys
from pathlib import Path


def percentile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))]


def ratio_of(with_it, without, part):
    """Of the percentiles of all turns, and the interval that holds 95 of 100 of those of turns drawn anew, by pairs (bootstrap)."""
    def one(turns):
        return (percentile([value for i in turns for value in with_it[i]], part) /
                percentile([value for i in turns for value in without[i]], part))
    pairs, dice = range(len(with_it)), random.Random(1)
    drawn = sorted(one([dice.choice(pairs) for _ in pairs]) for _ in range(400))
    return one(pairs), drawn[10], drawn[-11]


def pairs_of(with_it, without, part):
    """The ratios of the percentiles, each turn's by that of those it is paired with: lower quartile, median, upper quartile."""
    ratios = [percentile(a, part) / percentile(b, part) for a, b in zip(with_it, without)]
    return tuple(percentile(ratios, quarter) for quarter in (0.25, 0.5, 0.75))


def halves(cores):
    """This process's processors in two sets that share no core; the first has so many cores, half of all for 0."""
    allowed = sorted(os.sched_getaffinity(0))
    siblings = {}
    for cpu in allowed:
        try:
            key = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
        except OSError:
            key = str(cpu)
        siblings.setdefault(key, []).append(cpu)
    groups = list(siblings.values())
    if len(groups) < 2:
        return set(allowed), set(allowed)
    half = min(cores or len(groups) // 2, len(groups) - 1)
    return {cpu for group in groups[:half] for cpu in group}, {cpu for group in groups[half:] for cpu in group}


class Awake:
    """Keeps processors from falling asleep, by loops behind everything else (SCHED_IDLE). To wake a virtual processor takes its host
    up to milliseconds, which would be all that a measurement of latency shows."""

    LOOP = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while os.getppid() == int(sys.argv[2]):
    for _ in range(1000000):
        pass
"""

    def __init__(self, processors):
        self._loops = [subprocess.Popen([sys.executable, "-S", "-c", self.LOOP, str(one), str(os.getpid())]) for one in processors]

    def end(self):
        for one in self._loops:
            one.kill()
            one.wait()
