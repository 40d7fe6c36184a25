#!/usr/bin/python3
"""How many cameras a machine takes: runs camd with 1, 8, 32, ... cameras of one clip and prints a table row for each.

usage: measure_cameras.py --clip FILE|--rtsp PROGRAM|--test [--model FILE] [--camd PATH] [--cameras N,N,...]
                          [--decode auto|gpu|cpu] [--device NAME,...] [--each] [--transfer MODE] [--seconds S]
                          [--settle S] [--size WxH] [--fps N] [--as-fast] [--period P] [--instances MODE] [--stages] [--threads] [--slow MS]

  --clip FILE      a video file; every camera plays it in real time, again and again
  --rtsp PROGRAM   instead: camd_rtsp_server, which every camera is connected to over TCP; its pictures are H.264
  --test           instead: cameras that draw their pictures themselves, so that nothing is decoded
  --size WxH       of the pictures of --rtsp and --test [320x240]
  --fps N          of the pictures of --rtsp and --test a second [30]
  --as-fast        a clip, or pictures of --test, as fast as they go
  --model FILE     the ONNX file, whose outputs `detections` reads. Not said: a network that does nothing, so that
                   what is measured is everything else
  --camd PATH      the program [build/dev/bin/camd]
  --cameras N,...  how many cameras, one run each [1,8,32]
  --decode MODE    the cameras' `decode` [auto]
  --device NAME,.. `device` [cuda]; several: `devices`
  --each           a camd for each of these devices, side by side, which sees that GPU alone; each has so many cameras
  --transfer MODE  `pipeline.transfer` [auto]
  --seconds S      the length of a run beyond its start [15]; rates, latencies and drops are those of its second half
  --settle S       or of all that comes S seconds after the start
  --period P       `metrics.period` [1s]; when the first camera delivers is known to a period
  --instances MODE `instances` of the plug-in `detections` [shared]
  --stages         on standard error: the latency of each stage, and what camd said of the frames in flight and of Vulkan Video
  --threads        on standard error: the threads by name, where the cameras' own names are left out
  --slow MS        on standard error: each second in which a frame took longer: when that was on the monotonic clock and since
                   the start, of how many cameras, the slowest one and what it waited in, and what was dropped

"metrics" is the CPU time of the thread that writes the metrics lines, one a camera and second. "ended after" is the
time from SIGTERM to the end of the process.

A run begins when every camera has delivered a frame, or after a minute. Why cameras delivered
nothing, and what a camd that ended too early wrote last, is told on standard error. Exit 1 when a line did not balance, a camera delivered nothing, or camd did not end.
"""

import argparse
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

START_PATIENCE_S = 60
END_PATIENCE_S = 60
MOST_ERRORS = 60


def arguments():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--camd", default="build/dev/bin/camd")
    parser.add_argument("--clip")
    parser.add_argument("--rtsp")
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--as-fast", action="store_true")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--size", default="320x240")
    parser.add_argument("--fps", type=int, default=30)
    parser.add_argument("--model")
    parser.add_argument("--cameras", default="1,8,32")
    parser.add_argument("--decode", default="auto")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--transfer", default="auto")
    parser.add_argument("--period", default="1s")
    parser.add_argument("--instances", default="shared")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--settle", type=float)
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--slow", type=float)
    options = parser.parse_args()
    if options.help:
        print(__doc__.strip())
        sys.exit(0)
    if [bool(options.clip), bool(options.rtsp), options.test].count(True) != 1:
        sys.exit("measure_cameras.py: --clip, --rtsp or --test is needed, and one of them alone; see --help")
    options.postprocess = [{"plugin": "detections", "instances": options.instances}] if options.model else []
    if options.settle is None:
        options.settle = options.seconds / 2
    return options


