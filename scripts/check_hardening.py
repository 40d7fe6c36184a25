#!/usr/bin/env python3
"""Checks that binaries were made against the usual attacks: what it says holds for what is shipped, not for flags.

usage: check_hardening.py [--linked] FILE...

For each ELF file: position independent, no executable stack, relocations read-only before main() (RELRO and BIND_NOW).
Without --linked, which is for builds that are not shipped, also: arrays on the stack guarded
(-fstack-protector-strong), calls of libc that know the size of what they write (_FORTIFY_SOURCE), and on x86-64 places
to which indirect jumps may go (-fcf-protection). The last is seen from main() and the exported functions: each begins
with endbr64. The note that marks a whole file is not looked for, because Debian's own startup code has none.
Prints FILE: what is missing; exit 1 if something is.
"""

import re
import subprocess
import sys

# With _FORTIFY_SOURCE each call of these becomes one of __NAME_chk. (snprintf and sprintf are left out: GCC calls the plain
# function where it has seen that the text fits. vsnprintf is left out: std::to_string() takes its address.)
FORTIFIED = {"printf", "fprintf"}
ENDBR64 = "f3 0f 1e fa"


def output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def symbols(path: str, table: str) -> list[tuple[int, str, str, str]]:
    """(address, type, section, name) of each symbol; section UND: it is imported."""
    found = []
    for line in output_of("readelf", "-W", table, path).splitlines():
        # Num: Value Size Type Bind Vis Ndx Name
        fields = line.split()
        if len(fields) >= 8 and fields[0].endswith(":") and fields[0][:-1].isdigit():
            found.append((int(fields[1], 16), fields[3], fields[6], fields[7].split("@")[0]))
    return found


def first_bytes(path: str, address: int) -> str:
    text = output_of("objdump", "-d", f"--start-address={address}", f"--stop-address={address + 4}", path)
    line = re.search(r"^\s*[0-9a-f]+:\t((?:[0-9a-f]{2} )+)", text, re.MULTILINE)
    return line.group(1).strip() if line else ""


def compiled(path: str) -> list[str]:
    """What the compiler left out."""
    found = []
    dynamic = symbols(path, "--dyn-syms")
    imported = {name for _, _, section, name in dynamic if section == "UND"}
    if "__stack_chk_fail" not in imported:
        found.append("guards no array on the stack (-fstack-protector-strong)")
    if FORTIFIED & imported:
        found.append(f"calls {', '.join(sorted(FORTIFIED & imported))} without a size (_FORTIFY_SOURCE=2)")
    if "X86-64" in output_of("readelf", "-hW", path):
        own = {(address, name) for address, kind, section, name in dynamic if kind == "FUNC" and section != "UND"}
        own |= {(address, name) for address, kind, _, name in symbols(path, "--syms")
                if kind == "FUNC" and name == "main"}
        bare = sorted(name for address, name in own
                      if name not in ("_init", "_fini") and first_bytes(path, address) != ENDBR64)
        if bare:
            found.append(f"{bare[0]}() is no place for an indirect jump, {len(bare)} such (-fcf-protection)")
    return found


def problems(path: str, linked_only: bool = False) -> list[str]:
    text = output_of("readelf", "-hldW", path)
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
    return found if linked_only else found + compiled(path)


def main() -> int:
    files = [argument for argument in sys.argv[1:] if argument != "--linked"]
    if not files:
        print(__doc__, file=sys.stderr)
        return 2
    wrong = 0
    for path in files:
        for problem in problems(path, "--linked" in sys.argv[1:]):
            print(f"{path}: {problem}")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
