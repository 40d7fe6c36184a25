"""The built camd with `mqtt` and a real broker, Debian's mosquitto: killed while four cameras run, and what is sent.

usage: test_outlets.py BUILD

CAMD_BROKER_AWAY=30 keeps the broker away for 30 s instead of half a second.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/chaos"))
from parts import tiny_model, wait_until  # noqa: E402

BUILD = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else SOURCE / "build/dev"
PATIENCE = 60
BROKER = "/usr/sbin/mosquitto"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Broker:
    """mosquitto, which remembers who has subscribed when it was ended in peace."""

    def __init__(self, folder):
        self.port = free_port()
        self._config = folder / "mosquitto.conf"
        self._config.write_text(f"listener {self.port} 127.0.0.1\nuser root\nallow_anonymous true\npersistence true\n"
                                f"persistence_location {folder}/\nmax_inflight_messages 0\nmax_queued_messages 0\n")
        self._process = None

    def start(self):
        self._process = subprocess.Popen([BROKER, "-c", self._config], stderr=subprocess.DEVNULL)

        def answers():
            with socket.socket() as one:
                return one.connect_ex(("127.0.0.1", self.port)) == 0
        assert wait_until(answers, PATIENCE), "the broker does not listen"

    def end(self, number):
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None


class Lines(threading.Thread):
    """The lines of a pipe, as they come."""

    def __init__(self, pipe):
        super().__init__(daemon=True)
        self.lines = []
        self._pipe = pipe
        self.start()

    def run(self):
        with self._pipe:
            for line in self._pipe:
                self.lines.append(line.rstrip("\n"))


def start(*command):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return process, Lines(process.stdout), Lines(process.stderr)


def balanced(row):
    return row["taken"] == row["acknowledged"] + row["waiting"] + row["spooled"] + sum(row["dropped"].values())


class Outlets(unittest.TestCase):
    def setUp(self):
        for program in (BROKER, "/usr/bin/mosquitto_sub"):
            if not os.access(program, os.X_OK):
                self.skipTest(f"no {program}: scripts/install_deps.sh test")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.broker = Broker(self.folder)
        self.addCleanup(lambda: self.broker.end(signal.SIGKILL))
        self.broker.start()

    def listen(self, *options):
        """A subscriber that a broker knows again after it was away. Its lines are "TOPIC PAYLOAD"."""
        process, lines, _ = start("/usr/bin/mosquitto_sub", "-h", "127.0.0.1", "-p", str(self.broker.port), "-q", "1",
                                  "-v", "-i", "listener", *options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return lines

    def run_camd(self, config):
        path = self.folder / "camd.yaml"
        path.write_text(config)
        process, out, err = start(str(BUILD / "bin/camd"), "run", str(path), "--metrics", "json")
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, out, err

    def end(self, process, out, err):
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE), 0, "\n".join(err.lines))
        out.join(PATIENCE)

    def test_a_broker_that_is_killed_costs_no_camera_a_frame_and_loses_no_message(self):
        # The subscription outlives a broker that is killed later, because it is written down when this one ends.
        once = subprocess.run(["/usr/bin/mosquitto_sub", "-h", "127.0.0.1", "-p", str(self.broker.port), "-q", "1", "-i",
                               "listener", "-c", "-t", "camd/+/detections", "-E"], check=True, timeout=PATIENCE)
        self.assertEqual(once.returncode, 0)
        self.broker.end(signal.SIGTERM)
        self.broker.start()
        heard = self.listen("-c", "-t", "camd/+/detections")
        tiny_model(self.folder / "tiny.onnx")
        cameras = "".join(f"  - {{name: c{i}, source: {{type: test, width: 64, height: 48, fps: 20}}}}\n" for i in range(4))
        process, out, err = self.run_camd(
            f"device: host\nmodel: {{path: {self.folder}/tiny.onnx}}\nmetrics: {{period: 100ms}}\n"
            f"pipeline: {{max_age: 1h}}\ncameras:\n{cameras}postprocess:\n"
            f"  - plugin: jsonl\n    config: {{path: {self.folder}/found.jsonl}}\n"
            f"  - plugin: mqtt\n    config:\n      url: mqtt://127.0.0.1:{self.broker.port}\n      publish: frame\n"
            f"      outbox: {{capacity: 8, spool: {self.folder}/spool, retry_max: 100ms}}\n")

        def rows():
            return [row for row in map(json.loads, list(out.lines)) if row["event"] == "outlet"]

        self.assertTrue(wait_until(lambda: len(heard.lines) >= 20, PATIENCE), err.lines)
        self.broker.end(signal.SIGKILL)
        self.assertTrue(wait_until(lambda: sum(row["spooled"] for row in rows()[-4:]) >= 40, PATIENCE), err.lines)
        time.sleep(max(0.0, float(os.environ.get("CAMD_BROKER_AWAY", "0"))))
        taken = sum(row["taken"] for row in rows()[-4:])
        self.broker.start()
        self.assertTrue(wait_until(lambda: sum(row["acknowledged"] for row in rows()[-4:]) >= taken, PATIENCE), err.lines)
        self.end(process, out, err)

        for line in map(json.loads, out.lines):
            if line["event"] == "outlet":
                self.assertTrue(balanced(line), line)
                self.assertEqual(sum(line["dropped"].values()), 0, line)
            if line["event"] == "camera":  # on a machine without time to spare newer frames come first; nothing else
                dropped = dict(line["totals"]["dropped"], superseded=0, shutdown=0)
                self.assertEqual(sum(dropped.values()), 0, line)
        last = {row["camera"]: row for row in rows()[-4:]}
        written = {name: [] for name in last}
        for line in map(json.loads, (self.folder / "found.jsonl").read_text().splitlines()):
            written[line["camera"]].append(line["seq"])
        self.assertTrue(wait_until(lambda: len(heard.lines) >= sum(row["acknowledged"] for row in last.values()), PATIENCE))
        received = {name: [] for name in last}
        for line in list(heard.lines):
            frame = json.loads(line.partition(" ")[2])
            if frame["seq"] not in received[frame["camera"]]:  # at least once
                received[frame["camera"]].append(frame["seq"])
        for name, row in last.items():
            self.assertEqual(row["taken"], len(written[name]))
            self.assertEqual(received[name], written[name][:len(received[name])], name)
            self.assertGreaterEqual(len(received[name]), row["acknowledged"])
        frames = sum(len(all_of) for all_of in written.values())
        dropped = sum(sum(line["totals"]["dropped"].values()) for line in list(map(json.loads, out.lines))[-1:])
        print(f"{frames} frames, {dropped} dropped; most spooled: {max(row['spooled'] for row in rows())} of a camera",
              file=sys.stderr)

    def test_what_is_sent_is_what_the_schemas_say(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("no python3-jsonschema: scripts/install_deps.sh test")
        heard = self.listen("-t", "camd/#", "-t", "homeassistant/#")
        half = "[[0, 0], [0.5, 0], [0.5, 1], [0, 1]]"
        process, out, err = self.run_camd(
            f"device: host\nmodel: {{path: {SOURCE}/models/marker-640x360.onnx}}\ncameras:\n"
            f"  - {{name: demo, source: {{type: file, path: {SOURCE}/models/demo/demo.mp4, loop: true}}}}\npostprocess:\n"
            f"  - plugin: detections\n  - plugin: track\n  - plugin: codes\n"
            f"  - plugin: zones\n    config: {{settle: 0, zones: [{{name: left, polygon: {half}}}]}}\n"
            f"  - plugin: mqtt\n    config: {{url: 'mqtt://127.0.0.1:{self.broker.port}', homeassistant: true}}\n")
        schemas = {path.name: json.loads(path.read_text()) for path in (SOURCE / "docs/schemas").glob("*.schema.json")}
        kinds = {"/detections": "detections", "/events": "event", "/state": "state", "/config": "discovery"}

        def kind_of(topic):
            return next((kind for end, kind in kinds.items() if topic.endswith(end)), None)
        self.assertTrue(wait_until(lambda: {kind_of(line.partition(" ")[0]) for line in heard.lines} >= set(kinds.values()),
                                   PATIENCE), err.lines)
        self.end(process, out, err)
        for line in heard.lines:
            topic, _, payload = line.partition(" ")
            kind = kind_of(topic)
            if kind is None:
                self.assertEqual(topic, "camd/status")
                continue
            schema = schemas[kind + ".schema.json"]
            resolver = jsonschema.RefResolver("", schema, store=schemas)
            jsonschema.Draft202012Validator(schema, resolver=resolver).validate(json.loads(payload))
        for schema in schemas.values():
            jsonschema.Draft202012Validator.check_schema(schema)


if __name__ == "__main__":
    unittest.main()
