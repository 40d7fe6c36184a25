"""The table of faults, continued: what surrounds camd. Its start, its limits, its files, its secrets, and systemd."""

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import guest
import misdeeds
from bench import FPS_BESIDE, Case, Skip
from cases import CASES, case
from cases_reload import another_chain, reloads
from parts import Camd, _field, now_ns, wait_until

__all__ = ["CASES"]


def started_by(bench, script):
    """A shell script that becomes camd: its process is camd's."""
    path = bench.folder / "start.sh"
    path.write_text(f'#!/bin/sh\n{script}\nexec {shlex.quote(str(bench.build / "bin/camd"))} "$@"\n')
    path.chmod(0o755)
    return path


# ---- Start and stop

@case("one bad camera at the start", "a pipeline without an end, a server that is away, a file that is no video",
      recovery_s=None, quick=True, repeat=1)
def bad_camera_at_start(bench):
    broken = bench.folder / "broken.mp4"
    broken.write_bytes(b"no video" * 1000)
    well = bench.rtsp_camera("--fps", str(FPS_BESIDE))
    bench.start(f"  - name: away\n    source: {{type: rtsp, url: \"rtsp://127.0.0.1:1/live\"}}\n"
                f"  - name: broken\n    source: {{type: file, path: {broken}}}\n" +
                bench.rtsp("beside", well.port) + bench.pattern("pattern"))
    time.sleep(1)


@case("hanging cameras at the end", "100 servers that never answer; SIGTERM", recovery_s=None, quick=True, repeat=1)
def hanging_cameras(bench):
    camera = bench.rtsp_camera()
    network = bench.proxy(camera)
    network.kind = misdeeds.KINDS["nothing"]
    bench.start("".join(bench.rtsp(f"hangs{number}", network.port) for number in range(100)) + bench.pattern("pattern"),
                beside=("pattern",))
    wait_until(lambda: network.tries >= 100, 10)


@case("second signal", "SIGTERM and SIGINT while a plug-in hangs", recovery_s=None, lost_beside=None, exit_code=None,
      quick=True, repeat=1)
def second_signal(bench):
    camd = bench.start(bench.pattern("door"), beside=(), plugins=bench.bad_plugin("gate"), steady=())
    wait_until(lambda: (totals := camd.totals("door")) and totals["captured"] >= 15, 10)
    camd.signal(signal.SIGTERM)
    time.sleep(0.3)
    begun = time.monotonic()
    camd.signal(signal.SIGINT)
    bench.result.exit_code = camd.wait(10)
    if bench.result.exit_code is None or time.monotonic() - begun > 1:
        bench.problem(f"ended {time.monotonic() - begun:.1f} s after the second signal, bound 1 s")


@case("stderr unread", "nobody reads the log, and its pipe is full; a camera comes and goes; SIGTERM", recovery_s=None,
      repeat=1, quick=True)
def stderr_unread(bench):
    if bench.sanitized:
        raise Skip("a sanitizer writes to stderr at the end, and waits")
    camera, well = bench.rtsp_camera(), bench.rtsp_camera("--fps", str(FPS_BESIDE))
    network = bench.proxy(camera)
    bench.start(bench.rtsp("door", network.port, ", reconnect: {initial: 10ms, max: 20ms}") +
                bench.rtsp("beside", well.port) + bench.pattern("pattern"), steady=("door", "beside", "pattern"),
                full_log=True)
    bench.measure_before("door")
    for _ in range(20):
        network.cut()
        time.sleep(0.15)


# ---- A guest's kernel

CASES.append(Case("V4L2 camera unplugged", "`vivid` in a QEMU guest is unbound for 2 s while camd reads from it, three times; before, camd is stopped for 1 s, and what the driver drops is counted",
                  guest.unplugged, repeat=1, calm=False))
CASES.append(Case("V4L2 camera unplugged, pictures in place", "the same, and the driver writes into memory that camd lends it and shares with a plug-in's process: nothing is copied",
                  guest.unplugged_in_place, repeat=1, calm=False))
