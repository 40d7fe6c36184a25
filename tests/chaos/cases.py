"""The table of faults. Each case is a function of a Bench and says its bounds."""

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time

import misdeeds
from bench import FPS_BESIDE, Case, Skip
from parts import now_ns, wait_until

CASES = []


def case(name, cause, **options):
    def add(function):
        CASES.append(Case(name, cause, function, **options))
        return function
    return add


def repeated(bench):
    """The repetitions of a fault. A camera that breaks again within its `timeout` (5 s) is asked less often."""
    for number in range(bench.repeat):
        if bench.result.problems:
            return
        if number > 0:
            time.sleep(6)
        yield number


# ---- The camera

def told(name, cause, harm, mend, seconds, same_picture=False, **options):
    """The RTSP camera is told to misbehave, and to stop that."""

    def run(bench):
        bench.usual()
        for _ in repeated(bench):
            with bench.fault(same_picture=same_picture):
                bench.camera.tell(harm)
                bench.pause(*seconds)
                if mend:
                    bench.camera.tell(mend)
    CASES.append(Case(name, cause, run, **options))


told("camera stalls", "sends nothing for 3 s, then all that it took in between", "stall", "go", (3,), quick=True)
told("camera stalls for less than a timeout", "sends nothing for 0.2 to 4.5 s, then all of it", "stall", "go", (0.2, 4.5),
     repeat=10)
told("camera freezes", "shows the same picture for 2 s", "freeze", "go", (2,), same_picture=True, quick=True)
told("stamps restart", "RTP time stamps begin at 0", "restart-stamps", None, (0.1,), quick=True)
told("stamps stand still", "every RTP time stamp is the same for 2 s", "hold-stamps", "go", (2,), quick=True)
told("camera's clock jumps on", "RTP time stamps step by +5 s", "step 5000", None, (0.1,), quick=True)
told("camera's clock jumps back", "RTP time stamps step by -5 s", "step -5000", None, (0.1,), quick=True)
told("camera's clock runs fast", "+2000 ppm for 10 s", "drift 2000", "drift 0", (10,))
told("camera's clock runs slow", "-2000 ppm for 10 s", "drift -2000", "drift 0", (10,))
told("packets lost", "10 % of the packets lost for 3 s", "drop 10", "drop 0", (3,), same_picture=True, quick=True)
told("packets corrupted", "10 % of the packets damaged for 3 s", "corrupt 10", "corrupt 0", (3,), same_picture=True,
     quick=True)
told("no sender reports", "RTCP stops for 8 s", "no-rtcp", "rtcp", (8,))
told("connection closed by the camera", "all RTSP connections are closed", "kick", None, (0.01,), quick=True)


@case("picture's size changes", "320x240, 640x480, 320x240 within one stream", quick=True, grows_kib=64 * 1024)
def size_changes(bench):
    bench.usual()
    for _ in repeated(bench):
        for size in ("640x480", "320x240"):
            with bench.fault():
                bench.camera.tell(f"size {size}")


@case("codec changes", "H.264, JPEG, H.264; the camera closes its connections", quick=True, grows_kib=64 * 1024)
def codec_changes(bench):
    bench.usual()
    for number in repeated(bench):
        with bench.fault():
            bench.camera.tell("codec jpeg" if number % 2 == 0 else "codec h264")


def killed(name, seconds, **options):
    def run(bench):
        bench.usual()
        for _ in repeated(bench):
            with bench.fault():
                bench.camera.kill()
                bench.pause(*seconds)
                bench.camera.start()
    CASES.append(Case(name, f"SIGKILL to the camera's server, back after {' to '.join(f'{each:g}' for each in seconds)} s", run,
                      recovery_s=2.0, **options))


killed("server killed", (0.8,), quick=True)
killed("server killed for a while", (1, 4))
killed("server killed for long", (8, 15))


@case("server frozen", "SIGSTOP to the camera's server for 2 s", quick=True)
def server_frozen(bench):
    bench.usual()
    for _ in repeated(bench):
        with bench.fault():
            bench.camera.signal(signal.SIGSTOP)
            bench.pause(2)
            bench.camera.signal(signal.SIGCONT)


@case("server frozen for long", "SIGSTOP to the camera's server for 12 s")
def server_frozen_for_long(bench):
    bench.usual()
    for _ in repeated(bench):
        with bench.fault():
            bench.camera.signal(signal.SIGSTOP)
            bench.pause(12)
            bench.camera.signal(signal.SIGCONT)


