#!/usr/bin/python3
"""Faults on purpose: drives the built camd through the cases of cases.py and checks their bounds.

usage: chaos.py [--build DIR] [--quick | --all | --soak MINUTES | --tries N] [--case TEXT]... [--seed N] [--repeat N]
                [--alone] [--cameras N] [--minutes M] [--jobs N] [--json FILE] [--write-docs] [--keep] [--again] [--list]
                [--emulated]

  --build DIR      the build folder [build/dev]
  --quick          the subset of CI, each once: about three minutes, a minute with --jobs 3 (the default)
  --all            every case, with its repetitions
  --soak MINUTES   random faults from the seed on one camd, with a slope test on what may grow
  --tries N        N failed tries of each kind of misbehaving server, with the same test
  --alone          --tries by sources in a program of their own that give up after 0.5 s
  --cameras N      that ask each kind with --alone [as many as cores, at most 12]
  --minutes M      ends each group of --tries after so long, and says how far it came
  --case TEXT      only cases, or kinds of servers, whose name holds the text (may be repeated; kinds run in that order)
  --seed N         repeats the durations and choices of an earlier run [the time]
  --repeat N       repetitions of each case
  --jobs N         cases at a time; those that load the machine run alone, after the others; or groups of kinds [1]
  --json FILE      leaves the results there
  --write-docs     writes them into docs/reliability.md, between its markers
  --keep           leaves the folder of a case that failed
  --again          runs a case that failed up to twice more, and says so: for a machine that is shared with others
  --list           names the cases
  --emulated       for a build that runs under qemu-user: bounds of time are five times as long, and cases that
                   tests/left_out_arm64.txt names (chaos/CASE, with dots for blanks) are left out with its reasons
Exit 1 when a bound was not kept, 0 otherwise. Cases marked as not met yet run with --all and do not count.
"""

import argparse
import dataclasses
import json
import multiprocessing
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import report
import soak
import tries
from bench import Result, Skip, calm, run_case, stop_on_signals
from cases_service import CASES
from misdeeds import KINDS

ROOT = Path(__file__).resolve().parents[2]
SLOWER = 5  # than a processor, is qemu-user


def arguments():
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--build", type=Path, default=ROOT / "build/dev")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--quick", action="store_true")
    which.add_argument("--all", action="store_true")
    which.add_argument("--soak", type=float, metavar="MINUTES")
    which.add_argument("--tries", type=int)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--cameras", type=int, default=tries.ALONE_CAMERAS)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--case", action="append", default=[])
    parser.add_argument("--seed", type=int)
    parser.add_argument("--repeat", type=int)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--emulated", action="store_true")
    return parser.parse_args()


def chosen(options):
    if options.case:
        return [case for case in CASES if any(text in case.name for text in options.case)]
    return list(CASES) if options.all or options.list else [case for case in CASES if case.quick and not case.not_yet]


def emulated(case, rows):
    """The case as it is judged under emulation. `rows`: pattern and reason of what is left out there."""
    reason = next((why for pattern, why in rows if re.search(pattern, "chaos/" + case.name)), "")
    recovery_s = case.recovery_s and SLOWER * case.recovery_s
    return dataclasses.replace(case, recovery_s=recovery_s, true_ms=SLOWER * case.true_ms, run=skipped(reason) if reason else case.run)


def skipped(reason):
    def run(_):
        raise Skip(reason)
    return run


def rows_left_out(text):
    """Patterns and reasons in tests/left_out_arm64.txt."""
    return [line.split(maxsplit=1) for line in text.splitlines() if not line.startswith("#")]


def kinds_of(texts):
    """The kinds whose name holds one of the texts, those of the first text first; all where there are none."""
    return list(dict.fromkeys(name for text in texts or [""] for name in KINDS if text in name))


def in_process_of_its_own(case, run_one):
    """The case's result. Its threads do not disturb those of another case."""
    receive, send = multiprocessing.Pipe(duplex=False)

    def work():
        result = run_one(case)
        result.case = None  # functions cannot be sent
        send.send(result)
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    while process.is_alive() and not receive.poll(0.1):
        pass
    result = receive.recv() if receive.poll() else Result(case, problems=["the harness failed, see above"])
    process.join()
    result.case = case
    return result


def run_cases(cases, run_one, jobs):
    """The results, in the order of the cases."""
    results = {}

    def run(case):
        results[case.name] = in_process_of_its_own(case, run_one)
        print(report.line(results[case.name]), flush=True)

    workers = ThreadPoolExecutor(max_workers=jobs)
    try:
        for _ in workers.map(run, [case for case in cases if case.calm]):
            pass
        for case in cases:
            if not case.calm:
                run(case)
    except BaseException:  # asked to stop: cases clean up behind them
        workers.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    return [results[case.name] for case in cases]


def main():
    options = arguments()
    if options.help:
        print(__doc__.strip())
        return 0
    cases = chosen(options)
    if options.emulated:
        rows = rows_left_out((ROOT / "tests/left_out_arm64.txt").read_text())
        cases = [emulated(case, rows) for case in cases]
    if options.list:
        for case in cases:
            print(f"{'quick ' if case.quick else '      '}{case.name}: {case.cause}"
                  f"{'  (not met yet: ' + case.not_yet + ')' if case.not_yet else ''}")
        return 0
    seed = options.seed if options.seed is not None else int(time.time())
    print(f"seed {seed}", flush=True)
    if options.tries is None:  # measures no times
        calm()
    stop_on_signals()
    build = options.build.resolve()
    if options.soak is not None:
        return soak.run(build, options.soak, seed, options.json)
    if options.tries is not None:
        names = kinds_of(options.case)
        return tries.run(build, options.tries, seed, names, options.minutes, options.json, options.jobs,
                         options.alone, options.cameras)
    results = run_cases(cases, lambda case: run_case(case, build, seed, options.repeat or (case.repeat if options.all else 1),
                                                     options.keep, options.again), options.jobs)
    if options.json:
        options.json.write_text(json.dumps([report.record(result) for result in results], indent=1) + "\n")
    if options.write_docs:
        report.write_docs(ROOT / "docs/reliability.md", results)
    failed = [result for result in results if result.problems and not result.case.not_yet]
    skipped = [result for result in results if result.skipped]
    print(f"{len(results)} cases, {len(failed)} failed, {len(skipped)} skipped, "
          f"{sum(result.seconds for result in results):.0f} s, seed {seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