CASES.append(Case("V4L2 pictures in place", "`vivid` in a QEMU guest writes into memory that camd lends it: the same pictures, none torn while it is held, unbound while some are held; one that does not is copied",
                  guest.in_place, repeat=1, calm=False))


# ---- Standard descriptors and limits

@case("stdout closed by its reader", "the pipe's other end is closed, frames go on; SIGTERM", recovery_s=None, repeat=1,
      quick=True)
def stdout_closed(bench):
    camera, well = bench.rtsp_camera(), bench.rtsp_camera("--fps", str(FPS_BESIDE))
    camd = bench.start(bench.rtsp("door", camera.port) + bench.rtsp("beside", well.port) + bench.pattern("pattern"),
                       steady=("door", "beside", "pattern"), read=False)
    camd.process.stdout.close()
    since = now_ns()
    time.sleep(2)
    if not camd.alive():
        bench.problem(f"camd ended with {camd.process.poll()}")
    fresh = len(bench.truth.of("door", since))
    if fresh < 45:
        bench.problem(f"{fresh} frames in 2 s without a reader, of 60")
    bench.result.exit_code = camd.stop(5)


@case("descriptors 0 to 2 closed", "camd is started without stdin, stdout and stderr; SIGTERM", recovery_s=None, repeat=1,
      quick=True, lost_beside=None)
def descriptors_closed(bench):
    """What camd opens itself must not become the place where libraries write their words."""
    config = bench.configure(bench.pattern("pattern"))
    camd = bench.camd = Camd(started_by(bench, "exec <&- >&- 2>&-"), config)
    bench._closing.append(camd.close)
    bench.await_steady(("pattern",))
    for number in (0, 1, 2):
        file = os.readlink(f"/proc/{camd.process.pid}/fd/{number}")
        if file != "/dev/null":
            bench.problem(f"descriptor {number} is {file}")
    bench.result.exit_code = camd.stop(5)
    if len(bench.truth.update()) != len(bench.truth.path.read_text().splitlines()):
        bench.problem("there is something else in the file that a plug-in writes")


@case("180 cameras, 1024 descriptors", "all are away; the soft limit is 1024, the hard one is not", recovery_s=None,
      repeat=1, quick=True)
def many_cameras(bench):
    bench.config = bench.configure("".join(bench.rtsp(f"away{number}", 1) for number in range(180)) +
                                   bench.pattern("pattern"))
    bench.beside = ("pattern",)
    bench.camd = Camd(started_by(bench, "ulimit -S -n 1024"), bench.config)
    bench._closing.append(bench.camd.close)
    bench.await_steady(bench.beside)
    wait_until(lambda: bench.camd.last("camera", "away179"), 5)


@case("180 cameras, 256 descriptors", "the hard limit is 256 as well: refused, with numbers", recovery_s=None, repeat=1,
      quick=True, lost_beside=None, exit_code=2)
def too_many_cameras(bench):
    config = bench.configure("".join(bench.rtsp(f"away{number}", 1) for number in range(180)))
    camd = bench.camd = Camd(started_by(bench, "ulimit -n 256"), config)
    bench._closing.append(camd.close)
    bench.result.exit_code = camd.wait(10)
    if bench.result.exit_code is None:
        bench.problem("it was not refused within 10 s")
    if not any("180 cameras need up to" in line and "256" in line for line in camd.log):
        bench.problem(f"the log does not say how much is missing: {camd.log[-1:]}")


def peak_mib(pid):
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) // 1024


@case("picture of 20000x20000", "a PNG of 2 MB that is 400 MB of pixels is a camera's file", recovery_s=None,
      repeat=1, quick=True)
def huge_picture(bench):
    def chunk(kind, data):
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
    side = 20000
    pixels = zlib.compress(bytes(side * (1 + side)), 1)
    huge = bench.folder / "huge.png"
    huge.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", side.to_bytes(4, "big") * 2 + b"\x08\0\0\0\0") +
                     chunk(b"IDAT", pixels) + chunk(b"IEND", b""))
    well = bench.rtsp_camera("--fps", str(FPS_BESIDE))
    bench.start(f"  - name: huge\n    source: {{type: file, path: {huge}}}\n" + bench.rtsp("beside", well.port) +
                bench.pattern("pattern"))
    wait_until(lambda: (line := bench.camd.last("camera", "huge")) and line["state"] in ("failed", "ended"), 10)
    peak = peak_mib(bench.camd.process.pid)
    if peak > 300:
        bench.problem(f"camd took {peak} MiB, bound 300")


