"""packaging/ray/camd_fleet.py on three Ray nodes of this machine: 24 cameras, one broker, and a node that is killed.

usage: test_ray.py CAMD

Heavy (three raylets, five processes each): runs where CAMD_TEST_RAY=1 is set and the virtual environment is there.
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

import fleet_venv

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/chaos"))
from parts import balance, tiny_model, wait_until  # noqa: E402

PROGRAM = SOURCE / "packaging/ray/camd_fleet.py"
BROKER = "/usr/sbin/mosquitto"
LISTENER = "/usr/bin/mosquitto_sub"
PATIENCE = 120
CAMERAS = 24
SHARDS = 3
# How soon a node counts as dead: docs/fleet.md tells users to start theirs with these.
DETECTION = {"health_check_initial_delay_ms": 1000, "health_check_period_ms": 500, "health_check_timeout_ms": 1000,
             "health_check_failure_threshold": 4}


class Heard(threading.Thread):
    """The lines of a program with the moment when they came."""

    def __init__(self, test, *command):
        super().__init__(daemon=True)
        self.lines = []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)
        self.start()

    def run(self):
        with self.process.stdout as pipe:
            for line in pipe:
                self.lines.append((time.monotonic(), line))


def family(pid):
    """The process and all that it has started, as /proc knows them."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            pass
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def runs_of(path):
    """The lines of each camd that has written this file, one after the other. The last line may be torn."""
    runs = []
    for text in path.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if line["event"] == "start":
            runs.append([])
        runs[-1].append(line)
    return runs