# ---- The network

@case("network stalls", "TCP delivers nothing for 3 s, then all of it", quick=True)
def network_stalls(bench):
    bench.usual()
    for _ in repeated(bench):
        with bench.fault():
            bench.network.stall()
            bench.pause(3)
            bench.network.go()


@case("network stalls for 0.2 to 30 s", "TCP delivers nothing for so long", repeat=6)
def network_stalls_for_long(bench):
    bench.usual()
    for number in repeated(bench):
        with bench.fault():
            bench.network.stall()
            bench.pause((0.2, 1, 4, 8, 15, 30)[number % 6])
            bench.network.go()


@case("connection cut", "FIN on both sides", quick=True)
def connection_cut(bench):
    bench.usual()
    for _ in repeated(bench):
        with bench.fault():
            bench.network.cut()


@case("connection reset", "RST on both sides", quick=True)
def connection_reset(bench):
    bench.usual()
    for _ in repeated(bench):
        with bench.fault():
            bench.network.cut(reset=True)


@case("connection refused", "nobody listens for 0.8 s", recovery_s=2.0, quick=True)
def connection_refused(bench):
    bench.usual()
    for _ in repeated(bench):
        with bench.fault():
            bench.network.refuse()
            bench.pause(0.8)
            bench.network.accept()


@case("network slow", "10 kB/s for 3 s", quick=True)
def network_slow(bench):
    bench.usual()
    for _ in repeated(bench):
        with bench.fault():
            bench.network.bytes_per_second = 10_000
            bench.pause(3)
            bench.network.bytes_per_second = 0


@case("bytes corrupted", "four bytes wrong in one of ten pieces of the TCP stream for 3 s", recovery_s=2.0)
def bytes_corrupted(bench):
    bench.usual()
    for _ in repeated(bench):
        with bench.fault(same_picture=True):
            bench.network.corrupt_chance = 0.1
            bench.pause(3)
            bench.network.corrupt_chance = 0.0
            bench.network.cut()  # what is out of step on TCP stays so


@case("network lags for good", "from now on TCP delivers everything 1.5 s late; a new connection is not late; `timeout: 2s`",
      recovery_s=5.0, quick=True)
def network_lags(bench):
    """All frames are too old: the camera starves, until its source is opened anew."""
    bench.usual(more=", timeout: 2s")
    for _ in repeated(bench):
        with bench.fault():
            bench.network.lag(1.5)
        if not any(line["event"] == "state" and line["state"] == "starved" and "too_old" in line["reason"]
                   for line in bench.camd.lines):
            bench.problem("no line tells that the camera starved")


# ---- Servers that misbehave

def misbehaving(bench, kinds, seconds):
    """The troubled camera meets each kind for so many seconds; then it is well again."""
    bench.usual(more=", timeout: 1s, reconnect: {initial: 100ms, max: 200ms}")
    for kind in kinds:
        if not bench.camd.alive():
            break
        tries = bench.network.tries
        with bench.fault(label=kind):
            bench.network.kind = misdeeds.KINDS[kind]
            bench.network.cut()
            wait_until(lambda: bench.network.tries >= tries + 1, 5)
            time.sleep(seconds)
            bench.network.kind = None
            bench.network.cut()


@case("servers that misbehave", "six of the kinds in misdeeds.py, 1 s each", quick=True, repeat=1)
def some_kinds(bench):
    misbehaving(bench, ("nothing", "DESCRIBE: 4 GB body announced", "SETUP: slow bytes", "PLAY: reset",
                        "stream: garbage", "DESCRIBE: login never right"), 1)


for _first in range(0, len(misdeeds.KINDS), 20):
    _kinds = list(misdeeds.KINDS)[_first:_first + 20]
    CASES.append(Case(f"kinds {_first + 1} to {_first + len(_kinds)} of servers", "each for 1 s", repeat=1,
                      run=lambda bench, kinds=_kinds: misbehaving(bench, kinds, 1)))


# ---- camd itself

@case("camd stopped", "SIGSTOP to camd for 3 s", lost_beside=None, quick=True)
def camd_stopped(bench):
    bench.usual()
    for _ in repeated(bench):
        with bench.fault():
            bench.camd.signal(signal.SIGSTOP)
            bench.pause(3)
            bench.camd.signal(signal.SIGCONT)


