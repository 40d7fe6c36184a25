#!/usr/bin/env python3
"""Checks that binaries were linked against the usual attacks: what it says holds for what is shipped, not for flags.

usage: check_hardening.py FILE...

For each ELF file: position independent, no executable stack, relocations read-only before main() (RELRO and BIND_NOW).
Prints FILE: what is missing; exit 1 if something is.
"""

import re
import subprocess
import sys


def problems(path: str) -> list[str]:
    text = subprocess.run(["readelf", "-hldW", path], capture_output=True, text=True, check=True).stdout
    found = []
    if not re.search(r"^\s*Type:\s+DYN", text, re.MULTILINE):
        found.append("is not position independent (-fPIE -pie)")
    stack = re.search(r"^\s*GNU_STACK(?:\s+0x[0-9a-f]+){5}\s+([RWE ]+?)\s+0x", text, re.MULTILINE)
    if stack is None or "E" in stack.group(1):
        found.append("has an executable stack (-z noexecstack)")
    if "GNU_RELRO" not in text:
        found.append("has no read-only relocations (-z relro)")
    if "BIND_NOW" not in text and not re.search(r"FLAGS_1.*\bNOW\b", text):
        found.append("binds symbols while it runs (-z now)")
    return found


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    wrong = 0
    for path in sys.argv[1:]:
        for problem in problems(path):
            print(f"{path}: {problem}")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
