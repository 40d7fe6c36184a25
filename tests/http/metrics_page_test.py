"""Runs camd, reads /metrics with Prometheus's own parser, and compares what it says with the metrics lines.

usage: metrics_page_test.py CAMD SOURCE_FOLDER
"""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    print("skipped: Debian's python3-prometheus-client is not installed")
    sys.exit(77)

CONFIG = """device: host
model: {{path: {source}/models/marker-640x360.onnx}}
cameras:
  - name: door
    source: {{type: test, width: 64, height: 36, frames: 50, realtime: false}}
  - name: yard
    source: {{type: test, width: 64, height: 36, frames: 1000000, fps: 5}}
postprocess:
  - plugin: detections
  - plugin: jsonl
    config: {{path: {folder}/d.jsonl}}
http: {{listen: "127.0.0.1:0", token: "${{CAMD_TEST_TOKEN}}"}}
"""
TOKEN = "a-token-of-this-test"


def families(page: str) -> dict:
    found = {}
    for family in text_string_to_metric_families(page):
        assert family.name not in found, f"{family.name} stands there twice"
        assert family.documentation and family.type in ("counter", "gauge", "histogram"), family
        assert re.fullmatch(r"(camd|process)_[a-z0-9_]+", family.name), family.name
        found[family.name] = family.samples
    return found


def check(page: str) -> None:
    found = families(page)
    by_camera = collections.Counter()
    for sample in found["camd_frames"]:
        by_camera[sample.labels["camera"]] += sample.value
    for sample in found["camd_frames_in_flight"]:
        by_camera[sample.labels["camera"]] += sample.value
    captured = {s.labels["camera"]: s.value for s in found["camd_frames_captured"]}
    assert captured == dict(by_camera) and set(captured) == {"door", "yard"}, (captured, by_camera)
    buckets = collections.defaultdict(list)
    counts = {}
    for sample in found["camd_stage_duration_seconds"]:
        key = (sample.labels["camera"], sample.labels["stage"])
        if sample.name.endswith("_bucket"):
            buckets[key].append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_count"):
            counts[key] = sample.value
    assert len(counts) == 2 * 8, counts
    for key, rows in buckets.items():
        assert rows == sorted(rows) and [v for _, v in rows] == sorted(v for _, v in rows), (key, rows)
        assert rows[-1] == (float("inf"), counts[key]), (key, rows)
    states = [s.labels["state"] for s in found["camd_camera_state"] if s.labels["camera"] == "yard" and s.value == 1]
    assert len(states) == 1, states


def main(camd: str, source: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "c.yaml"
        config.write_text(CONFIG.format(source=source, folder=folder))
        run = subprocess.Popen([camd, "run", str(config), "--metrics", "json"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env={**os.environ, "CAMD_TEST_TOKEN": TOKEN})
        try:
            log = ""
            while True:  # the log says which port it is
                line = run.stderr.readline()
                assert line, f"camd has ended:\n{log}"
                log += line
                if match := re.search(r"http: listening on (\S+), with a token", line):
                    break
            request = urllib.request.Request(f"http://{match[1]}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
            for _ in range(3):
                with urllib.request.urlopen(request, timeout=30) as answer:
                    check(answer.read().decode())
            if len(sys.argv) > 3:
                Path(sys.argv[3]).write_bytes(urllib.request.urlopen(request, timeout=30).read())
        finally:
            run.terminate()
            out, log_rest = run.communicate()
        assert run.returncode == 0, log + log_rest
        assert TOKEN not in out + log + log_rest, "the token is shown"
        assert json.loads(out.splitlines()[-1])["event"] == "stop"
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
