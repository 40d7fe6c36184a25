"""Failed tries by the thousand: many kinds of misbehaving servers at once, each asked again and again by one camd.

Each kind is served at a port of its own. A try counts when the server did its misdeed: what breaks off before that is
none. Some kinds make a group with a camd of its own, so that what grows can be laid to one of them.

Kinds differ in how long they hold camd: one that closes at once can be asked ten times a second, one that sends its
answer byte by byte four times a minute. So each kind has one camera at first. After PROBE_S a reload gives each as many
cameras, and as long waits, as make all kinds end together. Then memory, descriptors and threads are judged by the soak's
slope test, over all that happened after the warm-up.

With `alone` it is not camd that asks, but camd's sources in a program of theirs (sources.cpp), one for each kind, that
give up after ALONE_PATIENCE_S in place of 15 s: a try of a silent server takes a thirtieth of the time then.
"""

import functools
import json
import math
import multiprocessing
import os
import resource
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import misdeeds
import soak
from bench import Bench, Case
from misdeeds import KINDS
from parts import Left, Sources, percentile, wait_until

GROUP = 20               # kinds
PROBE_S = 45             # three tries of a kind that holds camd until it gives up
LEAST_WAIT_S = 0.1       # between two tries of a camera
MOST_CAMERAS = 48        # of a kind
ENDLESS_PAUSE_S = 0.005  # of servers that send without end, so that all have a share of the machine
WARM_UP = 0.15           # of the tries: libraries load, caches and pools fill
SPAN_S = 20              # of descriptors and threads the least in each such span counts: connections come and go
ALONE_PATIENCE_S = 0.5   # a server that is slower never comes to its misdeed
ALONE_WAIT_S = 0.02      # between two tries of a source
ALONE_ENDLESS_PAUSE_S = 0.2  # rtspsrc reads answers byte by byte
ALONE_SAMPLE_S = 0.2
FIRST_TRIES = 200
LEFT_BOUNDS = {"bytes": 64 * 1024, "threads": 2, "descriptors": 0, "names": 50}  # GLib keeps some threads
LEFT_BYTES_A_TRY = 1     # a leak would be an allocation: 16 bytes at least
ALONE_CAMERAS = min(12, os.cpu_count() or 1)  # of a kind
STOP_S = 2               # what stopping may take
BOUNDS = {"rss_kib": 8 * 1024, "descriptors": 2, "threads": 2}


class Kind:
    """A kind of server at a port of its own, and how often it did its misdeed."""

    def __init__(self, bench, camera, answers, name):
        self.name, self.deed, self.tries = name, KINDS[name], 0
        self.cameras, self.wait_s = 1, LEAST_WAIT_S
        self._lock = threading.Lock()
        self.proxy = bench.proxy(camera)
        self.proxy.recorded = None if name in misdeeds.SPOILT_STREAMS else answers
        self.proxy.endless_pause_s = ENDLESS_PAUSE_S
        self.proxy.kind = self.deed
        self.proxy.on_misdeed = self._count

    def _count(self):
        with self._lock:
            self.tries += 1


def plan(probed, tries, seconds):
    """(cameras, the wait between two tries), from how many tries one camera had in PROBE_S with the least wait."""
    took = PROBE_S / max(1, probed)
    cameras = min(MOST_CAMERAS, max(1, math.ceil(took * tries / seconds)))
    return cameras, max(LEAST_WAIT_S, cameras * seconds / tries - took + LEAST_WAIT_S)


def raise_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else max(soft, 65536), hard))


def run(build, tries, seed, names, minutes=None, file=None, jobs=1, alone=False, cameras=ALONE_CAMERAS):
    """The exit code. `names`: the kinds; `minutes`: of each group; it ends then, and says how far it came; `cameras`:
    that ask each kind with `alone`. Rows of the table, and the file, come as groups end: a run that is cut short has them."""
    raise_limit()
    size, run_one = (1, functools.partial(run_kind_alone, cameras=cameras)) if alone else (GROUP, run_group)
    groups = [names[first:first + size] for first in range(0, len(names), size)]
    records, lock = [], threading.Lock()

    def run_and_tell(group):
        record = in_process_of_its_own(run_one, build, tries, seed, group, minutes)
        with lock:
            records.append(record)
            if "cpu_s" in record:
                print(row(record), flush=True)
            if file:
                file.write_text(json.dumps(records, indent=1) + "\n")

    if alone:
        print(HEADER, flush=True)
    with ThreadPoolExecutor(max_workers=jobs) as workers:
        list(workers.map(run_and_tell, groups))
    done = sorted(count for record in records for count in record["kinds"].values())
    failed = sum(bool(record["problems"]) for record in records)
    if done:
        print(f"{sum(done)} tries of {len(done)} kinds, of each {done[0]} to {done[-1]}, middle {percentile(done, 50)}; "
              f"{len(records)} groups, {failed} failed, seed {seed}")
    return 1 if failed else 0


