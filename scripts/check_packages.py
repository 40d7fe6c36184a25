#!/usr/bin/env python3
"""Checks that scripts/packages.txt names a Debian package for everything that the CMake files look for.

usage: check_packages.py [ROOT]

Looks at each find_package(), pkg-config module, find_path() and find_library() of cmake/, CMakeLists.txt files of the
rooms and tests/. Exit 1, naming file and line, if one has no row.
"""

import re
import sys
from pathlib import Path

# Looked for, and not from Debian: optional (CUDA) or installed with something that has a row.
WITHOUT_ROW = {
    "find_package(CUDAToolkit)": "optional; comes from NVIDIA",
    "find_package(Python3)": "the package python3 is listed as a tool",
}
_CALL = re.compile(r"(find_package|pkg_check_modules|find_path|find_library)\s*\(([^)]*)\)", re.S)


def wanted(text: str):
    """(line, words as packages.txt spells them) of each look-up in a CMake file."""
    text = re.sub(r"#[^\n]*", "", text)
    for call in _CALL.finditer(text):
        line = text.count("\n", 0, call.start()) + 1
        words = call.group(2).replace('"', " ").split()
        if call.group(1) == "find_package":
            name = words[0]
            if name == "OpenCV" and "COMPONENTS" in words:
                for module in words[words.index("COMPONENTS") + 1:]:
                    if not module.isupper() and "$" not in module:
                        yield line, f"find_package(OpenCV:{module})"
            elif "$" not in name:
                yield line, f"find_package({name})"
        elif call.group(1) == "pkg_check_modules":
            for word in words[1:]:
                module = re.split(r"[<>=]", word)[0]
                if not module.isupper() and module != "IMPORTED_TARGET":
                    yield line, f"pkg({module})"
        elif "NAMES" in words:
            # Any one of the names may be the one that Debian has.
            names = []
            for word in words[words.index("NAMES") + 1:]:
                if word.isupper() or word.startswith("PATH"):
                    break
                names.append(word)
            if names and not any("$" in n for n in names):
                yield line, "|".join(f"{call.group(1)}({n})" for n in names)


def check(root: Path) -> list[str]:
    rows = "\n".join(line for line in (root / "scripts/packages.txt").read_text().splitlines()
                     if not line.startswith("#"))
    files = [root / "CMakeLists.txt", *(root / "cmake").glob("*.cmake")]
    for folder in ("base", "config", "device", "capture", "infer", "pipeline", "plugins", "apps", "tests"):
        files += (root / folder).rglob("CMakeLists.txt")
    problems = []
    for file in sorted(f for f in files if f.exists() and not f.name.startswith("Find")):
        for line, what in wanted(file.read_text()):
            if not any(name in rows or name in WITHOUT_ROW for name in what.split("|")):
                problems.append(f"{file.relative_to(root)}:{line}: {what} has no row in scripts/packages.txt")
    return problems


def main(arguments: list[str]) -> int:
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    problems = check(Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
