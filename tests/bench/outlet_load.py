#!/usr/bin/env python3
"""10,000 messages a second into each outlet, in turns with none: what that does to the pipeline's latency.

usage: outlet_load.py BUILD [--rounds 15] [--turn 2.0] [--outlets nothing,mqtt,webhook,kafka] [--cores N] [--fps 40]
                       [--short SECONDS] [--awake] [--many FILE] [--servers FOLDER]

Eight cameras of 64x48 at 40 frames a second through a network of one layer; a plug-in adds 31 events to each frame, so that with
`publish: frame` an outlet gets 32 messages a frame, 10,240 a second. The other side is on this machine: mosquitto, a web server
of Python, librdkafka's mock cluster, each a process of its own.

One camd runs all the time. A reload puts the outlet in and takes it out again, so that both kinds of turns have the same process,
memory and threads. A round has a turn of each outlet, in an order drawn by lot, and before each a turn without any; an outlet's
turn is compared with all those of its round. What comes within 0.6 s of a reload does not count. `nothing` is a plug-in that does
nothing, put in and taken out in the same way: what the measurement itself does to the ratios. camd has one half of the cores for
itself, with their hyperthreads; the other sides and this program have the other half.

Each frame has the times of the first and the last plug-in, so that a frame's latency falls into the outlet's call and the rest. The
intervals hold 95 of 100 ratios of rounds drawn anew (bootstrap). Behind them is what the rounds' own ratios are.

--short: as many rounds as fit into so many seconds, of one turn of each outlet, two of `nothing` and none without. The first `nothing` is
what the others of its round are compared with, `nothing again` too. An outlet that cannot be had is named and left out.

BUILD is a build's folder, or a bundle (scripts/bundle.sh). --prepare FOLDER puts there what a machine without cc, mosquitto and
librdkafka needs for --many and --servers, from those of this machine.
"""

import argparse
import array
import bisect
import http.server
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests/chaos"), str(SOURCE / "scripts")]
from parts import tiny_model, wait_until  # noqa: E402
from turns import Awake, halves, pairs_of, percentile, ratio_of  # noqa: E402

PLUGIN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "plugins/camd_plugin.h"
enum { kMany, kMark, kNothing };
struct one {
  const camd_host* host;
  int role;
  FILE* file;
};
static _Thread_local int64_t entered, added;  /* of the frame that is in hand */
static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}
static int32_t create(const camd_host* host, const char* config, void** instance, camd_error* error) {
  (void)error;
  struct one* made = calloc(1, sizeof(*made));
  made->host = host;
  made->role = strstr(config, "mark") ? kMark : strstr(config, "nothing") ? kNothing : kMany;
  if (made->role == kMark) {
    made->file = fopen(getenv("OUTLET_LOAD_TIMES"), "ab");
    setvbuf(made->file, NULL, _IOFBF, 1 << 22);
  }
  *instance = made;
  return CAMD_OK;
}
static int32_t outputs(void* i, const camd_model* m, camd_needs* n, camd_error* e) {
  (void)i; (void)m; (void)n; (void)e;
  return CAMD_OK;
}
static int32_t process(void* instance, const camd_frame* f, const camd_tensors* t, camd_results* r, camd_error* e) {
  (void)t; (void)r; (void)e;
  struct one* self = instance;
  const int64_t here = now();
  if (self->role == kMark) {
    const int64_t times[4] = {f->captured_mono_ns, entered, added, here};
    fwrite(times, sizeof(times), 1, self->file);
  }
  if (self->role != kMany) return CAMD_OK;
  entered = here;
  const camd_events* events = self->host->get_extension(self->host, CAMD_EXTENSION_EVENTS);
  for (int k = 0; k < 31; ++k) {
    camd_event event;
    memset(&event, 0, sizeof(event));
    event.struct_size = sizeof(event);
    event.track_id = (uint64_t)k + 1;
    strcpy(event.name, "line_crossed");
    strcpy(event.zone, "gate");
    events->add(self->host, &event);
  }
  added = now();
  return CAMD_OK;
}
static int32_t destroy(void* i, camd_error* e) {
  (void)e;
  struct one* self = i;
  if (self->file) fclose(self->file);
  free(self);
  return CAMD_OK;
}
static const camd_plugin kTable = {CAMD_PLUGIN_ABI_VERSION, sizeof(camd_plugin), "many", "1", "adds 31 events", create, outputs,
                                   process, destroy, NULL};
CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void) { return &kTable; }
"""


SERVERS = ("/usr/sbin/mosquitto", "librdkafka.so.1")


class Hook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Servers:
    """The other sides, each a process of its own. `folder`: where they lie, or None for those of this machine."""

    def __init__(self, folder, work):
        self._processes = []
        environment = dict(os.environ, LD_LIBRARY_PATH=str(folder)) if folder else None
        mosquitto = str(folder / "mosquitto") if folder else SERVERS[0]
        self.mqtt, self.http = free_port(), free_port()
        (work / "mosquitto.conf").write_text(f"listener {self.mqtt} 127.0.0.1\nuser root\nallow_anonymous true\n")
        self._start([mosquitto, "-c", work / "mosquitto.conf"], env=environment)
        self._start([sys.executable, __file__, "--hook", str(self.http)])
        kafka = self._start([sys.executable, SOURCE / "tests/daemon/kafka_mock.py"], env=environment, stdout=subprocess.PIPE)
        self.kafka = int(kafka.stdout.readline() or 0)

    def missing(self):
        """The outlets whose other side does not answer."""
        def answers(port):
            with socket.socket() as one:
                return one.connect_ex(("127.0.0.1", port)) == 0
        ports = {"mqtt": self.mqtt, "webhook": self.http, "kafka": self.kafka}
        return [one for one, port in ports.items() if not port or not wait_until(lambda port=port: answers(port), 10)]

    def _start(self, command, **options):
        self._processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, **options))
        return self._processes[-1]

    def end(self):
        for one in self._processes:
            one.send_signal(signal.SIGTERM)
            one.wait()


def make_plugin(path):
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "many.c"
        source.write_text(PLUGIN)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{SOURCE}", "-o", path, source], check=True)


def prepare(folder):
    """The plug-in, the broker and the Kafka library, with the libraries that they need but the C library's own."""
    folder.mkdir(parents=True, exist_ok=True)
    make_plugin(folder / "many.so")
    found = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    kafka = next(line.split("=> ")[1] for line in found.splitlines() if line.strip().startswith(SERVERS[1] + " "))
    for one in (SERVERS[0], kafka):
        shutil.copy(one, folder)
        for line in subprocess.run(["ldd", one], capture_output=True, text=True, check=True).stdout.splitlines():
            name, _, path = line.partition(" => ")
            if path and not name.strip().startswith(("libc.", "libm.", "libdl.", "libpthread.", "librt.", "libresolv.", "libgcc_s.",
                                                     "libstdc++.")):
                shutil.copy(path.split(" (")[0], folder / name.strip())


