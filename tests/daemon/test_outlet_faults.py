"""The built camd with `mqtt` when the other side or the disk does not play along: cameras lose nothing, the log says why once.

usage: test_outlet_faults.py BUILD
"""

import json
import os
import resource
import signal
import socket
import subprocess
import threading
import unittest

import test_outlets as shared

TOOL = "/usr/bin/mosquitto_passwd"


class Faults(shared.Daemon):
    def camd(self, outlet, **options):
        """A run of two cameras that `mqtt` with these lines sends; each frame becomes a message."""
        shared.tiny_model(self.folder / "tiny.onnx")
        cameras = "".join(f"  - {{name: c{i}, source: {{type: test, width: 64, height: 48, fps: 50}}}}\n" for i in range(2))
        path = self.folder / "camd.yaml"
        path.write_text(f"device: host\nmodel: {{path: {self.folder}/tiny.onnx}}\nmetrics: {{period: 100ms}}\n"
                        f"pipeline: {{max_age: 1h}}\ncameras:\n{cameras}postprocess:\n  - plugin: mqtt\n    config:\n"
                        f"      publish: frame\n{outlet}")
        process = subprocess.Popen([str(shared.BUILD / "bin/camd"), "run", str(path), "--metrics", "json"],
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

    def test_a_broker_that_accepts_and_never_answers_costs_no_camera_a_frame(self):
        silent = socket.create_server(("127.0.0.1", 0))
        taken = []
        self.addCleanup(silent.close)

        def accept():
            try:
                while True:
                    taken.append(silent.accept()[0])
            except OSError:
                pass  # the test is over
        threading.Thread(target=accept, daemon=True).start()
        process = self.camd(f"      url: mqtt://127.0.0.1:{silent.getsockname()[1]}\n      outbox: {{capacity: 20}}\n")
        self.wait(lambda: taken and self.rows() and self.sum_of(lambda row: row["dropped"]["full"]) >= 40)
        for row in self.rows():
            self.assertEqual(row["acknowledged"], 0)
        self.assertLessEqual(self.sum_of(lambda row: row["waiting"]), 20)
        self.finish(process)
        for connection in taken:
            connection.close()

    def test_a_full_disk_under_the_spool_costs_messages_that_are_counted_and_no_frame(self):
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
