#!/usr/bin/env python3
"""Runs a fleet of camds on a Ray cluster: an actor for each shard, started anew elsewhere when its node dies.

    camd_fleet.py CONFIG --shards N [--camd FILE] [--gpus SHARE] [--cpus N] [--address ADDRESS] [--lines FOLDER]

Needs PyPI's ray, and camd on each node. CONFIG is read here and sent to the nodes; files that it names lie on each of them.
Each camd has the variable SHARD, for names that must differ, such as `client_id: camd-${SHARD}`.

stdout has a JSON object for each change of a shard: {"event":"shard","shard":0,"node":"...","pid":1,"state":"ready"|
"not_ready"|"lost","detail":"..."}. SIGINT and SIGTERM end all camds in peace.

Exit codes: 0 stopped; 2 a camd refuses its configuration.
"""

import argparse
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import ray

PERIOD = 0.25  # seconds between two looks at a shard
SILENT = 10.0  # seconds without an answer of a camd that runs: it is started anew
DRAIN = 20.0  # seconds that a camd has to end in peace
PR_SET_PDEATHSIG = 1  # prctl(2)


def end_with_parent() -> None:
    """In the child: it is killed when the actor's process is gone, however it went."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Shard:
    """One camd. Its process ends with this actor's, so that a shard never runs twice on a node."""

    def __init__(self, index: int, count: int, config: str, camd: str, environment: dict, lines: str):
        self._folder = tempfile.TemporaryDirectory(prefix=f"camd-shard-{index}-")
        path = Path(self._folder.name) / "camd.yaml"
        path.write_text(config)
        self._address = None
        self._log = []
        self._answered = time.monotonic()
        lines_file = open(Path(lines) / f"shard-{index}.jsonl", "a") if lines else subprocess.DEVNULL
        self._camd = subprocess.Popen(
            [camd, "run", str(path), "--shard", f"{index}/{count}", "--set", "http.listen=127.0.0.1:0",
             "--metrics", "json" if lines else "off"],
            env={**os.environ, **environment, "SHARD": str(index)}, stdin=subprocess.DEVNULL, stdout=lines_file,
            stderr=subprocess.PIPE, text=True, preexec_fn=end_with_parent)
        threading.Thread(target=self._read_log, daemon=True).start()

    def _read_log(self) -> None:
        for line in self._camd.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            self._log = [*self._log[-19:], line.rstrip()]
            if found := re.search(r"http: listening on (\S+)", line):
                self._address = found[1].rstrip(",")

    def health(self) -> dict:
        """What /readyz says: {"node", "pid", "state": "ready" | "not_ready" | "silent" | "ended", "detail", "code"}."""
        told = {"node": ray.get_runtime_context().get_node_id(), "pid": self._camd.pid, "state": "not_ready",
                "detail": "camd starts"}
        code = self._camd.poll()
        if code is not None:
            return {**told, "state": "ended", "code": code, "detail": "\n".join(self._log)}
        if self._address is not None:
            try:
                with urllib.request.urlopen(f"http://{self._address}/readyz", timeout=2) as answer:
                    told.update(state="ready", detail=answer.read().decode().strip())
                self._answered = time.monotonic()
            except urllib.error.HTTPError as refused:  # 503: a camera does not run, which no new start would mend
                told["detail"] = refused.read().decode().strip()
                self._answered = time.monotonic()
            except (OSError, ValueError) as problem:
                told["detail"] = str(problem)
            if time.monotonic() - self._answered > SILENT:
                told["state"] = "silent"
        return told

    def stop(self) -> int:
        """[blocks] Ends camd in peace. Its exit code."""
        self._camd.send_signal(signal.SIGTERM)
        try:
            return self._camd.wait(DRAIN)
        except subprocess.TimeoutExpired:
            self._camd.kill()
            return self._camd.wait()


class Fleet:
    def __init__(self, told: argparse.Namespace, out):
        self._out = out
        self._last = [None] * told.shards
        self._asked = [None] * told.shards
        self._not_before = [0.0] * told.shards
        config = told.config.read_text()
        environment = {name: os.environ[name] for name in re.findall(r"\$\{(\w+)\}", config)
                       if name in os.environ and name != "SHARD"}
        make = ray.remote(Shard).options(
            num_cpus=told.cpus, num_gpus=told.gpus, max_restarts=-1, scheduling_strategy="SPREAD")
        self._actors = [make.remote(i, told.shards, config, told.camd, environment, told.lines)
                        for i in range(told.shards)]

    def look(self) -> int | None:
        """Asks each shard how it is. An exit code: that is the end."""
        for i, actor in enumerate(self._actors):
            if self._asked[i] is None and time.monotonic() >= self._not_before[i]:
                self._asked[i] = actor.health.remote()
        open_questions = [one for one in self._asked if one is not None]
        ray.wait(open_questions, num_returns=len(open_questions), timeout=PERIOD)
        for i, question in enumerate(self._asked):
            if question is None or not ray.wait([question], timeout=0)[0]:
                continue
            self._asked[i] = None
            self._not_before[i] = time.monotonic() + PERIOD
            try:
                health = ray.get(question)
            except ray.exceptions.RayActorError as gone:  # Ray starts it anew
                self._tell(i, {"state": "lost", "detail": str(gone).splitlines()[0]})
                continue
            if health["state"] == "ended" and health["code"] == 2:
                print(f"camd_fleet: shard {i}: camd refuses its configuration:\n{health['detail']}", file=sys.stderr)
                return 2
            if health["state"] in ("ended", "silent"):
                self._tell(i, {**health, "state": "lost"})
                ray.kill(self._actors[i], no_restart=False)
                self._not_before[i] = time.monotonic() + 1
                continue
            self._tell(i, health)
        return None

    def _tell(self, index: int, health: dict) -> None:
        seen = (health["state"], health.get("node"), health.get("pid"))
        if seen == self._last[index]:
            return
        self._last[index] = seen
        print(json.dumps({"event": "shard", "shard": index, "time": time.time(), **health}), file=self._out, flush=True)

    def stop(self) -> None:
        """[blocks] Ends all camds in peace, at the same time."""
        answers = [actor.stop.remote() for actor in self._actors]
        ray.wait(answers, num_returns=len(answers), timeout=DRAIN + 5)
        for actor in self._actors:
            ray.kill(actor)


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a fleet of camds on a Ray cluster.")
    parser.add_argument("config", type=Path, help="the YAML file that all shards share")
    parser.add_argument("--shards", type=int, required=True, help="how many camds share the cameras")
    parser.add_argument("--camd", default="camd", help="the program, as each node has it (default: camd)")
    parser.add_argument("--gpus", type=float, default=0, help="a shard's share of a GPU, such as 1 or 0.25 (default: 0)")
    parser.add_argument("--cpus", type=float, default=1, help="of a shard (default: 1)")
    parser.add_argument("--address", default="auto", help="of the cluster (default: the one of this machine)")
    parser.add_argument("--lines", default="", help="a folder of each node: metrics lines go to shard-N.jsonl there")
    told = parser.parse_args()
    stopping = threading.Event()
    # Ray prints what it has to say to stdout, which is for lines alone: it goes to stderr.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    ray.init(address=told.address, log_to_driver=False, configure_logging=False)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    fleet = Fleet(told, out)
    code = None
    while code is None and not stopping.is_set():
        code = fleet.look()
    fleet.stop()
    return code or 0


if __name__ == "__main__":
    sys.exit(main())
