"""One case's bench: camd with a camera that is troubled and cameras beside it that are well, and what it measures.

A case is a function of a Bench in a table (cases.py). It starts the bench, does harm inside fault(), and the bench
finds out how long camd took to show a true frame again, what the cameras beside lost, and whether anything grew.
"""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from parts import (REASONS, Camd, Proxy, RtspCamera, Truth, Usage, now_ns, percentile, tiny_model, wait_until)

BUSY_MS = 50               # a machine that keeps us waiting for longer is no judge
STEADY_FRAMES = 10         # of each camera before a case begins
FPS_BESIDE = 10
# Of a library that was used wrongly, and of the sanitizers.
COMPLAINTS = ("-CRITICAL **", "ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "WARNING: ThreadSanitizer",
              ": runtime error: ")
# rtspsrc of GStreamer 1.22 ends its pads with the number of a seek that there never was, when its connection breaks
# before the first picture. Nothing follows from it, and nothing of ours is in the call.
HARMLESS = "gst_event_set_seqnum: assertion 'seqnum != GST_SEQNUM_INVALID' failed"


class Skip(Exception):
    """The case cannot be run here, and why."""


@dataclass
class Case:
    name: str
    cause: str
    run: object                     # function of a Bench
    recovery_s: float | None = 1.0  # bound, p99 over the repetitions; None: nothing to come back from
    lost_beside: int | None = 0     # bound, frames; None: all cameras share the cause
    grows_kib: int = 24 * 1024      # bound of resident memory's growth
    exit_code: int | None = 0       # None: any
    repeat: int = 3                 # with --all
    quick: bool = False             # in the subset of CI, once
    lies: int | None = 0            # bound, frames told younger than they are; None: the case explains why
    true_ms: int = 50               # a stamp further off than that is a lie
    calm: bool = True               # wants a machine that has time for it
    not_yet: str = ""               # the bound is not met: what is seen


@dataclass
class Result:
    case: Case
    recoveries_s: list = field(default_factory=list)
    lost: dict = field(default_factory=dict)   # of the troubled camera, by reason
    lost_beside: int = 0
    lies: int = 0
    error_ms: float | None = None              # of the capture time before the cause, p99
    ledger_lines: int = 0
    before: Usage | None = None
    after: Usage | None = None
    exit_code: int | None = None
    problems: list = field(default_factory=list)
    skipped: str = ""
    seconds: float = 0.0
    busy_ms: float = 0.0                       # how long the machine kept the harness itself waiting, at most

    @property
    def recovery_p99(self):
        return percentile(self.recoveries_s, 99) if self.recoveries_s else None


