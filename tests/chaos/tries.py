"""Failed tries by the thousand: many kinds of misbehaving servers at once, each asked again and again by one camd.

Each kind is served at a port of its own and has cameras that try it with short waits. A try counts when the server did
its misdeed: what breaks off before that is none. A group of kinds is done when each has been tried so often. Then memory,
descriptors and threads are judged by the soak's slope test, over all that happened after the warm-up.
"""

import json
import resource
import threading
import time

import soak
from bench import Bench, Case
from misdeeds import KINDS
from parts import percentile

GROUP = 20               # kinds, with a camd of their own: what grows can be laid to one of them
CAMERAS_A_KIND = 3       # a kind that keeps camd waiting is tried once a `timeout` by each
ENDLESS_PAUSE_S = 0.005  # of servers that send without end, so that all have a share of the machine
WARM_UP = 0.15           # of the tries: libraries load, caches and pools fill
BOUNDS = {"rss_kib": 8 * 1024, "descriptors": 2, "threads": 2}


class Kind:
    """A kind of server at a port of its own, and how often it did its misdeed."""

    def __init__(self, bench, camera, name):
        self.name, self.deed, self.tries = name, KINDS[name], 0
        self._lock = threading.Lock()
        self.proxy = bench.proxy(camera)
        self.proxy.endless_pause_s = ENDLESS_PAUSE_S
        self.proxy.kind = self.deed
        self.proxy.on_misdeed = self._count

    def _count(self):
        with self._lock:
            self.tries += 1


def raise_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 65536), hard))


def run(build, tries, seed, names, minutes=None, file=None):
    """The exit code. `names`: the kinds; `minutes`: of each group; it ends then, and says how far it came."""
    raise_limit()
    records = []
    for first in range(0, len(names), GROUP):
        records.append(run_group(build, tries, seed, names[first:first + GROUP], minutes))
    done = sorted(count for record in records for count in record["kinds"].values())
    failed = sum(bool(record["problems"]) for record in records)
    print(f"{sum(done)} tries of {len(done)} kinds, of each {done[0]} to {done[-1]}, middle {percentile(done, 50)}; "
          f"{len(records)} groups, {failed} failed, seed {seed}")
    if file:
        file.write_text(json.dumps(records, indent=1) + "\n")
    return 1 if failed else 0


def run_group(build, tries, seed, names, minutes):
    case = Case("tries", "failed tries", None, recovery_s=None, lost_beside=None, grows_kib=1 << 40, lies=None)
    bench = Bench(case, build, f"tries {seed} {names[0]}", 1)
    samples = []
    try:
        camera, well = bench.rtsp_camera("--fps", "10"), bench.rtsp_camera("--fps", "10")
        kinds = [Kind(bench, camera, name) for name in names]
        cameras = "".join(bench.rtsp(f"k{number}-{each}", kind.proxy.port,
                                     ", timeout: 300ms, reconnect: {initial: 50ms, max: 100ms}")
                          for number, kind in enumerate(kinds) for each in range(CAMERAS_A_KIND))
        bench.start(cameras + bench.rtsp("beside", well.port) + bench.pattern("pattern"), steady=())
        begun = told = time.monotonic()
        end = begun + 60 * minutes if minutes else float("inf")
        while bench.camd.alive() and min(kind.tries for kind in kinds) < tries and time.monotonic() < end:
            time.sleep(0.5)
            usage = bench.camd.usage()
            if usage:
                samples.append((time.monotonic() - begun, *usage))
            if time.monotonic() > told + 15:
                told = time.monotonic()
                done = [kind.tries for kind in kinds]
                print(f"{told - begun:7.1f} s  {sum(done)} tries, of each kind {min(done)} to {max(done)}  "
                      f"{tuple(usage) if usage else '-'}", flush=True)
            bench.truth.update()
            bench.truth.frames.clear()
            bench.camd.lines = bench.camd.lines[-200:]
        counts = {kind.name: kind.tries for kind in kinds}
        if not bench.camd.alive():
            bench.problem(f"camd ended with {bench.camd.process.poll()}: {bench.camd.log[-1:]}")
        bench.finish()
        return judge(bench, counts, tries, samples)
    finally:
        bench.close()


def judge(bench, counts, tries, samples):
    done = sorted(counts.values())
    print(f"{len(counts)} kinds, {next(iter(counts))} to {list(counts)[-1]}: {sum(done)} tries, of each {done[0]} to {done[-1]}")
    few = [name for name, count in counts.items() if count < tries]
    if few:
        print(f"  the time was over before {len(few)} kinds had {tries} tries: {', '.join(few)}")
    slopes = {}
    samples = samples[int(len(samples) * WARM_UP):]
    for column, (name, bound) in enumerate(BOUNDS.items(), start=1):
        found = soak.slope([sample[0] for sample in samples], [sample[column] for sample in samples])
        if found is None:
            print(f"  {name}: too short a run for a slope")
            continue
        # What is freed stays with the sanitizers for a while.
        grows = found.grows(bound) and not (bench.sanitized and name == "rss_kib")
        slopes[name] = {"growth": found.growth, "plus_minus": found.uncertain, "bound": bound}
        print(f"  {name}: {samples[0][column]} at first, {samples[-1][column]} at last; {found.growth:+.1f} ± "
              f"{found.uncertain:.1f} over the run, bound {bound}: {'GROWS' if grows else 'does not grow'}")
        if grows:
            bench.problem(f"{name} grows by {found.growth:.1f} ± {found.uncertain:.1f}")
    print(f"  {bench.result.ledger_lines} totals checked, exit code {bench.result.exit_code}", flush=True)
    for problem in bench.result.problems:
        print(f"  fail: {problem}", flush=True)
    return {"kinds": counts, "slopes": slopes, "problems": bench.result.problems, "exit_code": bench.result.exit_code}
