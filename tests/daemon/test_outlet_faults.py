"""The built camd with its outlets when the other side or the disk does not play along: cameras lose nothing, the log says why once.

usage: test_outlet_faults.py BUILD
"""

import json
import os
import resource
import signal
import socket
import struct
import subprocess
import threading
import unittest

import test_outlets as shared

TOOL = "/usr/bin/mosquitto_passwd"


class KafkaThatRefusesLogins:
    """As much of a Kafka broker as it takes to refuse a login (kafka.apache.org/protocol: ApiVersions, SaslHandshake,
    SaslAuthenticate, each in its version 0)."""

    def __init__(self, tls=None):
        self._tls = tls  # an ssl.SSLContext
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.logins = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._server.close()

    def _accept(self):
        try:
            while True:
                threading.Thread(target=self._serve, args=(self._server.accept()[0],), daemon=True).start()
        except OSError:
            pass  # the test is over

    def _serve(self, client):
        if self._tls is not None:
            try:
                client = self._tls.wrap_socket(client, server_side=True)
            except OSError:  # the client does not like the certificate
                client.close()
                return
        with client, client.makefile("rb") as requests:
            while len(size := requests.read(4)) == 4:
                request = requests.read(int.from_bytes(size, "big"))
                kind, version, number = struct.unpack(">hhi", request[:8])
                if kind == 18:
                    known = ((0, 3, 7), (3, 0, 2), (17, 0, 1), (18, 0, 0), (36, 0, 0))
                    # 35: not in this version; the client asks for an older one then.
                    answer = struct.pack(">hi", 35 if version > 0 else 0, len(known)) + b"".join(struct.pack(">hhh", *one) for one in known)
                elif kind == 17:
                    answer = struct.pack(">hih", 0, 1, 5) + b"PLAIN"
                elif kind == 36:
                    self.logins.append(request[10 + struct.unpack(">h", request[8:10])[0] + 4:])
                    answer = struct.pack(">hh", 58, 12) + b"no such user" + struct.pack(">i", 0)
                else:
                    return
                client.sendall(struct.pack(">ii", 4 + len(answer), number) + answer)