def padded_model(path, side):
    """A Pad of [1,3,64,64] to [1,3,side,side]: a model of some 200 bytes whose frames would fill the machine."""
    def value(name, extent):
        shape = b"".join(_field(1, _field(1, each)) for each in (1, 3, extent, extent))
        return _field(1, name) + _field(2, _field(1, _field(1, 1) + _field(2, shape)))
    pads = b"".join(_field(8, each) for each in (0, 0, 0, 0, 0, 0, side - 64, side - 64))
    pad = _field(1, "x") + _field(2, "y") + _field(4, "Pad") + _field(5, _field(1, "pads") + pads + _field(20, 7))
    graph = _field(1, pad) + _field(2, "pad") + _field(11, value("x", 64)) + _field(12, value("y", side))
    path.write_bytes(_field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, 10)))


def huge_model(bench, cameras, number):
    padded_model(bench.folder / "huge.onnx", 20000)
    path = bench.configure("".join(cameras.values()))
    path.write_text(path.read_text().replace("tiny.onnx", "huge.onnx"))


reloads("reload: model that would fill the machine", "SIGHUP, a model of 200 bytes pads each frame to 4.8 GB", huge_model,
        "refused", quick=True)


@case("connection cut 60 times", "FIN on both sides, after ten others; memory stays where it is", grows_kib=8 * 1024, repeat=1)
def cut_often(bench):
    """Each connection has new threads, and what they freed must not pile up in heaps of their own."""
    bench.usual(more=", reconnect: {initial: 50ms, max: 50ms}")
    for number in range(70):
        if bench.result.problems:
            return
        with bench.fault():
            bench.network.cut()
        if number == 9:
            bench.measure_before("door")


@case("redirected for ever", "the server answers DESCRIBE with its own address for 3 s; descriptors are counted meanwhile",
      quick=True)
def redirected(bench):
    bench.usual(more=", reconnect: {initial: 100ms, max: 200ms}")
    for _ in range(bench.repeat):
        with bench.fault():
            bench.network.kind = misdeeds.KINDS["DESCRIBE: redirect to itself"]
            bench.network.cut()
            most = 0
            for _ in range(30):
                time.sleep(0.1)
                most = max(most, bench.camd.usage().descriptors)
            bench.network.kind = None
            bench.network.cut()
        if most > bench.result.before.descriptors + 20:
            bench.problem(f"camd had {most} descriptors, {bench.result.before.descriptors} before")


# ---- Losses, and cameras that run in vain

@case("damaged pictures dropped", "10 % of the packets lost for 3 s, with `damaged: drop`", quick=True)
def losses_counted(bench):
    bench.usual(camera=", damaged: drop")
    for _ in range(bench.repeat):
        before = bench.camd.last("camera", "door")["upstream"]
        with bench.fault(same_picture=True):
            bench.camera.tell("drop 10")
            bench.pause(3)
            bench.camera.tell("drop 0")
        time.sleep(0.6)  # the next line
        after = bench.camd.last("camera", "door")
        for name in ("packets_lost", "frames_damaged"):
            if after["upstream"][name] <= before[name]:
                bench.problem(f"{name} did not count: {after['upstream']}")
        if after["totals"]["dropped"]["source_error"] == 0:
            bench.problem("no damaged picture was dropped")


@case("camera starves", "a plug-in fails with every frame until a reload without it; the camera is `starved`",
      lost_beside=None, repeat=1, quick=True)
