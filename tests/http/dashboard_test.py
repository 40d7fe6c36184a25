"""Checks that every metric, label and outcome that the Grafana dashboard and docs/http.md ask for is one that /metrics has.

usage: dashboard_test.py CAMD SOURCE_FOLDER

The names come from a page of a camd that runs for this test. Where Debian's promtool is installed, it also reads every query.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import metrics_page_test

# Families that a page without workers, outlets and decoders declares, but has no sample of: their labels.
WITHOUT_SAMPLE = {
    "camd_outlet_messages_taken_total": {"plugin", "index", "camera"},
    "camd_outlet_messages_total": {"plugin", "index", "camera", "outcome"},
    "camd_outlet_messages_pending": {"plugin", "index", "camera", "place"},
    "camd_plugin_worker_restarts_total": {"plugin", "index"},
    "camd_plugin_worker_frames_lost_total": {"plugin", "index"},
}
FROM_PROMETHEUS = {"instance", "job"}  # labels that a scrape adds


def page_labels(page: str) -> dict:
    """Labels by the name of each sample and declared family."""
    found = {line.split()[2]: WITHOUT_SAMPLE.get(line.split()[2], set()) for line in page.splitlines()
             if line.startswith("# TYPE ")}
    for line in page.splitlines():
        if not line.startswith("#"):
            name = re.match(r"[a-z0-9_]+", line)[0]
            found[name] = set(re.findall(r'(?:[{,])([a-z]+)="', line))
    return found


def problems(query: str, labels: dict) -> list:
    wrong = []
    for name, selector in re.findall(r"\b((?:camd|process)_[a-z0-9_]+)(\{[^}]*\})?", query):
        if name not in labels:
            wrong.append(f"{name} is not in /metrics: {query}")
            continue
        for label in re.findall(r"([a-z]+)\s*(?:=~|!=|!~|=)", selector):
            if label not in labels[name] | FROM_PROMETHEUS:
                wrong.append(f"{name} has no label {label}: {query}")
    if "camd_" not in query and "process_" not in query:
        wrong.append(f"asks for nothing of camd: {query}")
    return wrong


def main(camd: str, source: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page"
        sys.argv[1:] = [camd, source, str(page)]
        metrics_page_test.main(camd, source)
        labels = page_labels(page.read_text())
        dashboard = json.loads((Path(source) / "docs/grafana/camd.json").read_text())
        queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
        queries += [one["query"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
        manual = (Path(source) / "docs/http.md").read_text()
        queries += [query.replace("\\|", "|") for query in re.findall(r"^\| [^|]+ \| `(.*_.*[(\[{].*)` \|$", manual, re.M)]
        assert len(queries) > 20, queries
        wrong = [problem for query in queries for problem in problems(query, labels)]
        names = [name for row in re.findall(r"^\| (`(?:camd|process)_.*?`) \|", manual, re.M)
                 for name in re.findall(r"`([a-z0-9_]+)`", row)]
        families = {line.split()[2] for line in page.read_text().splitlines() if line.startswith("# TYPE ")}
        wrong += [f"docs/http.md does not list {name}" for name in sorted(families - set(names))]
        wrong += [f"docs/http.md lists {name}, which is not there" for name in sorted(set(names) - families)]
        if shutil.which("promtool"):
            rules = {"groups": [{"name": "camd", "rules": [
                {"record": f"camd:{i}", "expr": query.replace("$__rate_interval", "1m")}
                for i, query in enumerate(queries) if "label_values" not in query]}]}
            file = Path(folder) / "rules.json"  # JSON is YAML
            file.write_text(json.dumps(rules))
            read = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True)
            if read.returncode != 0:
                wrong.append(read.stdout + read.stderr)
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
