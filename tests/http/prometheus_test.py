"""Runs Debian's Prometheus on a real camd and asks it every query of the Grafana dashboard and of docs/http.md.

usage: prometheus_test.py CAMD SOURCE_FOLDER
"""

import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from started import started

CONFIG = """device: host
model: {{path: {source}/models/marker-640x360.onnx}}
cameras:
  - {{name: door, source: {{type: test, width: 64, height: 36, fps: 20}}}}
  - {{name: yard, source: {{type: test, width: 64, height: 36, fps: 20}}}}
postprocess:
  - plugin: detections
  - plugin: webhook
    config: {{url: "http://127.0.0.1:9/nobody", publish: frame}}
http: {{listen: "127.0.0.1:0"}}
"""
PATIENCE = 60
# What this run has nothing of, so that an empty answer is right: workers, and cameras that do not run.
MAY_BE_EMPTY = ("camd_plugin_worker", 'state=~"starved', "camd_upstream", "camd_device_memory", "camd_clock", "camd_decoder")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def queries(source: str) -> list:
    dashboard = json.loads((Path(source) / "docs/grafana/camd.json").read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    manual = (Path(source) / "docs/http.md").read_text()
    found += [query.replace("\\|", "|") for query in re.findall(r"^\| [^|]+ \| `(.*_.*[(\[{].*)` \|$", manual, re.M)]
    for one in dashboard["templating"]["list"]:
        if one["type"] == "query":  # a variable's values are those of a label
            selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", one["query"]).groups()
            found.append(f"count by ({label}) ({selector})")
    # As Grafana fills in its variables: everything is chosen.
    return [re.sub(r'=~"\$\w+"', '=~".+"', query).replace("$__rate_interval", "10s").replace("[1m]", "[10s]").replace("[5m]", "[10s]")
            for query in found]


def ask(port: int, query: str) -> dict:
    address = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        text = refused.read().decode(errors="replace")
        # It answers in plain text while it starts.
        return json.loads(text) if text.startswith("{") else {"status": "error", "error": text}
    except OSError as problem:
        return {"status": "error", "error": str(problem)}


def values(answer: dict) -> list:
    return [float(row["value"][1]) for row in answer.get("data", {}).get("result", [])]


def wait(condition, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE} s for: {what}"
        time.sleep(0.1)


def check(camd_address: str, source: str, folder: Path) -> list:
    port = free_port()
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 500ms}\nscrape_configs:\n  - job_name: camd\n"
        f"    static_configs: [{{targets: [\"{camd_address}\"]}}]\n")
    with open(folder / "prometheus.log", "w") as log:
        prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}"], stderr=log, stdout=log)
    try:
        # Rates need two scrapes in which something has happened.
        wait(lambda: len(values(ask(port, 'rate(camd_frames_total{outcome="delivered"}[10s]) > 0'))) == 2, "two cameras")
        wrong = []
        for query in queries(source):
            answer = ask(port, query)
            if answer["status"] != "success":
                wrong.append(f"Prometheus refuses {query}: {answer.get('error')}")
            elif not values(answer) and not any(part in query for part in MAY_BE_EMPTY):
                wrong.append(f"nothing answers {query}")
        # The ledger, as Prometheus has it: all of one scrape.
        books = ("sum by (camera) (camd_frames_total) + on (camera) camd_frames_in_flight - on (camera) "
                 "camd_frames_captured_total")
        if values(ask(port, books)) != [0.0, 0.0]:
            wrong.append(f"the ledger does not balance: {ask(port, books)}")
        return wrong
    finally:
        prometheus.terminate()
        prometheus.wait()


def main(camd: str, source: str) -> int:
    if not shutil.which("prometheus"):
        print("skipped: no prometheus: apt-get install prometheus")
        return 77
    with tempfile.TemporaryDirectory() as name:
        with started(camd, CONFIG.format(source=source), Path(name)) as (_, address):
            wrong = check(address, source, Path(name))
    print("\n".join(wrong) or f"{len(queries(source))} queries answered")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
