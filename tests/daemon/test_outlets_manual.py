"""Runs every command of docs/outlets.md, in a network of its own, where the ports that the manual names are free.

usage: test_outlets_manual.py CAMD

A command that runs on (a daemon, a subscriber) has succeeded once it has printed what `SEEN` says. A command of the manual that
`SEEN` does not know fails the test.
"""

import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from kafka_mock import MockKafka

SOURCE = Path(__file__).resolve().parents[2]
INSIDE = "CAMD_TEST_INSIDE"
PATIENCE = 90
# How a command begins, and what it prints or leaves behind when it has done what the manual says.
SEEN = {
    "camd run docs/examples/": r'"event":"start"',
    "mosquitto_sub -h localhost -t 'camd/#' -v": r"camd/demo/detections \{",
    "mosquitto_sub -h localhost -t camd/demo/snapshot -C 1 -N > picture.jpg": "picture.jpg",
    "prometheus ": r"Server is ready to receive web requests",
    "curl -sG http://127.0.0.1:9090/": r'"status":"success".*"camera_gate|"status":"success".*gate_in',
    "python3 -u - <<'PY'": r'"camera":"demo"',
    "kcat ": r'"camera":"demo"',
}


def sections():
    """The commands of the manual by their heading: (heading, [command, ...])."""
    text = (SOURCE / "docs/outlets.md").read_text()
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        commands = re.findall(r"^```sh\n(.*?)^```", part, re.M | re.S)
        if commands:
            yield part.splitlines()[0], commands


def loopback_up():
    with socket.socket() as any_socket:  # netdevice(7): SIOCSIFFLAGS, IFF_UP | IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 0x41))


class Output(threading.Thread):
    def __init__(self, command, folder, path):
        super().__init__(daemon=True)
        self.text = ""
        self.process = subprocess.Popen(["bash", "-c", command], cwd=folder, env={**os.environ, "PATH": path}, text=True,
                                        errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        self.start()

    def run(self):
        with self.process.stdout as pipe:
            for line in pipe:
                self.text += line

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Manual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        loopback_up()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        for name in ("docs", "models"):
            (cls.folder / name).symlink_to(SOURCE / name)
        (cls.folder / "bin").mkdir()
        (cls.folder / "bin/camd").symlink_to(CAMD)
        cls.path = f"{cls.folder}/bin:{os.environ['PATH']}:/usr/sbin"
        config = cls.folder / "mosquitto.conf"
        config.write_text("listener 1883 127.0.0.1\nuser root\nallow_anonymous true\n")
        if broker := shutil.which("mosquitto", path=cls.path):
            running = Output(f"{broker} -c {config}", cls.folder, cls.path)
            cls.addClassCleanup(running.end)
        cls.kafka = MockKafka(9092)

    def test_every_command_does_what_it_says(self):
        for heading, commands in sections():
            with self.subTest(heading):
                self.run_all(commands)

    def run_all(self, commands):
        for command in commands:
            self.assertTrue(any(command.startswith(one) for one in SEEN), f"no expectation of: {command}")
            program = command.split()[0]
            if program == "mosquitto_sub" and not shutil.which("mosquitto", path=self.path):
                program = "mosquitto"
            if not shutil.which(program, path=self.path):
                self.skipTest(f"no {program}: scripts/install_deps.sh test dev")
        running = []
        try:
            for command in commands:
                running.append([command, Output(command, self.folder, self.path)])
            for one in running:
                wanted = next(seen for begin, seen in SEEN.items() if one[0].startswith(begin))
                self.assertTrue(self.wait(one, wanted), f"{one[0]}\n{one[1].text[-2000:]}")
        finally:
            for _, output in running:
                output.end()

    def wait(self, one, wanted):
        """Whether the command has done it. One that ends without, as a question that came too early, is run anew."""
        command, output = one
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if wanted.endswith(".jpg"):
                file = self.folder / wanted
                if output.process.poll() == 0 and file.read_bytes()[:3] == b"\xff\xd8\xff":
                    return True
            else:
                ended = output.process.poll() is not None
                if ended:
                    output.join(PATIENCE)  # all that it has said
                if re.search(wanted, output.text):
                    return True
                if ended:
                    time.sleep(0.2)
                    one[1] = output = Output(command, self.folder, self.path)
            time.sleep(0.05)
        return False


if __name__ == "__main__":
    CAMD = str(Path(sys.argv[1]).resolve())
    if os.environ.get(INSIDE) != "1":
        unshare = ["unshare", "--user", "--map-root-user", "--net"]
        if not shutil.which("unshare") or subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
            print("skipped: no user namespaces: a network of its own cannot be made")
            sys.exit(77)
        os.environ[INSIDE] = "1"
        os.execvp("unshare", [*unshare, sys.executable, *sys.argv])
    sys.argv.pop(1)
    unittest.main()
