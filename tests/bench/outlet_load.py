#!/usr/bin/env python3
"""10,000 messages a second into each outlet, in turns with none: what that does to the pipeline's latency.

usage: outlet_load.py BUILD [--rounds 3] [--seconds 6] [--outlets mqtt,webhook,kafka] [--many FILE] [--servers FOLDER]

Four cameras of 64x48 at 40 frames a second through a network of one layer; a plug-in adds 63 events to each frame, so that with
`publish: frame` an outlet gets 64 messages a frame, 10,240 a second. The other side is on this machine: mosquitto, a web server
of Python, librdkafka's mock cluster, each a process of its own. A run with an outlet is compared with the runs without one
before and after it.

BUILD is a build's folder, or a bundle (scripts/bundle.sh). --prepare FOLDER puts there what a machine without cc, mosquitto and
librdkafka needs for --many and --servers, from those of this machine.
"""

import argparse
import http.server
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests/chaos"), str(SOURCE / "tests/daemon")]
from parts import tiny_model, wait_until  # noqa: E402

PLUGIN = r"""
#include <stdlib.h>
#include <string.h>
#include "plugins/camd_plugin.h"
static int32_t create(const camd_host* host, const char* config, void** instance, camd_error* error) {
  (void)config; (void)error;
  *instance = (void*)host;
  return CAMD_OK;
}
static int32_t outputs(void* i, const camd_model* m, camd_needs* n, camd_error* e) {
  (void)i; (void)m; (void)n; (void)e;
  return CAMD_OK;
}
static int32_t process(void* instance, const camd_frame* f, const camd_tensors* t, camd_results* r, camd_error* e) {
  (void)f; (void)t; (void)r; (void)e;
  const camd_host* host = instance;
  const camd_events* events = host->get_extension(host, CAMD_EXTENSION_EVENTS);
  for (int k = 0; k < 63; ++k) {
    camd_event event;
    memset(&event, 0, sizeof(event));
    event.struct_size = sizeof(event);
    event.track_id = (uint64_t)k + 1;
    strcpy(event.name, "line_crossed");
    strcpy(event.zone, "gate");
    events->add(host, &event);
  }
  return CAMD_OK;
}
static int32_t destroy(void* i, camd_error* e) { (void)i; (void)e; return CAMD_OK; }
static const camd_plugin kTable = {CAMD_PLUGIN_ABI_VERSION, sizeof(camd_plugin), "many", "1", "adds 63 events", create, outputs,
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
        self.kafka = int(kafka.stdout.readline())
        for port in (self.mqtt, self.http):
            def answers(port=port):
                with socket.socket() as one:
                    return one.connect_ex(("127.0.0.1", port)) == 0
            assert wait_until(answers, 20), f"nothing listens on {port}"

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


def run(camd, folder, many, outlet, seconds):
    """A run's figures. Latencies are the middle of all cameras and periods."""
    cameras = "".join(f"  - {{name: c{i}, source: {{type: test, width: 64, height: 48, fps: 40}}}}\n" for i in range(4))
    path = folder / "camd.yaml"
    path.write_text(f"device: host\nmodel: {{path: {folder}/tiny.onnx}}\nmetrics: {{period: 1s}}\npipeline: {{max_age: 1h}}\n"
                    f"cameras:\n{cameras}postprocess:\n  - {{plugin: {many}, isolation: none}}\n{outlet}")
    done = subprocess.run([camd, "run", str(path), "--metrics", "json", "--duration", f"{seconds}s"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    warm = [line["latency_us"] for line in lines if line["event"] == "camera"][8:]  # without the first two periods
    rows = [line for line in lines if line["event"] == "outlet"][-4:]
    middle = lambda stage, part: statistics.median(line[stage][part] for line in warm)
    return {"total p50": middle("total", "p50"), "total p99": middle("total", "p99"),
            "postprocess p50": middle("postprocess", "p50"), "postprocess p99": middle("postprocess", "p99"),
            "sent/s": sum(row["acknowledged"] for row in rows) / seconds,
            "dropped": sum(sum(row["dropped"].values()) for row in rows)}


def main():
    if sys.argv[1:2] == ["--hook"]:
        http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Hook).serve_forever()
    parser = argparse.ArgumentParser(description="10,000 messages a second into each outlet, in turns with none.")
    parser.add_argument("build", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--outlets", default="mqtt,webhook,kafka")
    parser.add_argument("--many", type=Path, help="the plug-in that adds events, where there is no cc")
    parser.add_argument("--servers", type=Path, help="mosquitto and librdkafka with their libraries")
    parser.add_argument("--prepare", type=Path, metavar="FOLDER", help="puts them there, and ends")
    told = parser.parse_args()
    if told.prepare:
        return prepare(told.prepare)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny_model(folder / "tiny.onnx")
        many = told.many.resolve() if told.many else folder / "many.so"
        if not told.many:
            make_plugin(many)
        servers = Servers(told.servers and told.servers.resolve(), folder)
        common = "publish: frame, outbox: {capacity: 20000, memory: 64MiB}"
        outlets = {
            "mqtt": f"  - plugin: mqtt\n    config: {{url: 'mqtt://127.0.0.1:{servers.mqtt}', {common}}}\n",
            "webhook": f"  - plugin: webhook\n    config: {{url: 'http://127.0.0.1:{servers.http}/', batch: 1000, {common}}}\n",
            "kafka": f"  - plugin: kafka\n    config: {{brokers: '127.0.0.1:{servers.kafka}', topic: t, {common}}}\n",
        }
        runs = []  # (outlet, figures)
        try:
            for _ in range(told.rounds):
                for one in told.outlets.split(","):
                    for which in ("none", one):
                        runs.append((which, run(str(told.build / "bin/camd"), folder, many, outlets.get(which, ""), told.seconds)))
            runs.append(("none", run(str(told.build / "bin/camd"), folder, many, "", told.seconds)))
        finally:
            servers.end()
    print(f"{'outlet':8} " + " ".join(f"{key:>15}" for key in runs[0][1]) + "   p50 and p99 of total by those without")
    for i, (which, one) in enumerate(runs):
        line = f"{which:8} " + " ".join(f"{value:15.0f}" for value in one.values())
        if which != "none":
            ratio = {part: 2 * one[part] / (runs[i - 1][1][part] + runs[i + 1][1][part]) for part in ("total p50", "total p99")}
            line += f"   {ratio['total p50']:.2f} {ratio['total p99']:.2f}"
        print(line)
    return None


if __name__ == "__main__":
    main()