class Bench:
    def __init__(self, case, build, seed, repeat, keep=False):
        self.case, self.build, self.repeat, self.keep = case, Path(build), repeat, keep
        self.random = random.Random(f"{seed} {case.name}")
        self.result = Result(case)
        self.folder = Path(tempfile.mkdtemp(prefix="camd-chaos-"))
        self.truth = Truth(self.folder / "truth.txt")
        self.camd = None
        cache = self.build / "CMakeCache.txt"
        self.sanitized = cache.exists() and re.search(r"^CAMD_SANITIZE:\w+=.", cache.read_text(), re.M) is not None
        self._closing = []  # called in reverse order
        self._beside_since = None
        self._troubled = None
        tiny_model(self.folder / "tiny.onnx")

    # ---- What a case asks for

    def rtsp_camera(self, *arguments):
        camera = RtspCamera(self.build / "bin/camd_rtsp_server", arguments)
        self._closing.append(camera.close)
        return camera

    def proxy(self, camera):
        proxy = Proxy(camera.port, self.random.random())
        self._closing.append(proxy.close)
        return proxy

    def rtsp(self, name, port, more="", camera=""):
        """`more`: keys of the source, `camera`: those of the camera, each with a comma before it."""
        return (f"  - {{name: {name}{camera}, source: {{type: rtsp, url: \"rtsp://127.0.0.1:{port}/live\", transport: tcp, "
                f"latency: 20ms{more}}}}}\n")

    def pattern(self, name, fps=FPS_BESIDE):
        return f"  - name: {name}\n    source: {{type: test, width: 320, height: 240, fps: {fps}}}\n"

    def bad_plugin(self, how, more=""):
        """In camd's own process, where it can do most harm."""
        return (f"  - plugin: {self.build}/lib/bad/misbehave.so\n    isolation: none\n"
                f"    config: {{how: {how}{more}}}\n")

    def configure(self, cameras, plugins="", top="", name="camd.yaml"):
        """Writes a configuration: the cameras' text, plug-ins before the one that tells the truth."""
        path = self.folder / name
        path.write_text(
            f"device: host\nmodel: {{path: {self.folder}/tiny.onnx}}\n{top}cameras:\n{cameras}postprocess:\n{plugins}"
            f"  - plugin: {self.build}/lib/chaos/truth.so\n    isolation: none\n    config: {{path: {self.truth.path}}}\n"
            "metrics: {period: 250ms}\n")
        return path

    def start(self, cameras, beside=("beside", "pattern"), plugins="", top="", steady=None, **options):
        """Starts camd and waits until every camera in `steady` delivers (all of `beside`, unless said)."""
        self.beside = beside
        self.config = self.configure(cameras, plugins, top)
        self.camd = Camd(self.build / "bin/camd", self.config, **options)
        self._closing.append(self.camd.close)
        self.await_steady(beside if steady is None else steady)
        return self.camd

    def await_steady(self, cameras, seconds=20):
        since = now_ns()
        enough = lambda: all(len(self.truth.of(name, since)) >= STEADY_FRAMES for name in cameras)
        if not wait_until(lambda: enough() or not self.camd.alive(), seconds) or not self.camd.alive():
            raise RuntimeError(f"camd does not get under way: {self.camd.log[-3:]}")
        self._beside_since = now_ns() - 500_000_000

    def usual(self, *arguments, more="", camera="", top="", plugins="", **options):
        """The usual bench: `door` is troubled (RTSP through a proxy), `beside` (RTSP) and `pattern` are well."""
        self.camera = self.rtsp_camera(*arguments)
        self.network = self.proxy(self.camera)
        well = self.rtsp_camera("--fps", str(FPS_BESIDE))
        self.start(self.rtsp("door", self.network.port, more, camera) + self.rtsp("beside", well.port) + self.pattern("pattern"),
                   top=top, plugins=plugins, steady=("door", "beside", "pattern"), **options)
        self.measure_before("door")

    def measure_before(self, camera):
        self._troubled = camera
        self.result.before = self.camd.usage_at_rest()
        if camera:
            frames = [frame for frame in self.truth.of(camera) if frame.true is not None][-STEADY_FRAMES:]
            if frames:
                self.result.error_ms = percentile([abs(frame.captured - frame.true) / 1e6 for frame in frames], 99)

    @contextlib.contextmanager
    def fault(self, camera="door", patience=None, same_picture=False, label=""):
        """The cause lasts as long as the block. `same_picture`: the cause repeats pictures, whose stamps are old."""
        begun = now_ns()
        yield
        ended = now_ns()
        self.recovered(camera, begun, ended, patience, same_picture, label)

    def recovered(self, camera, begun, ended, patience=None, same_picture=False, label=""):
        """Waits for the first true frame that was taken after the cause's end."""
        bound = self.case.recovery_s or 1.0
        patience = patience or max(15.0, 4 * bound)
        first, scanned = None, 0

        def shown():
            nonlocal first, scanned
            frames = self.truth.update()
            while scanned < len(frames) and first is None:
                frame = frames[scanned]
                scanned += 1
                if (frame.camera == camera and frame.true is not None and frame.true >= ended
                        and abs(frame.captured - frame.true) <= self.case.true_ms * 1_000_000):
                    first = frame
            return first is not None

        if not wait_until(lambda: shown() or not self.camd.alive(), patience) or first is None:
            why = f"camd ended with {self.camd.process.poll()}" if not self.camd.alive() else self.camd.log[-1:]
            fresh = [frame for frame in self.truth.of(camera, ended) if frame.true is not None and frame.true >= ended]
            told = f"; {len(fresh)} fresh frames had false stamps" if fresh else ""
            self.problem(f"{label}{': ' if label else ''}no true frame of {camera} within {patience:g} s{told} ({why})")
            return
        took = (first.seen - ended) / 1e9
        self.result.recoveries_s.append(took)
        if label and took > bound:
            self.problem(f"{label}: recovery {took:.2f} s")
        if not same_picture:
            self.count_lies(camera, begun)

    def count_lies(self, camera, since):
        """Frames that are told to be younger than they are. A picture that is shown again counts for its first time."""
        seen = set()
        for frame in self.truth.of(camera, since):
            if frame.true is None or frame.number in seen:
                continue
            seen.add(frame.number)
            if frame.captured - frame.true > self.case.true_ms * 1_000_000:
                self.result.lies += 1

    def problem(self, text):
        if text not in self.result.problems:
            self.result.problems.append(text)

    def pause(self, least, most=None):
        """Sleeps so many seconds, between the two by chance of the seed."""
        time.sleep(least if most is None else self.random.uniform(least, most))

    def settle(self, seconds=3):
        """Gives what ends by itself (threads of closed connections) its time."""
        before = self.result.before
        if before and self.camd.alive():
            wait_until(lambda: (usage := self.camd.usage()) is None or
                       (usage.descriptors <= before.descriptors and usage.threads <= before.threads), seconds, 0.05)

    # ---- The end of every case

    def finish(self):
        """Measures what is left, stops camd, and judges."""
        case, result, camd = self.case, self.result, self.camd
        if camd is None:
            return
        self.settle()
        if camd.alive():
            result.after = camd.usage()
        if camd.alive() and self._beside_since and case.lost_beside is not None:
            until = now_ns() + 300_000_000
            wait_until(lambda: all(self.truth.of(camera, until) for camera in self.beside), 1)
            for camera in self.beside:
                result.lost_beside += self.lost_of(camera)
        if result.exit_code is None:
            begun = time.monotonic()
            code = camd.stop(10)
            # A sanitizer sleeps for a second at the end of a process, and gives back gigabytes.
            ended = camd.told_stop if self.sanitized and camd.told_stop else time.monotonic()
            took = ended - begun
            result.exit_code = code
            if code is None:
                self.problem("SIGTERM did not end it within 10 s")
            elif took > 2:
                self.problem(f"SIGTERM took {took:.1f} s, bound 2 s")
            if code is not None and code >= 0 and camd.last("stop") is None:
                self.problem("no last line")
        self.judge()

    def lost_of(self, camera):
        """Frames that a healthy camera lost: gaps in the true numbers, which include whatever was never captured."""
        numbers = [frame.number for frame in self.truth.of(camera, self._beside_since)]
        if None in numbers:
            self.problem(f"{camera}: {numbers.count(None)} pictures without a stamp")
        numbers = [number for number in numbers if number is not None]
        if not numbers:
            return 0
        steps = [after - before for before, after in zip(numbers, numbers[1:])]
        lost = sum(step - 1 for step in steps if step > 0)
        if any(step <= 0 for step in steps):
            self.problem(f"{camera}: the camera beside was started over")
        sequences = [frame.sequence for frame in self.truth.of(camera, self._beside_since)]
        if sequences != sorted(sequences):
            self.problem(f"{camera}: the sequence numbers of the camera beside began anew")
        # What stopped coming at all would leave no gap.
        silent = (now_ns() - self.truth.of(camera)[-1].seen) / 1e9
        return lost + max(0, int((silent - 0.5) * FPS_BESIDE))

    def judge(self):
        case, result, camd = self.case, self.result, self.camd
        if self._troubled:
            totals = next((each["totals"] for each in (camd.last("stop") or {}).get("cameras", [])
                           if each["camera"] == self._troubled), camd.totals(self._troubled))
            if totals:
                result.lost = {reason: totals["dropped"][reason] for reason in REASONS if totals["dropped"][reason]}
        result.ledger_lines = camd.ledger_lines
        for text in camd.log:
            if HARMLESS not in text and any(word in text for word in COMPLAINTS):
                self.problem(f"the log says: {text[:160]}")
                break
        for wrong in camd.wrong[:3]:
            self.problem(f"ledger: {wrong}")
        self.judge_bounds()

    def judge_bounds(self):
        case, result = self.case, self.result
        if case.recovery_s is not None and result.recoveries_s and result.recovery_p99 > case.recovery_s:
            self.problem(f"recovery p99 {result.recovery_p99:.2f} s, bound {case.recovery_s:g} s")
        if case.recovery_s is not None and not result.recoveries_s and not result.problems:
            self.problem("no recovery was measured")
        if case.lost_beside is not None and result.lost_beside > case.lost_beside:
            self.problem(f"the cameras beside lost {result.lost_beside} frames, bound {case.lost_beside}")
        if case.lies is not None and result.lies > case.lies:
            self.problem(f"{result.lies} frames told younger than they are by more than {case.true_ms} ms")
        before, after = result.before, result.after
        if before and after:
            if after.descriptors > before.descriptors:
                self.problem(f"descriptors grew from {before.descriptors} to {after.descriptors}")
            if after.threads > before.threads:
                self.problem(f"threads grew from {before.threads} to {after.threads}")
            # What is freed stays with the sanitizers for a while.
            if not self.sanitized and after.rss_kib > before.rss_kib + case.grows_kib:
                self.problem(f"memory grew by {(after.rss_kib - before.rss_kib) / 1024:.0f} MiB")
        if None not in (result.exit_code, case.exit_code) and result.exit_code != case.exit_code:
            self.problem(f"exit code {result.exit_code}, wanted {case.exit_code}")

    def close(self):
        for close in reversed(self._closing):
            with contextlib.suppress(OSError, ValueError):
                close()
        if self.keep and self.result.problems:
            lines = "\n".join(json.dumps(line) for line in self.camd.lines) if self.camd else ""
            (self.folder / "metrics.jsonl").write_text(lines)
            (self.folder / "log.txt").write_text("\n".join(self.camd.log) if self.camd else "")
            self.problem(f"kept: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


class Watch(threading.Thread):
    """Finds out how long this machine kept a process waiting that wanted to run every 10 ms."""

    def __init__(self):
        super().__init__(daemon=True)
        self.longest_ms = 0.0
        self._over = threading.Event()

    def run(self):
        while not self._over.is_set():
            due = time.monotonic() + 0.01
            time.sleep(0.01)
            self.longest_ms = max(self.longest_ms, (time.monotonic() - due) * 1000)

    def stop(self):
        self._over.set()
        self.join()
        return self.longest_ms


def run_case(case, build, seed, repeat, keep=False, again=False):
    """A failure on a machine that had no time for us proves nothing: such a case is run again, at most twice. With
    `again` every failure is: for machines that are shared with others, where each of the runs has to fail."""
    for _ in range(3):
        watch = Watch()
        watch.start()
        result = run_once(case, build, seed, repeat, keep)
        result.busy_ms = watch.stop()
        if not result.problems or not (again or (result.busy_ms >= BUSY_MS and case.calm)):
            break
        print(f"     {case.name}: once more, the machine was busy for {result.busy_ms:.0f} ms: {result.problems[0]}",
              flush=True)
    return result


def run_once(case, build, seed, repeat, keep):
    begun = time.monotonic()
    bench = Bench(case, build, seed, repeat, keep)
    try:
        case.run(bench)
        bench.finish()
    except Skip as why:
        bench.result.skipped = str(why)
    except (RuntimeError, OSError, ValueError, KeyError, subprocess.SubprocessError) as why:
        bench.problem(f"{type(why).__name__}: {why}")
        if bench.camd is not None and bench.camd.alive() is False:
            bench.problem(f"camd ended with {bench.camd.process.poll()}")
    finally:
        bench.close()
    bench.result.seconds = time.monotonic() - begun
    return bench.result


def calm():
    """Other work on this machine shall not look like camd's fault, where that is allowed."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    with contextlib.suppress(OSError):  # sched(7): nice counts within a session only, this counts between them
        Path("/proc/self/autogroup").write_text("-15")


def stop_on_signals():
    """Cases clean up behind them when the harness is asked to stop."""
    def leave(number, _):
        signal.signal(number, signal.SIG_IGN)  # a second one shall not break off the cleaning up
        raise SystemExit(128 + number)
    signal.signal(signal.SIGTERM, leave)