def starves(bench):
    bench.usual(more=", timeout: 1s")
    whole = bench.config.read_text()
    bench.config.write_text(whole.replace("postprocess:\n", "postprocess:\n" + bench.bad_plugin("throw_process")))
    with bench.fault():
        bench.camd.signal(signal.SIGHUP)
        if not wait_until(lambda: bench.camd.last("camera", "door")["state"] == "starved", 5):
            bench.problem(f"the state is {bench.camd.last('camera', 'door')['state']}, wanted starved")
        bench.config.write_text(whole)
        bench.camd.signal(signal.SIGHUP)
        wait_until(lambda: sum(line["event"] == "reload" for line in bench.camd.lines) >= 2, 5)
    if not wait_until(lambda: bench.camd.last("camera", "door")["state"] == "running", 3):
        bench.problem("the camera is not running again")
    if not any("door" in line and "starved" in line for line in bench.camd.log):
        bench.problem("the log does not say that the camera starves")


# ---- Reload, continued

@case("reload under load", "SIGHUP, another chain, while four busy processes for each core run", lost_beside=None,
      calm=False)
def reload_under_load(bench):
    bench.usual()
    for number in range(2 * bench.repeat):  # the chain comes and goes
        seen = sum(line["event"] == "reload" for line in bench.camd.lines)
        with bench.fault():
            busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                    for _ in range(4 * (os.cpu_count() or 1))]
            cameras = bench.config.read_text().split("cameras:\n")[1].split("postprocess:\n")[0]
            another_chain(bench, {"all": cameras}, number)
            bench.camd.signal(signal.SIGHUP)
            if not wait_until(lambda: sum(line["event"] == "reload" for line in bench.camd.lines) > seen, 20):
                bench.problem("no `reload` line within 20 s")
            for each in busy:
                each.kill()
                each.wait()


@case("reload while draining", "SIGTERM, then SIGHUP ten times within 50 ms", recovery_s=None, lost_beside=None, repeat=1,
      quick=True)
def reload_while_draining(bench):
    bench.usual()
    bench.camd.signal(signal.SIGTERM)
    begun = time.monotonic()
    for _ in range(10):
        with contextlib.suppress(ProcessLookupError):
            bench.camd.signal(signal.SIGHUP)
        time.sleep(0.005)
    bench.result.exit_code = bench.camd.wait(10)
    if bench.result.exit_code is None or time.monotonic() - begun > 2:
        bench.problem(f"ended {time.monotonic() - begun:.1f} s after SIGTERM, bound 2 s")
    if bench.camd.last("stop") is None:
        bench.problem("no last line")


# ---- Files

@case("files of earlier runs", "SIGKILL to camd while it writes lines and a film, started again with the same paths",
      recovery_s=None, lost_beside=None, repeat=1, quick=True)
def earlier_files(bench):
    """What an earlier run wrote is still there after the next one."""
    lines, film = bench.folder / "found.jsonl", bench.folder / "film.mp4"
    outlets = (f"  - plugin: jsonl\n    config: {{path: {lines}}}\n"
               f"  - plugin: annotate\n    config: {{path: {film}}}\n")
    camd = bench.start(bench.pattern("pattern"), beside=("pattern",), plugins=outlets)
    time.sleep(1.5)
    camd.signal(signal.SIGKILL)
    camd.wait(5)
    camd.close()
    whole = lines.read_bytes().rpartition(b"\n")[0] + b"\n"
    films = {path: path.read_bytes() for path in bench.folder.glob("film*")}
    if not films or not whole.strip():
        bench.problem("the run before left no file: the case shows nothing")
    since = now_ns()
    type(camd).__init__(camd, bench.build / "bin/camd", bench.config)
    wait_until(lambda: len(bench.truth.of("pattern", since)) >= 15, 20)
    bench.result.exit_code = camd.stop(10)
    if not lines.read_bytes().startswith(whole):
        bench.problem("lines of the earlier run are gone")
    if len(lines.read_bytes()) <= len(whole):
        bench.problem("the second run wrote no lines")
    for path, content in films.items():
        if path.read_bytes()[:len(content)] != content:
            bench.problem(f"the earlier run's {path.name} was written over")


# ---- Secrets

