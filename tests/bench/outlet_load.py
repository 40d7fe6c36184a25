#!/usr/bin/env python3
"""10,000 messages a second into each outlet, in turns with none: what that does to the pipeline's latency.

usage: outlet_load.py BUILD [--rounds 3] [--seconds 6]

Four cameras of 64x48 at 40 frames a second through a network of one layer; a plug-in adds 63 events to each frame, so that with
`publish: frame` an outlet gets 64 messages a frame, 10,240 a second. The other side is on this machine: mosquitto, a web server
of Python, librdkafka's mock cluster. Needs cc and mosquitto.
"""

import argparse
import http.server
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests/chaos"), str(SOURCE / "tests/daemon")]
from parts import tiny_model  # noqa: E402

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


class Hook(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


def run(camd, folder, outlet, seconds):
    """{"p50_us", "p99_us", "post_us", "sent", "dropped"} of a run; latencies: the middle of all cameras and periods."""
    cameras = "".join(f"  - {{name: c{i}, source: {{type: test, width: 64, height: 48, fps: 40}}}}\n" for i in range(4))
    path = folder / "camd.yaml"
    path.write_text(f"device: host\nmodel: {{path: {folder}/tiny.onnx}}\nmetrics: {{period: 1s}}\npipeline: {{max_age: 1h}}\n"
                    f"cameras:\n{cameras}postprocess:\n  - {{plugin: {folder}/many.so, isolation: none}}\n{outlet}")
    done = subprocess.run([camd, "run", str(path), "--metrics", "json", "--duration", f"{seconds}s"], capture_output=True,
                          text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    warm = [line for line in lines if line["event"] == "camera"][8:]  # without the first two periods
    rows = [line for line in lines if line["event"] == "outlet"][-4:]
    return {"p50_us": statistics.median(line["latency_us"]["total"]["p50"] for line in warm),
            "p99_us": statistics.median(line["latency_us"]["total"]["p99"] for line in warm),
            "post_us": statistics.median(line["latency_us"]["postprocess"]["p50"] for line in warm),
            "sent": sum(row["acknowledged"] for row in rows) / seconds,
            "dropped": sum(sum(row["dropped"].values()) for row in rows)}


def main():
    parser = argparse.ArgumentParser(description="10,000 messages a second into each outlet, in turns with none.")
    parser.add_argument("build", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=6)
    told = parser.parse_args()
    from kafka_mock import MockKafka
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny_model(folder / "tiny.onnx")
        (folder / "many.c").write_text(PLUGIN)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{SOURCE}", "-o", folder / "many.so", folder / "many.c"], check=True)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        (folder / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nuser root\nallow_anonymous true\n")
        broker = subprocess.Popen(["/usr/sbin/mosquitto", "-c", folder / "mosquitto.conf"], stderr=subprocess.DEVNULL)
        common = "publish: frame, outbox: {capacity: 20000, memory: 64MiB}"
        outlets = {
            "none": "",
            "mqtt": f"  - plugin: mqtt\n    config: {{url: 'mqtt://127.0.0.1:{port}', {common}}}\n",
            "webhook": f"  - plugin: webhook\n    config: {{url: 'http://127.0.0.1:{server.server_port}/', batch: 1000, {common}}}\n",
            "kafka": f"  - plugin: kafka\n    config: {{brokers: '127.0.0.1:{MockKafka().port}', topic: t, {common}}}\n",
        }
        results = {one: [] for one in outlets}
        try:
            for _ in range(told.rounds):
                for one, lines in outlets.items():
                    results[one].append(run(str(told.build / "bin/camd"), folder, lines, told.seconds))
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.wait()
    print("outlet    p50 us (rounds)          p99 us (rounds)          postprocess p50 us   sent/s   dropped")
    for one, rounds in results.items():
        def row(key):
            return " ".join(f"{value[key]:.0f}" for value in rounds)
        print(f"{one:8}  {row('p50_us'):24} {row('p99_us'):24} {row('post_us'):20} {row('sent')}   {row('dropped')}")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # librdkafka's threads