@case("camd stopped for long", "SIGSTOP to camd for 10 s", lost_beside=None)
def camd_stopped_for_long(bench):
    bench.usual()
    for _ in repeated(bench):
        with bench.fault():
            bench.camd.signal(signal.SIGSTOP)
            bench.pause(10)
            bench.camd.signal(signal.SIGCONT)


@case("camd killed", "SIGKILL to camd, started again at once", lost_beside=None, recovery_s=2.0, quick=True)
def camd_killed(bench):
    bench.usual()
    for _ in repeated(bench):
        begun = now_ns()
        bench.camd.signal(signal.SIGKILL)
        bench.camd.wait(5)
        ended = now_ns()
        wrong = bench.camd.wrong
        bench.camd.close()
        type(bench.camd).__init__(bench.camd, bench.build / "bin/camd", bench.config)
        bench.camd.wrong += wrong
        bench.recovered("door", begun, ended)
        bench.result.before = bench.camd.usage_at_rest()


@case("stdout unread", "nobody reads the metrics for 3 s, with a pipe of 4 KiB", quick=True)
def stdout_unread(bench):
    """Frames go on; the lines come when somebody reads."""
    camera, well = bench.rtsp_camera(), bench.rtsp_camera("--fps", str(FPS_BESIDE))
    camd = bench.start(bench.rtsp("door", camera.port) + bench.rtsp("beside", well.port) + bench.pattern("pattern"),
                       steady=("door", "beside", "pattern"), read=False)
    with contextlib.suppress(OSError):
        fcntl.fcntl(camd.process.stdout, 1031, 4096)  # F_SETPIPE_SZ
    bench.measure_before("door")
    begun = now_ns()
    time.sleep(3)
    fresh = [frame for frame in bench.truth.of("door", begun)]
    if len(fresh) < 60:
        bench.problem(f"{len(fresh)} frames in 3 s while nobody read, of 90")
    camd.drain()
    bench.recovered("door", begun, now_ns())


@case("processor saturated", "four busy processes for each core for 4 s", lost_beside=None, calm=False, quick=True)
def processor_saturated(bench):
    bench.usual()
    for _ in repeated(bench):
        with bench.fault():
            busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                    for _ in range(4 * (os.cpu_count() or 1))]
            bench.pause(4)
            for each in busy:
                each.kill()
            for each in busy:
                each.wait()


def clock_step(name, seconds, **options):
    def run(bench):
        library = bench.build / "lib/chaos/step_clock.so"
        step = bench.folder / "step"
        step.write_bytes((0).to_bytes(8, "little"))
        environment = {**os.environ, "LD_PRELOAD": str(library), "STEP_CLOCK_FILE": str(step)}
        environment.pop("QEMU_SET_ENV", None)  # under qemu-user it would preload another library in place of this one
        bench.usual(environment=environment)
        before = bench.camd.last("camera")["time"]
        for number in repeated(bench):
            with bench.fault():
                ns = seconds * 1_000_000_000 if number % 2 == 0 else 0
                with step.open("r+b") as file:
                    file.write(ns.to_bytes(8, "little", signed=True))
            if number == 0:
                wait_until(lambda: abs(_year(bench.camd.last("camera")["time"]) - _year(before)) >= 1, 2)
                if abs(_year(bench.camd.last("camera")["time"]) - _year(before)) < 1:
                    bench.problem("camd did not see the step: the case shows nothing")
    CASES.append(Case(name, f"CLOCK_REALTIME steps by {seconds // 31_536_000:+d} years", run, **options))


def _year(time_text):
    return int(time_text[:4])


clock_step("wall clock jumps on", 2 * 31_536_000, quick=True)
clock_step("wall clock jumps back", -2 * 31_536_000)


# ---- Disks

@contextlib.contextmanager
def small_disk(bench, kib=256):
    """A file system of that size; unmounted at the end."""
    if os.geteuid() != 0:
        raise Skip("a small file system needs root")
    place = bench.folder / "disk"
    place.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"camd-chaos", str(place).encode(), b"tmpfs", 0, f"size={kib}k".encode()) != 0:
        raise Skip(f"mount: {os.strerror(ctypes.get_errno())}")
    bench._closing.append(lambda: libc.umount2(str(place).encode(), 2))  # MNT_DETACH
    yield place


