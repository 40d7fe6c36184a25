"""The built camd with `mqtt` and a real broker, Debian's mosquitto: killed while four cameras run, and what is sent.

usage: test_outlets.py BUILD

CAMD_BROKER_AWAY=30 keeps the broker away for 30 s instead of half a second.
"""

import http.server
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
from parts import Proxy, tiny_model, wait_until  # noqa: E402

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


class Server(http.server.ThreadingHTTPServer):
    """A web server on loopback. `answer(frames)` decides: the status of a request with these frames. `tls`: an ssl.SSLContext."""

    daemon_threads = True

    def __init__(self, answer, tls=None):
        self.requests = []  # (status, frames, headers)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                frames = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status = answer(frames)
                outer.requests.append((status, frames, dict(self.headers)))
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"so")

            def log_message(self, *arguments):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


class Daemon(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

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

    def resident(self, process):
        """Its memory in bytes."""
        return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def written(self):
        """Sequence numbers by camera, of the lines that `jsonl` has written beside the outlet."""
        numbers = {}
        for line in map(json.loads, (self.folder / "found.jsonl").read_text().splitlines()):
            numbers.setdefault(line["camera"], []).append(line["seq"])
        return numbers


class Outlets(Daemon):
    def setUp(self):
        super().setUp()
        for program in (BROKER, "/usr/bin/mosquitto_sub"):
            if not os.access(program, os.X_OK):
                self.skipTest(f"no {program}: scripts/install_deps.sh test")
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
            f"      outbox: {{capacity: 64, spool: {self.folder}/spool, retry_max: 100ms}}\n")

        def rows():
            return [row for row in map(json.loads, list(out.lines)) if row["event"] == "outlet"]

        self.assertTrue(wait_until(lambda: len(heard.lines) >= 20, PATIENCE), err.lines)
        before = self.resident(process)
        self.broker.end(signal.SIGKILL)
        self.assertTrue(wait_until(lambda: sum(row["spooled"] for row in rows()[-4:]) >= 40, PATIENCE), err.lines)
        time.sleep(max(0.0, float(os.environ.get("CAMD_BROKER_AWAY", "0"))))
        taken = sum(row["taken"] for row in rows()[-4:])
        grown = self.resident(process) - before
        self.assertLess(grown, 32 << 20)  # the outbox holds 16 MiB at most
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
        written = self.written()
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
        print(f"{frames} frames, {dropped} dropped; most spooled: {max(row['spooled'] for row in rows())} of a camera; memory grew by "
              f"{grown / 1048576:.1f} MiB meanwhile",
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


    def test_a_picture_of_each_new_object_comes_to_the_broker_and_into_the_folder(self):
        got = subprocess.Popen(["/usr/bin/mosquitto_sub", "-h", "127.0.0.1", "-p", str(self.broker.port), "-t",
                                "camd/demo/snapshot", "-C", "1", "-N", "-W", str(PATIENCE)], stdout=subprocess.PIPE)
        self.addCleanup(got.wait)
        self.addCleanup(got.kill)
        process, out, err = self.run_camd(
            f"device: host\nmodel: {{path: {SOURCE}/models/marker-640x360.onnx}}\nmetrics: {{period: 100ms}}\ncameras:\n"
            f"  - {{name: demo, source: {{type: file, path: {SOURCE}/models/demo/demo.mp4, loop: true}}}}\npostprocess:\n"
            f"  - plugin: detections\n  - plugin: track\n"
            f"  - plugin: snapshot\n    config:\n      dir: {self.folder}/pictures\n      settle: 200ms\n"
            f"      mqtt: {{url: 'mqtt://127.0.0.1:{self.broker.port}'}}\n")
        picture, _ = got.communicate(timeout=PATIENCE)
        self.assertEqual((picture[:3], picture[-2:]), (b"\xff\xd8\xff", b"\xff\xd9"), err.lines)
        self.end(process, out, err)
        files = sorted((self.folder / "pictures").iterdir())
        self.assertIn(picture, [file.read_bytes() for file in files])
        for file in files:
            self.assertRegex(file.name, r"^\d{8}T\d{6}\.\d{3}Z-demo-\w+-\d+(-\d+)?\.jpg$")
        lines = list(map(json.loads, out.lines))
        numbers = [line for line in lines if line["event"] == "plugin" and line["name"] == "snapshot"][-1]["counters"]
        self.assertEqual(numbers["taken"], numbers["saved"] + numbers["failed"] + numbers["dropped"] + numbers["waiting"])
        for line in lines:
            if line["event"] == "outlet":
                self.assertTrue(balanced(line), line)


class Away(Daemon):
    """Four cameras run while the other side of `webhook` or `kafka` is away."""

    def away(self, outlet, set_up, taken_by):
        """`taken_by()`: sequence numbers by camera that the other side has."""
        tiny_model(self.folder / "tiny.onnx")
        cameras = "".join(f"  - {{name: c{i}, source: {{type: test, width: 64, height: 48, fps: 20}}}}\n" for i in range(4))
        process, out, err = self.run_camd(
            f"device: host\nmodel: {{path: {self.folder}/tiny.onnx}}\nmetrics: {{period: 100ms}}\n"
            f"pipeline: {{max_age: 1h}}\ncameras:\n{cameras}postprocess:\n"
            f"  - plugin: jsonl\n    config: {{path: {self.folder}/found.jsonl}}\n{outlet}      publish: frame\n"
            f"      outbox: {{capacity: 64, spool: {self.folder}/spool, retry_max: 100ms}}\n")

        def rows():
            return [row for row in map(json.loads, list(out.lines)) if row["event"] == "outlet"]

        def acknowledged():
            return sum(row["acknowledged"] for row in rows()[-4:])
        self.assertTrue(wait_until(lambda: acknowledged() >= 20, PATIENCE), err.lines[-5:])
        before = self.resident(process)
        set_up(False)
        self.assertTrue(wait_until(lambda: sum(row["spooled"] for row in rows()[-4:]) >= 40, PATIENCE), err.lines[-5:])
        time.sleep(max(0.0, float(os.environ.get("CAMD_BROKER_AWAY", "0"))))
        taken = sum(row["taken"] for row in rows()[-4:])
        grown = self.resident(process) - before
        self.assertLess(grown, 32 << 20)  # the outbox holds 16 MiB at most
        set_up(True)
        self.assertTrue(wait_until(lambda: acknowledged() >= taken, PATIENCE), err.lines)
        self.end(process, out, err)
        for line in map(json.loads, out.lines):
            if line["event"] == "outlet":
                self.assertTrue(balanced(line), line)
                self.assertEqual(sum(line["dropped"].values()), 0, line)
            if line["event"] == "camera":  # on a machine without time to spare newer frames come first; nothing else
                self.assertEqual(sum(dict(line["totals"]["dropped"], superseded=0, shutdown=0).values()), 0, line)
        written, received = self.written(), taken_by()
        for row in rows()[-4:]:
            name = row["camera"]
            self.assertEqual(row["taken"], len(written[name]))
            once = list(dict.fromkeys(received[name]))  # at least once
            self.assertEqual(once, written[name][:len(once)], name)
            self.assertGreaterEqual(len(once), row["acknowledged"])
        print(f"{sum(map(len, written.values()))} frames; most spooled: {max(row['spooled'] for row in rows())} of a camera; memory grew by "
              f"{grown / 1048576:.1f} MiB meanwhile",
              file=sys.stderr)

    def test_a_web_server_that_is_away_costs_no_camera_a_frame_and_loses_no_message(self):
        server = Server(lambda frames: 200)
        proxy = Proxy(server.server_port)
        for close in (server.server_close, server.shutdown, proxy.close):
            self.addCleanup(close)

        def taken():
            numbers = {}
            for _, frames, _ in list(server.requests):
                for frame in frames:
                    numbers.setdefault(frame["camera"], []).append(frame["seq"])
            return numbers
        self.away(f"  - plugin: webhook\n    config:\n      url: http://127.0.0.1:{proxy.port}/\n",
                  lambda up: proxy.accept() if up else proxy.refuse(), taken)

    def test_a_kafka_broker_that_is_away_costs_no_camera_a_frame_and_loses_no_message(self):
        if not os.access("/usr/bin/kcat", os.X_OK):
            self.skipTest("no kcat: scripts/install_deps.sh test")
        try:
            from kafka_mock import MockKafka
            kafka = MockKafka()
        except OSError as problem:
            self.skipTest(str(problem))

        def taken():
            told = subprocess.run(["/usr/bin/kcat", "-b", f"127.0.0.1:{kafka.port}", "-t", "t", "-C", "-o", "beginning", "-e", "-q"],
                                  capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
            numbers = {}
            for frame in map(json.loads, told.splitlines()):
                numbers.setdefault(frame["camera"], []).append(frame["seq"])
            return numbers
        self.away(f"  - plugin: kafka\n    config:\n      brokers: 127.0.0.1:{kafka.port}\n      topic: t\n", kafka.set_up, taken)


class Webhook(Daemon):
    def run_with(self, server, frames, further=""):
        """A run of two cameras until the server has taken so many frames of each. Returns the last rows and the log."""
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        tiny_model(self.folder / "tiny.onnx")
        cameras = "".join(f"  - {{name: c{i}, source: {{type: test, width: 64, height: 48, fps: 50}}}}\n" for i in range(2))
        process, out, err = self.run_camd(
            f"device: host\nmodel: {{path: {self.folder}/tiny.onnx}}\nmetrics: {{period: 100ms}}\ncameras:\n{cameras}"
            f"postprocess:\n  - plugin: jsonl\n    config: {{path: {self.folder}/found.jsonl}}\n"
            f"  - plugin: webhook\n    config:\n      url: http://127.0.0.1:{server.server_port}/hook?key=hidden\n"
            f"      publish: frame\n      outbox: {{retry_max: 100ms}}\n{further}")

        def enough():
            taken = self.taken_by(server)
            return len(taken) == 2 and min(map(len, taken.values())) >= frames
        self.assertTrue(wait_until(enough, PATIENCE), err.lines)
        self.end(process, out, err)
        rows = [row for row in map(json.loads, out.lines) if row["event"] == "outlet"]
        for row in rows:
            self.assertTrue(balanced(row), row)
        return {row["camera"]: row for row in rows[-2:]}, "\n".join(err.lines)

    def taken_by(self, server):
        """Sequence numbers by camera that the server has taken."""
        numbers = {}
        for status, frames, _ in list(server.requests):
            for frame in frames if status == 200 else []:
                numbers.setdefault(frame["camera"], []).append(frame["seq"])
        return numbers

    def assert_taken_in_order(self, server, rows, refused=()):
        taken = self.taken_by(server)
        for name, numbers in self.written().items():
            wanted = [seq for seq in numbers if seq not in refused]
            self.assertEqual(taken[name], wanted[:len(taken[name])], name)
            self.assertGreaterEqual(len(taken[name]), rows[name]["acknowledged"])
            self.assertEqual(rows[name]["taken"], len(numbers))

    def test_posts_frames_in_order_and_in_batches_with_its_headers(self):
        server = Server(lambda frames: 200)
        rows, log = self.run_with(server, 20, "      batch: 8\n      headers: ['Authorization: Bearer sesame']\n")
        self.assert_taken_in_order(server, rows)
        self.assertLessEqual(max(len(frames) for _, frames, _ in server.requests), 8)
        headers = server.requests[0][2]
        self.assertEqual(headers["Authorization"], "Bearer sesame")
        self.assertEqual(headers["Content-Type"], "application/json")
        self.assertRegex(headers["User-Agent"], r"^camd/\d")
        self.assertNotIn("sesame", log)
        self.assertNotIn("hidden", log)

    def test_a_server_that_fails_gets_everything_again_in_order(self):
        failures = [503, 401, 500]
        server = Server(lambda frames: failures.pop() if failures else 200)
        rows, log = self.run_with(server, 10)
        self.assertEqual([status for status, _, _ in server.requests[:4]], [500, 401, 503, 200])
        self.assert_taken_in_order(server, rows)
        self.assertIn("HTTP 503 so; tried again", log)

    def test_only_the_message_that_the_server_refuses_is_lost(self):
        server = Server(lambda frames: 422 if any(frame["seq"] % 5 == 3 for frame in frames) else 200)
        rows, log = self.run_with(server, 10)
        self.assert_taken_in_order(server, rows, range(3, 100_000, 5))
        for name, row in rows.items():
            self.assertGreaterEqual(row["dropped"]["refused"], 1, row)
        self.assertEqual(log.count("was refused: HTTP 422 so"), 1)


if __name__ == "__main__":
    unittest.main()