def in_process_of_its_own(run_one, build, tries, seed, names, minutes):
    """The group's record. The servers of one group do not wait for Python's lock behind those of another."""
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=lambda: send.send(run_one(build, tries, seed, names, minutes)))
    process.start()
    while process.is_alive() and not receive.poll(0.1):
        pass
    record = receive.recv() if receive.poll() else {"kinds": {}, "problems": ["the harness failed, see above"]}
    process.join()
    return record


def cameras_of(bench, kinds):
    return "".join(
        bench.rtsp(f"k{number}-{each}", kind.proxy.port,
                   f", timeout: 300ms, reconnect: {{initial: {kind.wait_s * 1000:.0f}ms, max: {kind.wait_s * 1000:.0f}ms}}")
        for number, kind in enumerate(kinds) for each in range(kind.cameras))


def run_group(build, tries, seed, names, minutes):
    case = Case("tries", "failed tries", None, recovery_s=None, lost_beside=None, grows_kib=1 << 40, lies=None)
    bench = Bench(case, build, f"tries {seed} {names[0]}", 1)
    seconds = 60 * minutes if minutes else float("inf")
    samples = []
    try:
        camera, well = bench.rtsp_camera("--fps", "10"), bench.rtsp_camera("--fps", "10")
        answers = misdeeds.record(camera.port)
        kinds = [Kind(bench, camera, answers, name) for name in names]
        beside = bench.rtsp("beside", well.port) + bench.pattern("pattern")
        bench.start(cameras_of(bench, kinds) + beside, steady=())
        begun = told = time.monotonic()
        planned = False
        while bench.camd.alive() and min(kind.tries for kind in kinds) < tries and time.monotonic() < begun + seconds:
            time.sleep(0.5)
            now = time.monotonic()
            if not planned and now > begun + PROBE_S:
                planned = True
                for kind in kinds:
                    kind.cameras, kind.wait_s = plan(kind.tries, tries, (seconds if minutes else 0.2 * tries) - PROBE_S)
                bench.configure(cameras_of(bench, kinds) + beside)
                bench.camd.signal(signal.SIGHUP)
                wait_until(lambda: bench.camd.last("reload") or not bench.camd.alive(), 120)
                if (bench.camd.last("reload") or {}).get("result") != "accepted":
                    bench.problem(f"the reload with more cameras: {bench.camd.last('reload')} {bench.camd.log[-1:]}")
            usage = bench.camd.usage()
            if usage and planned:
                samples.append((now - begun, *usage))
            if now > told + 60:
                told = now
                done = [kind.tries for kind in kinds]
                print(f"{names[0]:28} {told - begun:7.1f} s  {sum(kind.cameras for kind in kinds)} cameras, {sum(done)} tries, "
                      f"of each kind {min(done)} to {max(done)}  {tuple(usage) if usage else '-'}", flush=True)
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


