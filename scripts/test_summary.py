#!/usr/bin/env python3
"""Sums up ctest runs: how many passed, which failed, and what was skipped and why.

usage: test_summary.py NAME=CTEST.xml...

Reads the JUnit files of `ctest --output-junit`. The reason of a skip is what the test said (GTEST_SKIP() << ...).
"""

import re
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path


def skip_reason(output: str) -> str:
    """What a skipped GoogleTest said: the lines after `FILE:LINE: Skipped`."""
    said = re.search(r": Skipped\n(.*?)\n\s*(?:\n|\[)", output or "", re.S)
    reason = " ".join(said.group(1).split()) if said else ""
    return reason or "it does not say why"


def parts_of(test: str, output: str) -> list[tuple[str, str, str]]:
    """Name, end (OK, SKIPPED, FAILED or RUN, which never ended) and output of each GoogleTest of a program that ran several."""
    found = re.split(r"^\[ RUN      \] (\S+)$", output or "", flags=re.M)
    room = test.rsplit("/", 1)[0]
    parts = []
    for name, text in zip(found[1::2], found[2::2]):
        end = re.search(r"^\[ *(OK|SKIPPED|FAILED) *\] " + re.escape(name) + r"\b", text, re.M)
        parts.append((f"{room}/{name}", end.group(1) if end else "RUN", text))
    return parts if len(parts) > 1 else []


def summary(name: str, junit: str) -> list[str]:
    passed, failed, skipped, disabled = 0, [], defaultdict(list), []
    for case in ET.fromstring(junit).iter("testcase"):
        test, output = case.get("name"), case.findtext("system-out", "")
        parts = parts_of(test, output)
        passed += sum(end == "OK" for _, end, _ in parts)
        for part, end, text in parts:
            if end == "SKIPPED":
                skipped[skip_reason(text)].append(part)
        if case.get("status") == "disabled":
            disabled.append(test)
        elif case.find("failure") is not None or case.get("status") == "fail":
            failed += [part for part, end, _ in parts if end in ("FAILED", "RUN")] or [test]
        elif parts:
            pass
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped[skip_reason(output)].append(test)
        else:
            passed += 1
    count = sum(map(len, skipped.values()))
    text = [f"{name}: {passed} passed, {len(failed)} failed, {count} skipped"
            + (f", {len(disabled)} disabled" if disabled else "")]
    text += [f"  failed: {test}" for test in failed]
    text += [f"  disabled: {test}" for test in disabled]
    for reason, tests in sorted(skipped.items()):
        more = f" and {len(tests) - 3} more" if len(tests) > 3 else ""
        text.append(f"  skipped: {', '.join(tests[:3])}{more}: {reason}")
    return text


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if arguments else 2
    for argument in arguments:
        name, _, path = argument.partition("=")
        if Path(path).exists():
            print("\n".join(summary(name, Path(path).read_text(encoding="utf-8", errors="replace"))))
        else:
            print(f"{name}: no tests ran")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