def serve(options):
    """Starts the RTSP server; its pictures are at options.url until its standard input is closed."""
    server = subprocess.Popen([options.rtsp, "0", "--size", options.size, "--fps", str(options.fps)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = server.stdout.readline().split()[1]
    options.url = f"rtsp://127.0.0.1:{port}/live"
    return server


def source(options):
    if options.rtsp:
        return {"type": "rtsp", "url": options.url}
    if options.test:
        width, height = (int(side) for side in options.size.split("x"))
        return {"type": "test", "width": width, "height": height, "fps": options.fps,
                "realtime": not options.as_fast}
    return {"type": "file", "path": os.path.abspath(options.clip), "loop": True, "realtime": not options.as_fast}


def configuration(options, devices, count):
    cameras = [{"name": f"c{i}", "decode": options.decode, "source": source(options)} for i in range(count)]
    return json.dumps({  # JSON is YAML
        **({"device": devices[0]} if len(devices) == 1 else {"devices": devices}),
        "model": {"path": os.path.abspath(options.model)}, "metrics": {"period": options.period},
        "pipeline": {"transfer": options.transfer}, "cameras": cameras, "postprocess": options.postprocess,
    })


def rank(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


class Run:
    """One camd, and what its metrics lines said."""

    def __init__(self, options, devices, count, gpu=None):
        """`gpu`: the number of the only GPU that it sees."""
        self.count = count
        self.lines = {}  # by camera: (monotonic seconds, line)
        self.gpu_bytes = 0
        self.unbalanced = 0
        self.delivering = threading.Event()
        self.first_s = self.all_s = None
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
            file.write(configuration(options, devices, count))
        self.file = file.name
        self.began = time.monotonic()
        self.process = subprocess.Popen([options.camd, "run", self.file], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True,
                                        env=os.environ if gpu is None else {**os.environ, "CUDA_VISIBLE_DEVICES": gpu})
        self.states = {}  # by camera: the last one, and why
        self.others = []  # what the lines of state say of devices and others
        self.delivered = set()  # cameras that have
        self.errors = []
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for text in self.process.stdout:
            line = json.loads(text)
            if line["event"] == "process":
                self.gpu_bytes = line["gpu_memory_bytes"]
            if line["event"] == "state" and "camera" in line:
                self.states[line["camera"]] = f'{line["state"]}: {line["reason"]}'
            elif line["event"] == "state":
                self.others.append(text.strip())
            if line["event"] != "camera":
                continue
            now = time.monotonic()
            totals = line["totals"]
            if totals["captured"] != totals["delivered"] + totals["in_flight"] + sum(totals["dropped"].values()):
                self.unbalanced += 1
            self.lines.setdefault(line["camera"], []).append((now, line))
            if totals["delivered"]:
                self.first_s = self.first_s or now - self.began
                self.delivered.add(line["camera"])
                if len(self.delivered) == self.count and self.all_s is None:
                    self.all_s = now - self.began
                    self.delivering.set()
        self.delivering.set()

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def threads(self):
        """CPU seconds of each thread, by its number, with its name."""
        all_of = {}
        folder = f"/proc/{self.process.pid}/task"
        for number in os.listdir(folder):
            try:
                with open(f"{folder}/{number}/schedstat", encoding="ascii") as file:
                    used = int(file.read().split()[0]) / 1e9
                with open(f"{folder}/{number}/comm", encoding="utf-8") as file:
                    all_of[number] = (file.read().strip(), used)
            except OSError:
                pass  # it has ended meanwhile
        return all_of

    def status(self, key):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(key + ":"))

    def measure(self, seconds, settle):
        self.delivering.wait(START_PATIENCE_S)
        time.sleep(settle)
        if self.process.poll() is not None:
            return None
        since, cpu, threads = time.monotonic(), self.cpu_s(), self.threads()
        time.sleep(seconds - settle)
        if self.process.poll() is not None:
            return None
        until = time.monotonic()
        row = {"cpu": 100 * (self.cpu_s() - cpu) / (until - since) / self.count,
               "threads": self.status("Threads") / self.count, "rss": self.status("VmRSS") / 1024 / self.count,
               "gpu": card_mib() / self.count}
        now = self.threads()
        row["metrics"] = sum(100 * (used - threads[number][1]) / (until - since)
                             for number, (name, used) in now.items() if name == "metrics" and number in threads)
        row["names"] = collections.Counter(re.sub(r":c\d+", ":*", name) for name, _ in now.values())
        asked = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(END_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        row["ended"] = time.monotonic() - asked
        self.reader.join()
        rates, p50, p99, worst, drops, stages = [], [], [], [0], {}, {}
        for lines in self.lines.values():
            late = [line for at, line in lines if since <= at <= until]
            if len(late) < 2:
                continue
            first, last = late[0], late[-1]
            passed = (last["mono_ns"] - first["mono_ns"]) / 1e9
            rates.append((last["totals"]["delivered"] - first["totals"]["delivered"]) / passed)
            for reason, number in last["totals"]["dropped"].items():
                drops[reason] = drops.get(reason, 0) + number - first["totals"]["dropped"][reason]
            for line in late[1:]:
                latency = line["latency_us"]["total"]
                p50.append(latency["p50"])
                p99.append(latency["p99"])
                worst.append(latency["max"])
                for stage, of_stage in line["latency_us"].items():
                    stages.setdefault(stage, []).append((of_stage["p50"], of_stage["p99"], of_stage["max"]))
        row.update(least=rank(rates, 0), middle=rank(rates, 0.5), most=rank(rates, 1), p50=rank(p50, 0.5), p99=rank(p99, 0.99),
                   worst=max(worst), drops={k: v for k, v in drops.items() if v})
        row["stages"] = ", ".join(
            f"{stage} {rank([one[0] for one in all_of], 0.5):.0f}/{rank([one[1] for one in all_of], 0.99):.0f}/"
            f"{max(one[2] for one in all_of):.0f}" for stage, all_of in stages.items())
        return row


def slow_seconds(lines, began, limit_us):
    """A line for each second in which a frame took longer. `lines`: by camera, as Run has them."""
    seconds = {}
    for of_camera in lines.values():
        for (_, before), (at, line) in zip(of_camera, of_camera[1:]):
            second = seconds.setdefault(line["mono_ns"] // 10**9, {"at": at, "cameras": 0, "slowest": None, "dropped": 0})
            second["dropped"] += sum(line["totals"]["dropped"].values()) - sum(before["totals"]["dropped"].values())
            latency = line["latency_us"]
            if latency["total"]["max"] <= limit_us:
                continue
            second["cameras"] += 1
            if second["slowest"] is None or latency["total"]["max"] > second["slowest"]["total"]["max"]:
                second["slowest"] = latency
    told = []
    for mono_s, second in sorted(seconds.items()):
        if second["slowest"] is None:
            continue
        stages = {stage: of_stage["max"] for stage, of_stage in second["slowest"].items() if stage != "total"}
        stage = max(stages, key=stages.get)
        told.append(f"slow: second {mono_s}, {second['at'] - began:.0f} s after the start: {second['cameras']} of {len(lines)} cameras, "
                    f"{second['slowest']['total']['max'] / 1000:.1f} ms the slowest, of it {stage} {stages[stage] / 1000:.1f}; "
                    f"{second['dropped']} dropped")
    return told


def card_mib():
    try:
        text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, check=True).stdout
        return float(text.split()[0])
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        return float("nan")


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        if not options.model:
            sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "chaos"))
            from parts import tiny_model  # pylint: disable=import-outside-toplevel
            options.model = os.path.join(folder, "tiny.onnx")
            tiny_model(options.model)
        server = serve(options) if options.rtsp else None
        try:
            wrong = measure_all(options)
        finally:
            if server:
                server.stdin.close()
                server.wait(10)
    if wrong:
        sys.exit("measure_cameras.py: a run ended early or not at all, a line did not balance, or a camera delivered nothing")


def measure_all(options):
    wrong = 0
    print("| cameras | frames/s a camera, least, middle and most | latency us, p50 / p99 / worst | dropped "
          "| CPU a camera, % of a core | host MiB a camera | card MiB a camera | threads a camera "
          "| metrics, % of a core | first and all deliver after s | ended after s | exit code |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for count in (int(text) for text in options.cameras.split(",")):
        devices = options.device.split(",")
        if options.each:
            runs = {f"{count} on {name}": Run(options, [name.split(":")[0]], count, name.removeprefix("cuda:")) for name in devices}
        else:
            runs = {str(count): Run(options, devices, count)}
        rows = {}
        side_by_side = [threading.Thread(target=lambda name=name, run=run: rows.update({name: run.measure(options.seconds, options.settle)}))
                        for name, run in runs.items()]
        try:
            for thread in side_by_side:
                thread.start()
            for thread in side_by_side:
                thread.join()
        finally:
            for run in runs.values():
                if run.process.poll() is None:
                    run.process.kill()
                os.unlink(run.file)
        for name, run in runs.items():
            wrong += report(options, name, run, rows.get(name))
    return wrong


def report(options, name, run, row):
    """Prints a run's row. Returns how much was wrong with it."""
    for text in run.others:
        print(f"{name}: {text}", file=sys.stderr, flush=True)
    if row is None:
        print(f"| {name} | camd ended with {run.process.wait()}: {''.join(run.errors[-1:]).strip()} |")
        print("".join(run.errors[-MOST_ERRORS:]), end="", file=sys.stderr, flush=True)  # a crash tells where
        return 1
    wrong = run.unbalanced + (run.process.returncode != 0)
    drops = ", ".join(f"{number} {reason}" for reason, number in row["drops"].items()) or "none"
    print(f"| {name} | {row['least']:.1f}, {row['middle']:.1f}, {row['most']:.1f} | {row['p50']:.0f} / {row['p99']:.0f} / "
          f"{row['worst']:.0f} | {drops} | {row['cpu']:.2f} | {row['rss']:.1f} | {row['gpu']:.0f} "
          f"| {row['threads']:.1f} | {row['metrics']:.2f} | {run.first_s or -1:.1f}, {run.all_s or -1:.1f} "
          f"| {row['ended']:.1f} | {run.process.returncode} |", flush=True)
    if options.threads:
        print("threads:", ", ".join(f"{number} {name}" for name, number in row["names"].most_common()), file=sys.stderr)
    if options.slow is not None:
        print("\n".join(slow_seconds(run.lines, run.began, 1000 * options.slow)), file=sys.stderr)
    if options.stages:
        print("stages us, p50/p99/worst:", row["stages"], file=sys.stderr)
        print("".join(line for line in run.errors if "in flight" in line or "Vulkan" in line), end="", file=sys.stderr, flush=True)
    mute = collections.Counter(re.sub(r"^(\w+: )?.*?cameras\.\d+\.", r"\1", state)
                               for camera, state in run.states.items() if camera not in run.delivered)
    wrong += sum(mute.values())
    for state, number in mute.items():
        print(f"{number} of {run.count} cameras delivered nothing: {state}", file=sys.stderr, flush=True)
    return wrong


if __name__ == "__main__":
    main()