def run_kind_alone(build, tries, seed, names, minutes, cameras):
    """As run_group(), of one kind, by sources alone. The program runs twice: what is left of it when its sources are gone
    shall be the same after FIRST_TRIES and after all."""
    case = Case("tries", "failed tries", None, recovery_s=None, lost_beside=None, grows_kib=1 << 40, lies=None)
    bench = Bench(case, build, f"tries {seed} {names[0]}", 1)
    seconds = 60 * minutes if minutes else float("inf")
    sources = []
    try:
        camera = bench.rtsp_camera("--fps", "10")
        kind = Kind(bench, camera, misdeeds.record(camera.port), names[0])
        kind.proxy.endless_pause_s = ALONE_ENDLESS_PAUSE_S
        program = bench.build / "bin/camd_sources"

        def served():
            """Where what is asked needs the true camera: it is there."""
            if kind.proxy.recorded is None and camera.process.poll() is not None:
                bench.problem(f"the RTSP camera ended with {camera.process.returncode}")
                return False
            return True

        def ask(wanted):
            """(the tries, samples, CPU time, what is left)"""
            one = Sources(program, ALONE_PATIENCE_S, ALONE_WAIT_S, {kind.proxy.port: cameras})
            sources.append(one)
            begun, samples = time.monotonic(), []
            kind.tries = 0
            while one.alive() and served() and kind.tries < wanted and time.monotonic() < begun + seconds:
                time.sleep(ALONE_SAMPLE_S)
                rss_kib = one.rss_kib()
                if rss_kib:
                    samples.append((time.monotonic() - begun, rss_kib))
            done, cpu_s = kind.tries, one.cpu_s()
            stop_s, hung, left = one.stop()
            if hung or stop_s > STOP_S:
                bench.problem(f"stopping took {stop_s:.1f} s, {hung} hung")
            return done, samples, cpu_s, stop_s, left

        first, _, _, _, left_at_first = ask(min(tries, FIRST_TRIES))
        done, samples, cpu_s, stop_s, left = ask(tries)
        bench.result.exit_code = sources[-1].process.returncode
        record = judge(bench, {names[0]: done}, tries, samples, {"rss_kib": math.inf})  # what is left decides
        grown = growth_of(left_at_first, left, done - first) if left_at_first and left else None
        for what in grown["problems"] if grown else ():
            bench.problem(what)
        record.update(cpu_s=cpu_s, stop_s=stop_s, left=grown)
        return record
    finally:
        for one in sources:
            one.kill()
        bench.close()


def growth_of(first, last, tries):
    """How much more is left after so many more tries, and what of it is too much."""
    grown = {key: after - before for key, before, after in zip(first._fields, first, last)}
    bounds = {**LEFT_BOUNDS, "bytes": max(LEFT_BOUNDS["bytes"], tries * LEFT_BYTES_A_TRY)}
    grown["problems"] = [f"{value} more {key} are left" for key, value in grown.items() if value > bounds[key]]
    return grown


HEADER = (f"{'kind':44} {'tries':>6} {'CPU ms':>6} {'KiB':>18} {'in 2nd half':>17}  left more: {'bytes':>7} {'threads':>7} "
          f"{'descriptors':>11} {'names':>5}  {'stop s':>6}")


def row(record):
    """Of a kind that has a record of its own."""
    (name, count), = record["kinds"].items()
    slopes = [record["slopes"].get(key) for key in ("rss_kib", "rss_kib, second half")]
    grown = [f"{one['growth']:+.0f} ± {one['plus_minus']:.0f}" if one else "-" for one in slopes]
    left = record["left"] or dict.fromkeys(Left._fields, "?")
    return (f"{name:44} {count:6} {1e3 * record['cpu_s'] / max(1, count):6.1f} {grown[0]:>18} {grown[1]:>17}             "
            f"{left['bytes']:>7} {left['threads']:>7} {left['descriptors']:>11} {left['names']:>5}  {record['stop_s']:6.2f}  "
            f"{'; '.join(record['problems'])}")


def least(samples, column, span_s):
    """The sample with the least in that column, of each span. What leaks is in all of them."""
    spans = {}
    for sample in samples:
        spans.setdefault(sample[0] // span_s, []).append(sample)
    return [min(span, key=lambda sample: sample[column]) for span in spans.values()]


def judge(bench, counts, tries, samples, bounds=BOUNDS):
    done = sorted(counts.values())
    print(f"{len(counts)} kinds, {next(iter(counts))} to {list(counts)[-1]}: {sum(done)} tries, of each {done[0]} to {done[-1]}")
    few = [name for name, count in counts.items() if count < tries]
    if few:
        print(f"  the time was over before {len(few)} kinds had {tries} tries: {', '.join(few)}")
    slopes = {}
    samples = samples[int(len(samples) * WARM_UP):]
    for column, (name, bound) in enumerate(bounds.items(), start=1):
        chosen = samples if name == "rss_kib" else least(samples, column, SPAN_S)
        found = soak.slope([sample[0] for sample in chosen], [sample[column] for sample in chosen])
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
    late = samples[len(samples) // 2:]  # pools and heaps fill at first, a leak goes on
    if found := soak.slope([sample[0] for sample in late], [sample[1] for sample in late]):
        slopes["rss_kib, second half"] = {"growth": found.growth, "plus_minus": found.uncertain}
    print(f"  {bench.result.ledger_lines} totals checked, exit code {bench.result.exit_code}", flush=True)
    for problem in bench.result.problems:
        print(f"  fail: {problem}", flush=True)
    return {"kinds": counts, "slopes": slopes, "problems": bench.result.problems, "exit_code": bench.result.exit_code}