class RayFleet(unittest.TestCase):
    def setUp(self):
        from ray.cluster_utils import Cluster
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 1, "_system_config": DETECTION})
        self.addCleanup(self.cluster.shutdown)
        self.nodes = [self.cluster.head_node] + [self.cluster.add_node(num_cpus=2, num_gpus=1) for _ in range(2)]
        self.cluster.wait_for_nodes()
        tiny_model(self.folder / "tiny.onnx")

    def start(self, postprocess):
        config = self.folder / "camd.yaml"
        cameras = "".join(f"  - {{name: c{i}, source: {{type: test, width: 64, height: 48, fps: 5}}}}\n"
                          for i in range(CAMERAS))
        config.write_text(f"device: host\nmodel: {{path: {self.folder}/tiny.onnx}}\nmetrics: {{period: 100ms}}\n"
                          f"pipeline: {{max_age: 1h}}\ncameras:\n{cameras}postprocess:\n{postprocess}")
        heard = Heard(self, sys.executable, str(PROGRAM), str(config), "--shards", str(SHARDS), "--camd", CAMD, "--gpus", "0.5",
                      "--cpus", "0.5", "--address", self.cluster.address, "--lines", str(self.folder))
        return heard, config

    def test_cameras_of_a_node_that_dies_go_on_elsewhere_and_nothing_comes_twice(self):
        port = self.start_broker()
        messages = Heard(self, LISTENER, "-h", "127.0.0.1", "-p", str(port), "-q", "1", "-t", "camd/+/detections")
        fleet, config = self.start(
            f"  - plugin: mqtt\n    config:\n      url: mqtt://127.0.0.1:{port}\n      publish: frame\n"
            "      client_id: camd-${SHARD}\n      status_topic: camd/status/${SHARD}\n")
        members = [self.members(config, shard) for shard in range(SHARDS)]
        self.assertEqual(sorted(sum(members, [])), sorted(f"c{i}" for i in range(CAMERAS)))

        def all_deliver():
            return len({json.loads(text)["camera"] for _, text in list(messages.lines)}) == CAMERAS
        self.assertTrue(wait_until(all_deliver, PATIENCE, 0.1), fleet.lines)
        self.assertTrue(wait_until(lambda: all(self.states(fleet)[i]["state"] == "ready" for i in range(SHARDS)), PATIENCE, 0.1))
        places = {shard: health["node"] for shard, health in self.states(fleet).items()}
        self.assertEqual(len(set(places.values())), SHARDS, "spread over the nodes")

        victim = self.nodes[-1]
        lost = [shard for shard, node in places.items() if node == victim.node_id]
        self.assertEqual(len(lost), 1)
        moved = set(members[lost[0]])
        raylet = victim.all_processes["raylet"][0].process.pid
        killed_at = time.monotonic()
        for pid in family(raylet):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # camd ends with the actor's process

        def again():
            return {json.loads(text)["camera"] for at, text in list(messages.lines)
                    if at > killed_at and json.loads(text)["seq"] == 0}
        self.assertTrue(wait_until(lambda: again() >= moved, PATIENCE, 0.05), fleet.lines)
        back_after = max(min(at for at, text in messages.lines if at > killed_at and json.loads(text)["seq"] == 0
                             and json.loads(text)["camera"] == camera) for camera in moved) - killed_at

        def ready_elsewhere():
            now = self.states(fleet)[lost[0]]
            return now["state"] == "ready" and now["node"] != victim.node_id
        self.assertTrue(wait_until(ready_elsewhere, PATIENCE, 0.1), fleet.lines)
        time.sleep(2)  # so that there is something to compare; nothing depends on how much
        fleet.process.send_signal(signal.SIGTERM)
        self.assertEqual(fleet.process.wait(PATIENCE), 0)
        holes = self.compare(messages, members, lost[0])
        print(f"{CAMERAS} cameras, {SHARDS} shards; a node was killed: its {len(moved)} cameras delivered again after at most "
              f"{back_after:.1f} s; {len(messages.lines)} messages, none twice, {holes} holes, all of them counted",
              file=sys.stderr)

    def compare(self, messages, members, lost):
        """Messages against the shards' own lines. Returns how many frames have no message."""
        received = {}  # by camera: the sequence numbers of each run, in the order of their arrival
        for _, text in messages.lines:
            frame = json.loads(text)
            runs = received.setdefault(frame["camera"], [[]])
            if frame["seq"] == 0 and runs[-1]:
                runs.append([])
            runs[-1].append(frame["seq"])
        holes = 0
        for shard, cameras in enumerate(members):
            lines = runs_of(self.folder / f"shard-{shard}.jsonl")
            self.assertEqual(len(lines), 2 if shard == lost else 1, "which shards were started anew")
            for camera in cameras:
                self.assertEqual(len(received[camera]), len(lines), camera)
                for numbers, run in zip(received[camera], lines):
                    # Growing numbers: none twice, and none of a second shard in between.
                    self.assertEqual(numbers, sorted(set(numbers)), camera)
                    totals, outlet = self.last_of(run, camera)
                    self.assertEqual(balance(totals), 0)
                    came = sum(1 for number in numbers if number < totals["captured"])
                    open_ones = totals["in_flight"] + outlet["waiting"]  # of a run that was killed
                    counted = sum(totals["dropped"].values()) + sum(outlet["dropped"].values()) + open_ones
                    self.assertLessEqual(totals["captured"] - came, counted, camera)
                    if run[-1]["event"] == "stop":
                        self.assertEqual(open_ones, 0)
                        self.assertEqual(totals["captured"] - len(numbers), counted, camera)
                    holes += totals["captured"] - came
        return holes

    def last_of(self, run, camera):
        outlet = [line for line in run if line["event"] == "outlet" and line["camera"] == camera][-1]
        if run[-1]["event"] == "stop":
            return next(one for one in run[-1]["cameras"] if one["camera"] == camera)["totals"], outlet
        before = run.index(outlet)  # both from one period
        return [line for line in run[:before] if line["event"] == "camera" and line["camera"] == camera][-1]["totals"], outlet

    def test_a_configuration_that_camd_refuses_ends_the_fleet_with_2(self):
        fleet, _ = self.start("  - plugin: mqtt\n    config: {}\n")
        self.assertEqual(fleet.process.wait(PATIENCE), 2)

    def members(self, config, shard):
        told = subprocess.run([CAMD, "check", str(config), "--shard", f"{shard}/{SHARDS}"], capture_output=True, text=True,
                              check=True, env={**os.environ, "SHARD": str(shard)}).stdout
        return told.splitlines()[1].rpartition(": ")[2].split(", ")

    def states(self, fleet):
        """The last that was told of each shard."""
        told = {i: {"state": ""} for i in range(SHARDS)}
        for _, text in list(fleet.lines):
            told[json.loads(text)["shard"]] = json.loads(text)
        return told

    def start_broker(self):
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        config = self.folder / "mosquitto.conf"
        config.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 0\nmax_queued_messages 0\n")
        broker = subprocess.Popen([BROKER, "-c", str(config)], stderr=subprocess.DEVNULL)
        self.addCleanup(broker.wait)
        self.addCleanup(broker.kill)

        def answers():
            with socket.socket() as one:
                return one.connect_ex(("127.0.0.1", port)) == 0
        self.assertTrue(wait_until(answers, PATIENCE))
        return port


def why_not():
    if os.environ.get("CAMD_TEST_RAY") != "1":
        return "heavy: set CAMD_TEST_RAY=1"
    for program in (BROKER, LISTENER):
        if not os.access(program, os.X_OK):
            return f"no {program}: scripts/install_deps.sh test"
    try:
        import ray  # noqa: F401
    except ImportError:
        return f"no ray: {fleet_venv.HINT}"
    return None


if __name__ == "__main__":
    fleet_venv.enter()
    if reason := why_not():
        print("skipped:", reason)
        sys.exit(77)
    CAMD = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
