#!/usr/bin/python3
"""The table of faults of plug-ins in processes: what each costs, in C, C++ and Python.

usage: plugin_faults.py [--build DIR] [--case TEXT]... [--python FILE] [--jobs N] [--bounds] [--no-faults] [--no-deaths]
       [--write-docs]

  --build DIR    the build folder; it has camd, camd_bad_plugins and, for the deaths, bench_plugin_process [build/dev]
  --python FILE  the interpreter of the plug-ins in Python [/usr/bin/python3]
  --jobs N       so many faults at once, and so many kinds of death: no more than there are idle cores [1]
  --bounds       exit 1, too, when a plug-in was away for longer than 200 ms (in Python 1 s) beyond its deadline, or
                 the 50 ms until its memory is looked at
  --no-faults    only what many deaths leave behind
  --case TEXT    only cases and kinds of death whose name ("c crash") holds the text (may be repeated)
  --no-deaths    leaves out what many deaths leave behind, which takes minutes
  --write-docs   writes the tables into docs/plugins.md, between their markers

Two cameras of 30 frames a second run through one chain, with an instance of the plug-in for each (`instances: camera`). One
camera's does the fault at its 30th frame. Frames lost are what the ledger says. The time to be back is that between the
capture of the last frame before the fault that came out and of the first behind it, less one period.
Exit 1 when another camera lost a frame, or a plug-in did not come back.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from report import machine

ROOT = Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
FPS, AT = 30, 30
DEADLINE_MS = {"hang": 200}  # of the others 2000; those that end by it
LOOK_MS = 50  # how seldom camd looks at what memory a process has
ENDED_BY_DEADLINE = {("c", "hang"), ("c++", "hang"), ("python", "hang"), ("c", "threads"), ("c++", "threads")}
BOUND_MS = {"c": 200, "c++": 200, "python": 1000}

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


def deadline_ms(fault):
    return DEADLINE_MS.get(fault, 2000)


def configuration(plugin, fault, folder, python):
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
    deadline: {deadline_ms(fault)}ms
    memory: 128MiB
    config: {{how: {fault}, at: {AT}, camera: a}}
    {f'python: {python}' if plugin.endswith('.py') else ''}
  - plugin: jsonl
    config: {{path: "{folder}/{{camera}}.jsonl"}}
"""


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def run(build, language, fault, python):
    plugin = str((ROOT if language == "python" else build) / LANGUAGES[language][0])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "c.yaml")
        file.write_text(configuration(plugin, fault, folder, python))
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


def run_until_felt(build, language, fault, python):
    for _ in range(10):  # on a loaded machine the frame may have been superseded
        result = run(build, language, fault, python)
        if result.get("lost", 0) > 0:
            break
    print(language, fault, result, flush=True)
    return result


def late_ms(language, fault, result):
    """How much longer than its bound a plug-in was away; until its deadline, or until its memory is seen, it was not."""
    if "problem" in result or not result["restarts"]:
        return 0
    allowed = BOUND_MS[language] + (deadline_ms(fault) if (language, fault) in ENDED_BY_DEADLINE else 0)
    allowed += LOOK_MS if fault == "memory" else 0
    return max(result["back_ms"] - allowed, 0)


def kind_of_death(name):
    """The language and the fault of BM_DeathsCpp/crash/iterations:1000/real_time."""
    language, fault = name.removeprefix("BM_Deaths").split("/")[:2]
    return language.lower().replace("pp", "++"), fault


def wanted(cases, language, fault):
    return not cases or any(text in f"{language} {fault}" for text in cases)


def deaths(build, python, jobs, cases):
    bench = build / "bin/bench_plugin_process"
    names = subprocess.run([bench, "--benchmark_list_tests", "--benchmark_filter=Deaths"], capture_output=True, text=True,
                           check=True).stdout.split()
    names = [name for name in names if wanted(cases, *kind_of_death(name))]

    def one(name):
        done = subprocess.run([bench, f"--benchmark_filter=^{name}$", "--benchmark_format=json"], capture_output=True,
                              text=True, env={**os.environ, "CAMD_BENCH_PYTHON": python})
        if done.returncode != 0:
            rows = [{"name": name, "problem": f"exit {done.returncode}: {done.stderr.strip().splitlines()[-1:]}"}]
        else:
            rows = json.loads(done.stdout)["benchmarks"]
        print(deaths_table(rows).splitlines()[-1], flush=True)
        return rows

    with ThreadPoolExecutor(jobs) as pool:
        return [row for rows in pool.map(one, names) for row in rows]


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
    head = ["| fault | language | deaths | back after, mean | p99 | longest | descriptors | threads | memory of camd |",
            "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        language, fault = kind_of_death(row["name"])
        problem = row.get("problem", row.get("error_message"))
        if problem:
            head.append(f"| {fault} | {language} | **{problem}** | | | | | | |")
            continue
        head.append(f"| {fault} | {language} | {row['iterations']} | {row['real_time']:.1f} {row['time_unit']} | "
                    f"{row['p99_ms']:.1f} ms | {row['longest_ms']:.1f} ms | "
                    f"{row['descriptors']:+.0f} | {row['threads']:+.0f} | {row['kib'] / 1024:+.1f} MiB |")
    return "\n".join(head)


def main():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev")
    parser.add_argument("--case", action="append", default=[])
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--bounds", action="store_true")
    parser.add_argument("--no-faults", action="store_true")
    parser.add_argument("--no-deaths", action="store_true")
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    if options.help:
        print(__doc__.strip())
        return 0
    build = options.build.resolve()
    cases = [(language, fault) for fault in FAULTS for language, (_, faults) in LANGUAGES.items()
             if fault in faults and wanted(options.case, language, fault)]
    if options.no_faults:
        cases = []
    with ThreadPoolExecutor(options.jobs) as pool:
        results = dict(zip(cases, pool.map(lambda case: run_until_felt(build, *case, options.python), cases)))
    text = f"{machine()}.\n\n{table(results)}"
    died = [] if options.no_deaths else deaths(build, options.python, options.jobs, options.case)
    if not options.no_deaths:
        text += "\n\n" + deaths_table(died)
    print(text)
    if options.write_docs:
        page = ROOT / "docs/plugins.md"
        before, rest = page.read_text().split(BEGIN, 1)
        page.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}")
    bad = [name for name, result in results.items() if "problem" in result or result["beside"] > 0]
    bad += [row["name"] for row in died if "problem" in row or row.get("error_occurred")]
    late = {name: late_ms(*name, result) for name, result in results.items() if late_ms(*name, result) > 0}
    for (language, fault), ms in late.items():
        print(f"{language} {fault}: {ms:.0f} ms longer than the bound", file=sys.stderr)
    return 1 if bad or (options.bounds and late) else 0


if __name__ == "__main__":
    sys.exit(main())
