"""What the chaos harness is built from: camd, the RTSP camera, a proxy between them, and what is true of a frame.

Threads: one reader for each pipe of camd, two pumps for each connection of the proxy; all else runs in the main thread.
"""

import collections
import contextlib
import json
import os
import queue
import random
import re
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

REASONS = ("superseded", "too_old", "gated", "source_error", "device_error", "plugin_error", "shutdown")


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def wait_until(condition, seconds, step=0.005):
    """Whether the condition came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(step)
    return True


def percentile(values, part):
    """The smallest value that at least `part` percent of all do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(1, -(-len(ordered) * part // 100)) - 1]


def balance(totals):
    """What the ledger's equation misses: 0."""
    return totals["captured"] - totals["delivered"] - sum(totals["dropped"].values()) - totals["in_flight"]


# ---- A network of one layer, so that the figures are of camd and not of a detector

def _varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def _field(number, value):
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    value = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def tiny_model(path, side=32):
    """Writes an ONNX file (onnx/onnx.proto): one Relu of [1,3,side,side]."""
    shape = b"".join(_field(1, _field(1, extent)) for extent in (1, 3, side, side))
    tensor = _field(1, _field(1, 1) + _field(2, shape))
    value = lambda name: _field(1, name) + _field(2, tensor)
    node = _field(1, "x") + _field(2, "y") + _field(4, "Relu")
    graph = _field(1, node) + _field(2, "tiny") + _field(11, value("x")) + _field(12, value("y"))
    Path(path).write_bytes(_field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, 13)))


# ---- What is true

Frame = collections.namedtuple("Frame", "camera sequence captured arrived seen number true width height uncertainty")


class Truth:
    """The lines that the plug-in `truth` has written (tests/chaos/truth.cpp)."""

    def __init__(self, path):
        self.path = Path(path)
        self.frames = []
        self._offset = 0
        self._rest = b""

    def update(self):
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
            self._offset += len(new)
            *lines, self._rest = (self._rest + new).split(b"\n")
            for line in lines:
                words = line.decode().split(" ")
                if len(words) == 10:
                    numbers = [None if word == "-" else int(word) for word in words[1:]]
                    self.frames.append(Frame(words[0], *numbers))
        return self.frames

    def of(self, camera, since=0):
        """The camera's frames that were seen after `since`."""
        return [frame for frame in self.update() if frame.camera == camera and frame.seen >= since]


# ---- The processes