@case("secrets", "a password from a file; the camera is well, then refuses the login, then is away", repeat=1, quick=True)
def secrets(bench):
    secret = "s3cret-%x" % bench.random.getrandbits(48)
    file = bench.folder / "password"
    file.write_text(secret + "\n")
    bench.camera = bench.rtsp_camera("user", secret)
    bench.network = bench.proxy(bench.camera)
    well = bench.rtsp_camera("--fps", str(FPS_BESIDE))
    door = bench.rtsp("door", bench.network.port, ", timeout: 1s, reconnect: {initial: 100ms, max: 200ms}").replace("rtsp://", f"rtsp://user:${{file:{file}}}@")
    camd = bench.start(door + bench.rtsp("beside", well.port) + bench.pattern("pattern"),
                       steady=("door", "beside", "pattern"))
    bench.measure_before("door")
    with bench.fault():
        for kind in ("DESCRIBE: login never right", "DESCRIBE: 404", "DESCRIBE: garbage"):
            bench.network.kind = misdeeds.KINDS[kind]
            bench.network.cut()
            time.sleep(0.7)
        bench.network.kind = None
        bench.network.cut()
    bench.camera.kill()
    time.sleep(0.5)
    bench.camera.start()
    shown = [str(line) for line in (*camd.lines, *camd.log)]
    for name in ("cmdline", "environ", "comm"):
        shown.append(Path(f"/proc/{camd.process.pid}/{name}").read_bytes().decode(errors="replace"))
    if any(secret in text for text in shown):
        bench.problem(f"the password is shown: {next(text for text in shown if secret in text)[:160]}")
    if not any("door" in text for text in camd.log):
        bench.problem("the log says nothing about the camera: the case shows nothing")


# ---- systemd

class Manager:
    """The socket at which systemd is told (sd_notify(3)): (when, NAME, value)."""

    def __init__(self, path):
        self.told = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        with contextlib.suppress(OSError):
            while message := self._socket.recv(65536):
                for line in message.decode().splitlines():
                    name, _, value = line.partition("=")
                    self.told.append((time.monotonic(), name, value))

    def has(self, name, part="", since=0.0):
        return any(when >= since and name == other and part in value for when, other, value in list(self.told))


@case("systemd is told", "ready; a camera away; a reload, a refused one; frames that do not come through; SIGTERM",
      recovery_s=None, lost_beside=None, exit_code=None, repeat=1, quick=True)
def systemd(bench):
    manager = Manager(bench.folder / "notify")
    environment = {**os.environ, "NOTIFY_SOCKET": str(bench.folder / "notify"), "WATCHDOG_USEC": "1000000"}
    bench.usual(environment=environment)

    def expect(what, name, part="", since=0.0, seconds=8):
        if not wait_until(lambda: manager.has(name, part, since), seconds):
            bench.problem(f"not told: {what}")

    expect("ready", "READY", "1")
    expect("the watchdog", "WATCHDOG", "1")
    bench.network.refuse()
    expect("a camera that is away", "STATUS", "door reconnecting")
    bench.network.accept()
    since = time.monotonic()
    expect("a camera that is back", "STATUS", "3 of 3 cameras running", since, 15)
    since = time.monotonic()
    bench.camd.signal(signal.SIGHUP)
    expect("a reload", "RELOADING", "1", since)
    expect("a reload's end", "READY", "1", since)
    since = time.monotonic()
    good = bench.config.read_text()
    bench.config.write_text("pipelin: {}\n" + good)
    bench.camd.signal(signal.SIGHUP)
    expect("a refused reload", "STATUS", "pipelin", since)
    # A plug-in that never returns: systemd hears nothing more, and would start camd anew.
    bench.config.write_text(good.replace("postprocess:\n", "postprocess:\n" + bench.bad_plugin("gate")))
    bench.camd.signal(signal.SIGHUP)
    quiet = wait_until(lambda: (last := max((when for when, name, _ in list(manager.told) if name == "WATCHDOG"),
                                            default=0.0)) and time.monotonic() - last > 1.5, 15)
    if not quiet:
        bench.problem("the watchdog is fed while no frame comes through")
    since = time.monotonic()
    bench.camd.signal(signal.SIGTERM)
    expect("the end", "STOPPING", "1", since)
    bench.result.exit_code = bench.camd.wait(10)
    if bench.result.exit_code != 3:
        bench.problem(f"exit code {bench.result.exit_code}, wanted 3")
