#!/usr/bin/python3
"""The table of faults of plug-ins in processes: what each costs, in C, C++ and Python.

usage: plugin_faults.py [--build DIR] [--case TEXT]... [--no-deaths] [--write-docs]

  --build DIR    the build folder; it has camd, camd_bad_plugins and, for the deaths, bench_plugin_process [build/dev]
  --case TEXT    only cases whose name ("c crash") holds the text (may be repeated)
  --no-deaths    leaves out what many deaths leave behind, which takes minutes
  --write-docs   writes the tables into docs/plugins.md, between their markers

Two cameras of 30 frames a second run through one chain, with an instance of the plug-in for each (`instances: camera`). One
camera's does the fault at its 30th frame. Frames lost are what the ledger says. The time to be back is that between the
capture of the last frame before the fault that came out and of the first behind it, less one period.
Exit 1 when another camera lost a frame, or a plug-in did not come back.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from report import machine

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
FPS, AT = 30, 30

# Name, what the log or the frame's error says; where one language has its own way, its name there.
FAULTS = ["crash", "abort", "throw", "exit", "os_exit", "kill", "hang", "flood", "memory", "threads", "fork"]
MEANING = {"crash": "a null pointer is written to", "abort": "abort()", "throw": "an exception that nobody catches",
           "exit": "exit(0)", "os_exit": "os._exit(0)", "kill": "SIGKILL from outside", "hang": "process() never returns",
           "flood": "a thousand million detections", "memory": "takes memory without end (memory: 128MiB)",
           "threads": "starts threads without end", "fork": "a fork bomb"}
LANGUAGES = {
    "c": ("lib/bad/faults.so", set(FAULTS) - {"throw", "os_exit"}),
    "c++": ("lib/bad/faults_cpp.so", set(FAULTS) - {"os_exit"}),
    "python": ("tests/plugins/python/faults.py", set(FAULTS)),
}


def configuration(plugin, fault, folder):
    camera = f"{{type: test, width: 320, height: 180, fps: {FPS}, frames: {3 * FPS}}}"
    return f"""device: host
model: {{path: {ROOT}/models/marker-640x360.onnx}}
metrics: {{period: 200ms}}
cameras:
  - {{name: a, source: {camera}}}
  - {{name: b, source: {camera}}}
postprocess:
  - plugin: {plugin}
    instances: camera
    deadline: {'200ms' if fault == 'hang' else '2s'}
    memory: 128MiB
    config: {{how: {fault}, at: {AT}, camera: a}}
    {'python: /usr/bin/python3' if plugin.endswith('.py') else ''}
  - plugin: jsonl
    config: {{path: "{folder}/{{camera}}.jsonl"}}
"""


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def run(build, language, fault):
    plugin = str((ROOT if language == "python" else build) / LANGUAGES[language][0])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "c.yaml")
        file.write_text(configuration(plugin, fault, folder))
        done = subprocess.run([build / "bin/camd", "run", file, "--metrics", "json"], capture_output=True, text=True)
        told = lines(done.stdout)
        stop = next((one for one in told if one["event"] == "stop"), None)
        if stop is None:
            return {"problem": f"exit {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"}
        totals = {one["camera"]: one["totals"] for one in stop["cameras"]}
        numbers = [one for one in told if one["event"] == "plugin" and one["index"] == 0][-1]
        if not Path(folder, "a.jsonl").exists():
            return {"problem": f"no frame came through: {done.stderr.strip().splitlines()[-1:]}"}
        captured = [one["captured_mono_ns"] for one in lines(Path(folder, "a.jsonl").read_text())]
        gap = max((after - before for before, after in zip(captured, captured[1:])), default=0)
        failed = re.search(r"camera a: frame .*?plug-in \S+: (.*?) \(dropped", done.stderr)
        return {
            "lost": totals["a"]["dropped"]["plugin_error"],
            "beside": totals["b"]["dropped"]["plugin_error"],
            "back_ms": max(gap / 1e6 - 1e3 / FPS, 0),
            "restarts": numbers["restarts"],
            "told": numbers["last_error"] or (failed.group(1) if failed else ""),
        }


def deaths(build):
    done = subprocess.run([build / "bin/bench_plugin_process", "--benchmark_filter=Deaths", "--benchmark_format=json"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["benchmarks"]


def table(results):
    rows = ["| fault | language | frames lost | back after | lost by the other camera | what is told |", "|---|---|---|---|---|---|"]
    for (language, fault), result in results.items():
        if "problem" in result:
            rows.append(f"| {fault} | {language} | **{result['problem']}** | | | |")
            continue
        told = result["told"].replace("|", "/")
        told = told if len(told) <= 110 else told[:107] + "..."
        back = f"{result['back_ms']:.0f} ms" if result["restarts"] else "-"
        rows.append(f"| {MEANING[fault]} | {language} | {result['lost']} | {back} | {result['beside']} | {told} |")
    return "\n".join(rows)


def deaths_table(rows):
    head = ["| fault | language | deaths | back after, mean | descriptors | threads | memory of camd |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        language, fault = row["name"].removeprefix("BM_Deaths").split("/")[:2]
        head.append(f"| {fault} | {language.lower().replace('pp', '++')} | {row['iterations']} | {row['real_time']:.1f} {row['time_unit']} | "
                    f"{row['descriptors']:+.0f} | {row['threads']:+.0f} | {row['kib'] / 1024:+.1f} MiB |")
    return "\n".join(head)


def main():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev")
    parser.add_argument("--case", action="append", default=[])
    parser.add_argument("--no-deaths", action="store_true")
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    if options.help:
        print(__doc__.strip())
        return 0
    build = options.build.resolve()
    results = {}
    for fault in FAULTS:
        for language, (_, faults) in LANGUAGES.items():
            if fault in faults and (not options.case or any(text in f"{language} {fault}" for text in options.case)):
                for _ in range(10):  # on a loaded machine the frame may have been superseded
                    results[language, fault] = result = run(build, language, fault)
                    if result.get("lost", 0) > 0:
                        break
                print(language, fault, result, flush=True)
    text = f"{machine()}.\n\n{table(results)}"
    if not options.no_deaths:
        text += "\n\n" + deaths_table(deaths(build))
    print(text)
    if options.write_docs:
        page = ROOT / "docs/plugins.md"
        before, rest = page.read_text().split(BEGIN, 1)
        page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}")
    bad = [name for name, result in results.items() if "problem" in result or result["beside"] > 0]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