@case("disk full and freed", "the disk of `jsonl` is full for 3 s, then half of it is free", quick=True, lost_beside=None)
def disk_full(bench):
    with small_disk(bench) as place:
        jsonl = f"  - plugin: jsonl\n    config: {{path: {place}/detections.jsonl}}\n"
        bench.usual(plugins=jsonl)
        for number in repeated(bench):
            with bench.fault():
                filler = place / "filler"
                with contextlib.suppress(OSError), filler.open("wb") as file:
                    while True:
                        file.write(bytes(4096))
                        file.flush()
                bench.pause(3)
                filler.unlink()


@case("files rotated", "the file of `jsonl` is renamed ten times in 4 s, half of them with SIGUSR1", quick=True,
      recovery_s=None, repeat=1)
def rotated(bench):
    file = bench.folder / "detections.jsonl"
    bench.usual(plugins=f"  - plugin: jsonl\n    config: {{path: {file}}}\n")
    since = now_ns()
    for number in range(10):
        # camd finds out by itself within a second of frames.
        if not wait_until(file.exists, 3):
            bench.problem("a renamed file was not opened anew within 3 s")
            return
        bench.pause(0.1, 0.3)
        file.rename(bench.folder / f"detections.{number}.jsonl")
        if number % 2 == 0:
            bench.camd.signal(signal.SIGUSR1)
    bench.pause(0.5)
    until = now_ns()
    bench.pause(0.5)
    lines = [json.loads(line) for each in bench.folder.glob("detections*.jsonl") for line in each.read_text().splitlines()]
    told = [(line["camera"], line["seq"]) for line in lines]
    known = set(told)
    lost = [(frame.camera, frame.sequence) for camera in (*bench.beside, "door") for frame in bench.truth.of(camera, since)
            if frame.seen < until and (frame.camera, frame.sequence) not in known]
    if lost:
        bench.problem(f"{len(lost)} lines are missing, such as {lost[0]}")
    if len(told) != len(known):
        bench.problem("lines are there twice")


# ---- Plug-ins

def bad_plugin(how, cause, more="", **options):
    """A plug-in that does wrong with each frame, and a reload without it."""

    def run(bench):
        cameras = bench.pattern("door") + bench.pattern("pattern")
        camd = bench.start(cameras, beside=("pattern",), plugins=bench.bad_plugin(how, more), steady=())
        wait_until(lambda: (totals := camd.totals("door")) and totals["captured"] >= 15 or not camd.alive(), 10)
        bench.result.before = None
        bench._troubled = "door"
        if not camd.alive():
            bench.problem(f"camd ended with {camd.process.poll()}")
            return
        with bench.fault():
            bench.configure(cameras)
            camd.signal(signal.SIGHUP)
            wait_until(lambda: camd.last("reload") is not None or not camd.alive(), 10)
    CASES.append(Case(f"plug-in: {how}", cause, run, lost_beside=None, repeat=1, **options))


bad_plugin("throw_process", "throws in process() through the adaptor", quick=True)
bad_plugin("raw_throw_process", "throws in process() past the adaptor", quick=True)
bad_plugin("null_items", "hands back a list without items", quick=True)
bad_plugin("huge_capacity", "hands back a list of 2^30 items", quick=True)
bad_plugin("moved_items", "hands back another list")
bad_plugin("over_capacity", "says that there is more than fits")
bad_plugin("negative_count", "counts below 0")
bad_plugin("nan_score", "gives a score that is no number")
bad_plugin("unended_text", "writes a text without an end")
bad_plugin("no_utf8", "writes what is no UTF-8", quick=True)


@case("plug-in hangs", "never returns from process(); SIGTERM", lost_beside=None, recovery_s=None, exit_code=3, repeat=1,
      quick=True)
def plugin_hangs(bench):
    camd = bench.start(bench.pattern("door") + bench.pattern("pattern"), beside=(), plugins=bench.bad_plugin("gate"),
                       steady=())
    wait_until(lambda: (totals := camd.totals("door")) and totals["captured"] >= 15, 10)
    bench.result.exit_code = None
    begun = time.monotonic()
    bench.result.exit_code = camd.stop(12)
    took = time.monotonic() - begun
    if took > 3:
        bench.problem(f"ended {took:.1f} s after SIGTERM, bound 3 s")
    if camd.last("stop") is None:
        bench.problem("no final totals")
    if not any("misbehave" in line for line in camd.log):
        bench.problem("the log does not name the plug-in")