class TwoCameras(shared.Daemon):
    def camd(self, outlet, plugin="mqtt", before=(), **options):
        """A run of two cameras that the outlet with these lines sends; each frame becomes a message."""
        shared.tiny_model(self.folder / "tiny.onnx")
        cameras = "".join(f"  - {{name: c{i}, source: {{type: test, width: 64, height: 48, fps: 50}}}}\n" for i in range(2))
        path = self.folder / "camd.yaml"
        path.write_text(f"device: host\nmodel: {{path: {self.folder}/tiny.onnx}}\nmetrics: {{period: 100ms}}\n"
                        f"pipeline: {{max_age: 1h}}\ncameras:\n{cameras}postprocess:\n  - plugin: {plugin}\n    config:\n"
                        f"      publish: frame\n{outlet}")
        process = subprocess.Popen([*before, str(shared.BUILD / "bin/camd"), "run", str(path), "--metrics", "json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.out, self.err = shared.Lines(process.stdout), shared.Lines(process.stderr)
        return process

    def rows(self):
        """The last two lines of the outlet, one for each camera."""
        return [row for row in map(json.loads, list(self.out.lines)) if row["event"] == "outlet"][-2:]

    def wait(self, condition):
        self.assertTrue(shared.wait_until(condition, shared.PATIENCE), "\n".join(self.err.lines[-5:]))

    def sum_of(self, what):
        return sum(what(row) for row in self.rows())

    def finish(self, process):
        """Ends camd. In each line the ledgers of outlet and cameras are exact, and no camera has lost a frame."""
        self.end(process, self.out, self.err)
        lines = list(map(json.loads, self.out.lines))
        for line in lines:
            if line["event"] == "outlet":
                self.assertTrue(shared.balanced(line), line)
            if line["event"] == "camera":  # on a machine without time to spare newer frames come first; nothing else
                self.assertEqual(sum(dict(line["totals"]["dropped"], superseded=0, shutdown=0).values()), 0, line)
        delivered = {camera["camera"]: camera["totals"]["delivered"] for camera in lines[-1]["cameras"]}
        self.assertEqual({row["camera"]: row["taken"] for row in self.rows()}, delivered)
        return "\n".join(self.err.lines)


class Faults(TwoCameras):
    def test_a_wrong_password_is_told_once_and_shown_never(self):
        for program in (shared.BROKER, TOOL):
            if not os.access(program, os.X_OK):
                self.skipTest(f"no {program}: scripts/install_deps.sh test")
        subprocess.run([TOOL, "-c", "-b", str(self.folder / "users"), "camd", "right"], check=True, capture_output=True)
        broker = shared.Broker(self.folder)
        config = self.folder / "mosquitto.conf"
        config.write_text(config.read_text().replace("allow_anonymous true", "allow_anonymous false") +
                          f"password_file {self.folder}/users\n")
        broker.start()
        self.addCleanup(lambda: broker.end(signal.SIGKILL))
        process = self.camd(f"      url: mqtt://127.0.0.1:{broker.port}\n      user: camd\n      password: hunter2secret\n"
                            "      outbox: {capacity: 20, retry_max: 100ms}\n")
        self.wait(lambda: self.rows() and self.sum_of(lambda row: row["dropped"]["full"]) >= 20)
        log = self.finish(process)
        self.assertEqual(self.sum_of(lambda row: row["acknowledged"]), 0)
        self.assertNotIn("hunter2secret", log + "\n".join(self.out.lines))
        self.assertEqual(log.count("not authorised"), 1, log)

    def test_a_wrong_password_of_webhook_and_kafka_is_told_once_and_shown_never(self):
        asked = []
        server = shared.Server(lambda frames: asked.append(len(frames)) or 401)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        kafka = KafkaThatRefusesLogins()
        self.addCleanup(kafka.close)
        for plugin, lines, told in (
                ("webhook", f"      url: http://127.0.0.1:{server.server_port}/\n", "HTTP 401"),
                ("kafka", f"      brokers: 127.0.0.1:{kafka.port}\n      topic: t\n      mechanism: PLAIN\n", "no such user")):
            with self.subTest(plugin):
                process = self.camd(lines + "      user: camd\n      password: hunter2secret\n"
                                    "      outbox: {capacity: 20, retry_max: 100ms}\n", plugin)
                self.wait(lambda: self.rows() and self.sum_of(lambda row: row["dropped"]["full"]) >= 20 and
                          told in "\n".join(self.err.lines))
                log = self.finish(process)
                self.assertEqual(self.sum_of(lambda row: row["acknowledged"]), 0)
                self.assertNotIn("hunter2secret", log + "\n".join(self.out.lines))
                self.assertEqual(log.count(told), 1, log)
        self.assertIn("Basic Y2FtZDpodW50ZXIyc2VjcmV0", server.requests[0][2]["Authorization"])
        self.assertEqual(kafka.logins[0], b"\0camd\0hunter2secret")

    def test_another_side_that_accepts_and_never_answers_costs_no_camera_a_frame(self):
        silent = socket.create_server(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        taken = []
        self.addCleanup(silent.close)

        def accept():
            try:
                while True:
                    taken.append(silent.accept()[0])
            except OSError:
                pass  # the test is over
        threading.Thread(target=accept, daemon=True).start()
        for plugin, lines in (("mqtt", f"      url: mqtt://127.0.0.1:{port}\n"),
                              ("webhook", f"      url: http://127.0.0.1:{port}/\n"),
                              ("kafka", f"      brokers: 127.0.0.1:{port}\n      topic: t\n")):
            with self.subTest(plugin):
                while taken:
                    taken.pop().close()
                process = self.camd(lines + "      outbox: {capacity: 20}\n", plugin)
                self.wait(lambda: taken and self.rows() and self.sum_of(lambda row: row["dropped"]["full"]) >= 40)
                for row in self.rows():
                    self.assertEqual(row["acknowledged"], 0)
                self.assertLessEqual(self.sum_of(lambda row: row["waiting"]), 20)
                self.finish(process)
        for connection in taken:
            connection.close()

    def test_a_full_disk_that_has_room_again_takes_messages_again_and_all_of_the_spool_arrives_in_order(self):
        for program in (shared.BROKER, "/usr/bin/mosquitto_sub"):
            if not os.access(program, os.X_OK):
                self.skipTest(f"no {program}: scripts/install_deps.sh test")
        disk = self.folder / "disk"
        disk.mkdir()
        # A disk of 1 MiB of camd's own, nearly full of something else.
        own = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
               f"mount -t tmpfs -o size=1m none {disk} && head -c 1000000 /dev/zero >{disk}/ballast && exec \"$@\"", "sh"]
        tried = subprocess.run([*own, "true"], capture_output=True, text=True)
        if tried.returncode != 0:
            self.skipTest(f"no namespace for a disk: {tried.stderr.strip()}")
        broker = shared.Broker(self.folder)
        broker.start()
        subscribe = ["/usr/bin/mosquitto_sub", "-h", "127.0.0.1", "-p", str(broker.port), "-q", "1", "-i", "listener", "-c", "-t",
                     "camd/+/detections"]
        subprocess.run([*subscribe, "-E"], check=True, timeout=shared.PATIENCE)  # the broker remembers who has subscribed
        broker.end(signal.SIGTERM)
        self.addCleanup(lambda: broker.end(signal.SIGKILL))
        process = self.camd(f"      url: mqtt://127.0.0.1:{broker.port}\n"
                            f"      outbox: {{capacity: 20, retry_max: 100ms, spool: {disk}/spool}}\n", before=own)
        self.wait(lambda: self.rows() and self.sum_of(lambda row: row["dropped"]["full"]) >= 20)
        spooled = self.sum_of(lambda row: row["spooled"])
        self.assertGreater(spooled, 0)
        os.remove(f"/proc/{process.pid}/root{disk}/ballast")
        self.wait(lambda: self.sum_of(lambda row: row["spooled"]) >= 2 * spooled)
        broker.start()
        heard, lines, _ = shared.start(*subscribe)
        self.addCleanup(heard.wait)
        self.addCleanup(heard.kill)
        taken = self.sum_of(lambda row: row["taken"])
        self.wait(lambda: self.sum_of(lambda row: row["acknowledged"] + sum(row["dropped"].values())) >= taken)
        log = self.finish(process)
        self.assertEqual(log.count("the spool cannot be written: "), 1, log)
        self.assertIn("No space left on device", log)
        acknowledged = {row["camera"]: row["acknowledged"] for row in self.rows()}
        self.wait(lambda: len(lines.lines) >= sum(acknowledged.values()))
        for name, count in acknowledged.items():
            numbers = [frame["seq"] for frame in map(json.loads, list(lines.lines)) if frame["camera"] == name]
            self.assertEqual(list(dict.fromkeys(numbers)), sorted(set(numbers)))  # at least once, in order
            self.assertGreaterEqual(len(set(numbers)), count)

    def test_a_file_that_cannot_grow_under_the_spool_costs_messages_that_are_counted_and_no_frame(self):
        def no_room():
            # A file that grows beyond this gives an error, as a full disk does, once the signal is ignored.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        with socket.socket() as found:  # nobody listens there
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        process = self.camd(f"      url: mqtt://127.0.0.1:{port}\n"
                            f"      outbox: {{capacity: 20, retry_max: 100ms, spool: {self.folder}/spool}}\n", preexec_fn=no_room)
        self.wait(lambda: self.rows() and self.sum_of(lambda row: row["dropped"]["full"]) >= 20)
        spooled = self.sum_of(lambda row: row["spooled"])
        self.assertGreater(spooled, 0)
        log = self.finish(process)
        self.assertIn("the spool cannot be written: ", log)
        # A shorter message may have found room behind the last one.
        self.assertGreaterEqual(self.sum_of(lambda row: row["spooled"]), spooled)


if __name__ == "__main__":
    unittest.main()
