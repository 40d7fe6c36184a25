"""How results are shown: a line for each case, JSON, and the table in docs/reliability.md."""

import os
import platform
from dataclasses import asdict
from pathlib import Path

BEGIN = "<!-- table: made by chaos.py -->"
END = "<!-- end of table -->"


def line(result):
    case = result.case
    if result.skipped:
        return f"skip {case.name}: {result.skipped}"
    recovery = f"{result.recovery_p99:.2f} s" if result.recoveries_s else "-"
    verdict = "fail" if result.problems else "ok  "
    if case.not_yet:  # a case that keeps its bounds by now has lost its mark
        verdict = "yet " if result.problems else "met "
    text = f"{verdict} {case.name:38} recovery {recovery:>7}  beside {result.lost_beside:>2}  busy {result.busy_ms:3.0f} ms  {result.seconds:5.1f} s"
    return text + "".join(f"\n     {problem}" for problem in result.problems)


def record(result):
    values = asdict(result)
    values["case"] = {"name": result.case.name, "cause": result.case.cause, "recovery_s": result.case.recovery_s,
                      "lost_beside": result.case.lost_beside}
    values["recovery_p99_s"] = result.recovery_p99
    return values


def _change(result):
    if not result.before or not result.after:
        return "-"
    memory = (result.after.rss_kib - result.before.rss_kib) / 1024
    return (f"{memory:+.1f} MiB, {result.after.descriptors - result.before.descriptors:+d}, "
            f"{result.after.threads - result.before.threads:+d}")


def row(result):
    case = result.case
    name = f"{case.name}: {case.cause}"
    if result.skipped:
        return f"| {name} | skipped: {result.skipped} | | | | | | |"
    bound = f" (bound {case.recovery_s:g} s)" if case.recovery_s is not None else ""
    recovery = f"{result.recovery_p99:.2f} s{bound}" if result.recoveries_s else "-"
    lost = ", ".join(f"{count} {reason}" for reason, count in result.lost.items()) or "none"
    beside = str(result.lost_beside) if case.lost_beside is not None else "-"
    met = "yes" if not result.problems else "**not yet**: " + "; ".join(result.problems).replace("|", "/")
    return (f"| {name} | {len(result.recoveries_s)} | {recovery} | {lost} | {beside} | {_change(result)} | "
            f"{result.exit_code} | {met} |")


def kept(result, old):
    """The row of a case; of one that cannot be run here, that of the machine that could."""
    name = f"| {result.case.name}: {result.case.cause} |"
    return next((text for text in old.splitlines() if result.skipped and text.startswith(name)), row(result))


def table(results, old=""):
    head = ["| fault | times | to the first true frame, p99 | lost by the troubled camera | lost beside | "
            "memory, descriptors, threads | exit code | bounds kept |", "|---|---|---|---|---|---|---|---|"]
    return "\n".join(head + [kept(result, old) for result in results])


def machine():
    told = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((text.split(":", 1)[1].strip() for text in told if text.startswith("model name")), platform.machine())
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release().split('-')[0]}"


def write_docs(path, results):
    """Replaces what is between the markers, but for the rows of cases that were skipped."""
    text = path.read_text()
    before, rest = text.split(BEGIN, 1)
    old, after = rest.split(END, 1)
    lines = sum(result.ledger_lines for result in results)
    broken = sum(problem.startswith("ledger") for result in results for problem in result.problems)
    made = (f"{machine()}. {lines} totals were checked, {broken} did not balance.\n\n")
    path.write_text(f"{before}{BEGIN}\n{made}{table(results, old)}\n{END}{after}")