class Camd:
    """A camd that runs with and without the outlet, in turns."""

    def __init__(self, program, folder, many, cores, fps):
        self._config, self.times = folder / "camd.yaml", folder / "times"
        cameras = "".join(f"  - {{name: c{i}, source: {{type: test, width: 64, height: 48, fps: {fps}}}}}\n" for i in range(8))
        self._plain = (f"device: host\nmodel: {{path: {folder}/tiny.onnx}}\nmetrics: {{period: 250ms}}\n"
                       f"pipeline: {{max_age: 1h}}\ncameras:\n{cameras}postprocess:\n  - {{plugin: {many}, isolation: none}}\n")
        self._mark = f"  - {{plugin: {many}, isolation: none, config: {{role: mark}}}}\n"
        self.lines = []
        self._write("")
        self._process = subprocess.Popen([program, "run", str(self._config), "--metrics", "json"], stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True, env=dict(os.environ, OUTLET_LOAD_TIMES=str(self.times)),
                                         preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self._log = []
        for pipe, take in ((self._process.stdout, lambda line: self.lines.append(json.loads(line))),
                           (self._process.stderr, self._log.append)):
            threading.Thread(target=lambda pipe=pipe, take=take: [take(line) for line in pipe], daemon=True).start()
        self._wait(lambda: any(line["event"] == "camera" for line in self.lines))

    def _wait(self, condition):
        if not wait_until(condition, 20):
            sys.exit("camd does not do as it is told:\n" + "".join(self._log[-10:]))

    def _write(self, outlet):
        self._config.write_text(self._plain + outlet + self._mark)

    def turn(self, outlet, seconds):
        """Runs with this outlet. Returns when its frames count: (begin, end) in ns."""
        reloads = sum(line["event"] == "reload" for line in self.lines)
        self._write(outlet)
        self._process.send_signal(signal.SIGHUP)
        self._wait(lambda: sum(line["event"] == "reload" for line in self.lines) > reloads)
        last = [line for line in self.lines if line["event"] == "reload"][-1]
        if last["result"] != "accepted":
            raise ValueError(str(last["errors"]))
        time.sleep(0.6)
        begin = time.monotonic_ns()
        time.sleep(seconds - 0.6)
        return begin, time.monotonic_ns()

    def end(self):
        """Ends it. Returns each frame's times in ns: captured, in the first plug-in, behind it, in the last."""
        self._process.send_signal(signal.SIGTERM)
        if self._process.wait(20) != 0:
            sys.exit("".join(self._log[-10:]))
        times = array.array("q", self.times.read_bytes())
        return sorted(zip(*(times[i::4] for i in range(4))))


def figures(frames, turns, rows, short):
    """What became of an outlet's turns: [(without, with)], one for each round; each is a list of (begin, end). `short`: without the
    ratios of all frames, whose intervals take seconds."""
    begun = [frame[0] for frame in frames]
    total, call, rest = ({kind: [] for kind in (0, 1)} for _ in range(3))
    for pair in turns:
        for kind, spans in enumerate(pair):
            mine = [frame for begin, end in spans
                    for frame in frames[bisect.bisect_left(begun, begin):bisect.bisect_left(begun, end)]]
            total[kind].append([(last - captured) / 1000 for captured, _, _, last in mine])
            call[kind].append([(last - added) / 1000 for _, _, added, last in mine])
            rest[kind].append([(last - captured - (last - added)) / 1000 for captured, _, added, last in mine])
    result = {"frames": [sum(map(len, total[kind])) for kind in (0, 1)], "turns": {}}
    for name, parts in (("total", total), ("outlet's call", call), ("rest", rest)):
        ends = [[percentile(turn, 0.99) for turn in parts[kind]] for kind in (0, 1)]
        result["turns"][name] = [[percentile(end, quarter) for quarter in (0.25, 0.5, 0.75)] for end in ends]
    flat = lambda parts: [value for part in parts for value in part]
    for name, parts in (("total", total), ("outlet's call", call), ("rest", rest)):
        result[name] = {part: [percentile(flat(parts[kind]), value) for kind in (0, 1)]
                        for part, value in (("p50", 0.5), ("p99", 0.99))}
        if name != "outlet's call":
            for part, value in (("p50", 0.5), ("p99", 0.99)):
                result[name][part] += pairs_of(parts[1], parts[0], value)
                result[name][part] += () if short else ratio_of(parts[1], parts[0], value)
    sent = taken = 0
    for _, [(begin, end)] in turns:
        mine = {}
        for row in rows:
            if begin <= row["mono_ns"] < end:
                mine.setdefault(row["camera"], []).append(row)
        sent += sum((a[-1]["acknowledged"] - a[0]["acknowledged"]) / (a[-1]["mono_ns"] - a[0]["mono_ns"]) * 1e9
                    for a in mine.values() if len(a) > 1)
        taken += sum(sum(a[-1]["dropped"].values()) for a in mine.values())
    result["sent/s"], result["dropped"] = sent / len(turns), taken
    return result


def rounds(camd, outlets, turns, told):
    """Fills `turns`. All outlets in each round, so that what changes with time meets all of them. Returns the turns without."""
    dice, plain = random.Random(1), []
    for _ in range(told.rounds):
        without = []
        for one in dice.sample(sorted(turns), len(turns)):
            without.append(camd.turn("", told.turn))
            turns[one].append((without, [camd.turn(outlets[one], told.turn)]))
        plain += without
    return plain


def short_rounds(camd, outlets, turns, told):
    """As rounds(), with `nothing` in the place of turns without, until the time is over."""
    dice, plain, end = random.Random(1), [], time.monotonic() + told.short
    kinds = ["nothing", *turns]
    while time.monotonic() + (told.turn + 0.4) * len(kinds) < end:
        spans = {}
        for one in dice.sample(kinds, len(kinds)):
            try:
                spans[one] = camd.turn(outlets[one], told.turn)
            except ValueError as refused:
                print(f"{one}: {refused}", flush=True)
                kinds.remove(one)
        for one in turns:
            if one in spans:
                turns[one].append(([spans["nothing"]], [spans[one]]))
        plain.append(spans["nothing"])
    return plain


def tell(name, one, other):
    print(f"{name}: {one['rounds']} rounds, {one['frames'][0]} frames {other} and {one['frames'][1]} with; "
          f"{one['sent/s']:.0f} messages a second acknowledged, {one['dropped']} dropped")
    for what, quarters in one["turns"].items():
        print(f"  {what:14} p99 of a turn, the middle one and the middle half, us: " +
              ", ".join(f"{quarter[1]:.1f} ({quarter[0]:.1f} to {quarter[2]:.1f}) {side}"
                        for quarter, side in zip(quarters, (other, "with"))))
    for what in ("total", "outlet's call", "rest"):
        for part in ("p50", "p99"):
            without, with_it, *ratio = one[what][part]
            line = f"  {what:14} {part}  {without:8.1f} us {other} {with_it:8.1f} us with"
            if len(ratio) > 3:
                line += f"   {ratio[3]:.2f} times ({ratio[4]:.2f} to {ratio[5]:.2f});"
            if ratio:
                line += f" of the rounds, the middle half {ratio[0]:.2f} to {ratio[2]:.2f} times, median {ratio[1]:.2f}"
            print(line)


def main():
    if sys.argv[1:2] == ["--hook"]:
        http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Hook).serve_forever()
    parser = argparse.ArgumentParser(description="10,000 messages a second into each outlet, in turns with none.")
    parser.add_argument("build", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--turn", type=float, default=2.0, help="seconds")
    parser.add_argument("--outlets", default="nothing,mqtt,webhook,kafka")
    parser.add_argument("--cores", type=int, default=0, help="for camd; half of all unless told otherwise")
    parser.add_argument("--fps", type=float, default=40, help="frames a second of each camera")
    parser.add_argument("--short", type=float, default=0, metavar="SECONDS", help="for all rounds, each of one turn of each outlet")
    parser.add_argument("--awake", action="store_true", help="keeps the processors from falling asleep")
    parser.add_argument("--many", type=Path, help="the plug-in that adds events, where there is no cc")
    parser.add_argument("--servers", type=Path, help="mosquitto and librdkafka with their libraries")
    parser.add_argument("--prepare", type=Path, metavar="FOLDER", help="puts them there, and ends")
    told = parser.parse_args()
    if told.prepare:
        return prepare(told.prepare)
    ours, theirs = halves(told.cores)
    print(f"camd on processors {sorted(ours)}, the other sides on {sorted(theirs)}")
    awake = Awake(ours | theirs if told.awake else ())
    os.sched_setaffinity(0, theirs)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny_model(folder / "tiny.onnx")
        many = told.many.resolve() if told.many else folder / "many.so"
        if not told.many:
            make_plugin(many)
        servers = Servers(told.servers and told.servers.resolve(), folder)
        common = "publish: frame, outbox: {capacity: 20000, memory: 64MiB}"
        outlets = {
            "nothing": f"  - {{plugin: {many}, isolation: none, config: {{role: nothing}}}}\n",
            "mqtt": f"  - plugin: mqtt\n    config: {{url: 'mqtt://127.0.0.1:{servers.mqtt}', {common}}}\n",
            "webhook": f"  - plugin: webhook\n    config: {{url: 'http://127.0.0.1:{servers.http}/', batch: 1000, {common}}}\n",
            "kafka": f"  - plugin: kafka\n    config: {{brokers: '127.0.0.1:{servers.kafka}', topic: t, {common}}}\n",
        }
        missing = servers.missing()
        turns = {one: [] for one in told.outlets.split(",") if one not in missing}
        if told.short:
            outlets["nothing again"] = outlets["nothing"].replace("role: nothing", "role: nothing again")
            turns["nothing again"] = turns.pop("nothing", [])
        for one in missing:
            print(f"{one}: its other side does not answer", flush=True)
        try:
            camd = Camd(str(told.build / "bin/camd"), folder, many, ours, told.fps)
            plain = (short_rounds if told.short else rounds)(camd, outlets, turns, told)
            frames = camd.end()
        finally:
            servers.end()
            awake.end()
    lines = [line for line in camd.lines if line["event"] == "camera" and
             any(begin + 250e6 < line["mono_ns"] < end for begin, end in plain)]
    stages = {stage: [statistics.median(line["latency_us"][stage][part] for line in lines) for part in ("p50", "p99")]
              for stage in lines[0]["latency_us"]}
    print("without an outlet, medians of the periods, us: " +
          ", ".join(f"{stage} p50 {p50:.0f} p99 {p99:.0f}" for stage, (p50, p99) in stages.items()))
    for one, mine in turns.items():
        if not mine:
            continue
        rows = [line for line in camd.lines if line["event"] == "outlet" and line["name"] == one]
        tell(one, dict(figures(frames, mine, rows, told.short), rounds=len(mine)), "`nothing`" if told.short else "without")
    return None


if __name__ == "__main__":
    main()