class RtspCamera:
    """tests/support/rtsp_server.cpp."""

    def __init__(self, binary, arguments=(), port=0):
        self.binary, self.arguments, self.port = str(binary), list(arguments), port
        self.start()

    def start(self):
        """Returns when it answers."""
        self.process = subprocess.Popen([self.binary, str(self.port), *self.arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1)
        said = self.process.stdout.readline()
        if not said.startswith("ready "):
            raise RuntimeError(f"the RTSP camera does not start: {said!r}")
        self.port = int(said.split()[1])

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        said = self.process.stdout.readline().strip()
        if not said.startswith(("ok", "now")):
            raise RuntimeError(f"the RTSP camera was told {command!r} and said {said!r}")
        return said

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def close(self):
        if self.process.poll() is None:
            self.kill()


Usage = collections.namedtuple("Usage", "rss_kib descriptors threads")


def descriptors(pid, numbers=None):
    """What each of these descriptors of the process (all that are open) stands for, such as pipe:[123]."""
    found = []
    for number in numbers or os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            found.append(os.readlink(f"/proc/{pid}/fd/{number}"))
    return found


def symbolizer_pipes(pid):
    """The pipes to a sanitizer's symbolizer, which it starts when it first has to name a function, and keeps."""
    found = set()
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                if "symbolizer" in Path(f"/proc/{child}/comm").read_text():
                    found.update(descriptors(child, (0, 1)))  # its further ones are camd's own
    return found


def at_rest(usages):
    """What a process has between two waits. While a thread goes from one to the next, the descriptor by which its wait can
    be ended is closed for a moment: a sample may have one less than there are."""
    usages = [usage for usage in usages if usage]
    return usages[-1]._replace(descriptors=max(usage.descriptors for usage in usages)) if usages else None


def usage_of(pid):
    """What the process has now; None where it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        others = symbolizer_pipes(pid)
        ours = [file for file in descriptors(pid) if file not in others]
        return Usage(int(fields["VmRSS"].split()[0]), len(ours), int(fields["Threads"]))
    except (OSError, KeyError):
        return None


class Camd:
    """The built daemon."""

    def __init__(self, binary, config, arguments=(), environment=None, read=True, full_log=False):
        """`read=False`: nobody reads its stdout until drain() is called. `full_log`: its stderr is a full pipe."""
        self.lines = []        # of stdout
        self.wrong = []        # lines that break the ledger's equation, or are no metrics
        self.log = []          # of stderr
        self.ledger_lines = 0
        self.told_stop = None  # when its last line came
        self._readers = []
        self.process = subprocess.Popen(
            [str(binary), "run", str(config), "--metrics", "json", *arguments], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE if not full_log else self._full_pipe(), env=environment)
        if not full_log:
            self._follow(self.process.stderr, self._take_log)
        if read:
            self.drain()

    def _full_pipe(self):
        self._unread, write = os.pipe()
        os.set_blocking(write, False)
        try:
            while os.write(write, b"x" * 4096):
                pass
        except BlockingIOError:
            os.set_blocking(write, True)
        return write

    def drain(self):
        self._follow(self.process.stdout, self._take_line)

    def _follow(self, pipe, take):
        def run():
            for line in pipe:
                take(line)
        reader = threading.Thread(target=run, daemon=True)
        reader.start()
        self._readers.append(reader)

    def _take_log(self, line):
        self.log.append(line.decode(errors="replace").rstrip())

    def _take_line(self, text):
        try:
            line = json.loads(text.decode())
        except ValueError:
            self.wrong.append(f"no JSON in UTF-8: {text[:200]!r}")
            return
        self.lines.append(line)
        if line["event"] == "stop":
            self.told_stop = time.monotonic()
        totals = [(line.get("camera"), line["totals"])] if "totals" in line else []
        totals += [(each["camera"], each["totals"]) for each in line.get("cameras", []) if isinstance(each, dict)]
        for camera, each in totals:
            self.ledger_lines += 1
            if balance(each) != 0:
                self.wrong.append(f"{line['event']} {camera or 'all'}: {each} misses {balance(each)}")

    def last(self, event, camera=None):
        for line in reversed(self.lines):
            if line["event"] == event and (camera is None or line.get("camera") == camera):
                return line
        return None

    def totals(self, camera):
        line = self.last("camera", camera)
        return line["totals"] if line else None

    def alive(self):
        return self.process.poll() is None

    def usage(self):
        return usage_of(self.process.pid)

    def usage_at_rest(self, samples=5):
        usages = []
        for _ in range(samples):
            usages.append(self.usage())
            time.sleep(0.02)
        return at_rest(usages)

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds):
        """Its exit code, -N for signal N; None when it did not end in time."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        for reader in self._readers:
            reader.join(2)
        return code

    def stop(self, seconds=5):
        if self.alive():
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        return self.wait(seconds)

    def close(self):
        if self.alive():
            self.process.kill()
            self.process.wait()
        for reader in self._readers:
            reader.join(2)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


# ---- The network between them

class Connection:
    """One connection of camd through the proxy."""

    def __init__(self, proxy, client):
        self.proxy, self.client, self.upstream = proxy, client, None
        self.lag_s = 0.0   # from now on everything comes so late
        self._late = None  # a queue of (when it is due, bytes)

    def open_upstream(self):
        self.upstream = socket.create_connection(("127.0.0.1", self.proxy.target), timeout=5)
        self.upstream.settimeout(None)

    def pump(self, source, sink, towards_camd):
        try:
            while data := source.recv(65536):
                self.proxy.wait_while_stalled()
                if towards_camd:
                    self.send(sink, data)
                else:
                    sink.sendall(data)
        except OSError:
            pass
        if towards_camd and self._late:
            self._late.put((0, b""))
        self.close()

    def send(self, sink, data):
        if not self.lag_s:
            self.send_spoilt(sink, data)
            return
        if not self._late:
            self._late = queue.SimpleQueue()
            threading.Thread(target=self._send_late, args=(sink,), daemon=True).start()
        self._late.put((time.monotonic() + self.lag_s, data))

    def _send_late(self, sink):
        with contextlib.suppress(OSError):
            while True:
                due, data = self._late.get()
                if not data:
                    return
                time.sleep(max(0, due - time.monotonic()))
                self.send_spoilt(sink, data)

    def send_spoilt(self, sink, data):
        data = self.proxy.spoil(data)
        while (rate := self.proxy.bytes_per_second) and data:
            sink.sendall(data[:500])
            data = data[500:]
            time.sleep(500 / rate)
        sink.sendall(data)

    def pump_both(self):
        other = threading.Thread(target=self.pump, args=(self.client, self.upstream, False), daemon=True)
        other.start()
        self.pump(self.upstream, self.client, True)
        other.join()

    def close(self, reset=False):
        for one in (self.client, self.upstream):
            if one is None:
                continue
            try:
                if reset:  # RST instead of FIN
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            if reset:
                try:
                    one.shutdown(socket.SHUT_RD)
                except OSError:
                    pass
                one.close()


Left = collections.namedtuple("Left", "bytes threads descriptors names")  # names: that GLib has interned


class Sources:
    """RTSP sources in a program of their own (sources.cpp). Its heap holds what is in use, and not what GLib's slices keep."""

    def __init__(self, program, patience_s, wait_s, cameras):
        """`cameras`: how many ask each port."""
        self.process = subprocess.Popen(
            [str(program), f"{1000 * patience_s:.0f}", f"{1000 * wait_s:.0f}",
             *(f"{port}:{count}" for port, count in cameras.items())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "G_SLICE": "always-malloc"})

    def alive(self):
        return self.process.poll() is None

    def rss_kib(self):
        """None where it is gone."""
        try:
            return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
        except (OSError, IndexError):
            return None

    def cpu_s(self):
        """User's and system's time of the process so far."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        """What they say: (how long stopping took, the sources that hung, what is left of the program)."""
        said, _ = self.process.communicate(timeout=60)
        stopped = re.search(r"stopped in (\d+) ms, (\d+) hung", said)
        left = re.search(r"left: (\d+) bytes, (\d+) threads, (\d+) descriptors, (\d+) names", said)
        if not stopped:
            raise RuntimeError(f"the sources say {said!r} and end with {self.process.returncode}")
        return int(stopped[1]) / 1000, int(stopped[2]), Left(*map(int, left.groups())) if left else None

    def kill(self):
        if self.alive():
            self.process.kill()
            self.process.wait()


class Proxy:
    """TCP between camd and its camera: it can stall, cut, reset, refuse, slow down and corrupt, and be another server."""

    def __init__(self, target, seed=0):
        self.target = target
        self.random = random.Random(seed)
        self.tries = 0
        self.kind = None  # a function of the Connection that serves it instead (misdeeds.py)
        self.on_misdeed = lambda: None  # called by it, in the connection's thread, when it does what it is there for
        self.recorded = None            # the true camera's answers for the kinds, which then need no camera
        self.endless_pause_s = 0.0      # of kinds that send without end, after each piece
        self.corrupt_chance = 0.0
        self.bytes_per_second = 0
        self._go = threading.Event()
        self._go.set()
        self._lock = threading.Lock()
        self._connections = set()
        self.port = 0
        self.listener = None
        self.accept()

    def accept(self):
        """Connections are taken (again), at the same port."""
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.port))
        self.listener.listen(256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def refuse(self):
        """Nobody listens, and nobody is connected."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()

    def stall(self):
        self._go.clear()

    def go(self):
        self._go.set()

    def lag(self, seconds):
        """The connections of this moment are late for good; new ones are not."""
        with self._lock:
            for connection in self._connections:
                connection.lag_s = seconds

    def cut(self, reset=False):
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close(reset)

    def wait_while_stalled(self):
        self._go.wait()

    def spoil(self, data):
        if self.corrupt_chance and self.random.random() < self.corrupt_chance:
            spoilt = bytearray(data)
            for _ in range(4):
                spoilt[self.random.randrange(len(spoilt))] ^= self.random.randrange(1, 256)
            return bytes(spoilt)
        return data

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self.tries += 1
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(Connection(self, client),), daemon=True).start()

    def _serve(self, connection):
        with self._lock:
            self._connections.add(connection)
        try:
            if self.kind:
                self.kind(connection)
            else:
                connection.open_upstream()
                connection.pump_both()
        except OSError:
            pass
        finally:
            connection.close()
            for one in (connection.client, connection.upstream):
                if one is not None:
                    one.close()
            with self._lock:
                self._connections.discard(connection)

    def close(self):
        self.go()
        try:
            self.refuse()
        except OSError:
            pass
