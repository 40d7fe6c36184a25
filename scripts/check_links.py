#!/usr/bin/env python3
"""Checks that what the tree's texts name is there.

usage: check_links.py [ROOT]

Relative links in Markdown files lead to files that exist, and anchors to headings. Paths of our own files, in Markdown
and in comments of the sources, lead to files that exist; so do names of C++ and CUDA files without a folder. Names with
CAPITALS or other placeholders are left alone, and so are pages that tell of the past.
"""

import re
import subprocess
import sys
from pathlib import Path

from source_tree import ROOMS, SOURCES

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FOLDERS = ROOMS + ("cmake", "docs", "examples", "models", "scripts", "tests")
_SUFFIXES = "cpp|hpp|cuh|cu|c|h|py|sh|cmake|md|yaml|json|txt|onnx|mp4|csv|svg"
# A path with one of our folders in front, or a name that only our C++ and CUDA files have.
_PATH = re.compile(rf"(?<![\w/.$}}\-])((?:{'|'.join(_FOLDERS)})/(?:[\w.-]+/)*[\w.-]+\.(?:{_SUFFIXES}))(?![\w/])")
_NAME = re.compile(r"(?<![\w/.$}*<>\-])((?:[a-z]\w*/)*[a-z]\w*\.(?:cpp|hpp|cuh|cu))(?![\w/])")
_PLACEHOLDER = re.compile(r"[A-Z]{2}")
_OF_THE_PAST = ("CHANGELOG.md", "docs/experiments.md")
# Headers of others that comments name.
_FOREIGN = re.compile(r"^(opencv2|cuda|onnx|gst)/")


def anchors(text: str) -> set[str]:
    """The anchors that a Markdown viewer makes of a file's headings."""
    made = set()
    for heading in re.findall(r"^#+ +(.*)$", text, re.M):
        made.add(re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-"))
    return made


def check(root: Path, files: list[Path]) -> list[str]:
    problems = []
    for file in files:
        text = re.sub(r"```.*?```", lambda m: "\n" * m.group(0).count("\n"), file.read_text(), flags=re.S)
        for number, line in enumerate(text.splitlines(), start=1):
            for link in _LINK.findall(line):
                if re.match(r"[a-z]+:", link):
                    continue
                path, _, anchor = link.partition("#")
                target = (file.parent / path) if path else file
                if not target.exists():
                    problems.append(f"{file.relative_to(root)}:{number}: {link}: there is no such file")
                elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
                    problems.append(f"{file.relative_to(root)}:{number}: {link}: there is no such heading")
    return problems


def comments(file: Path, text: str) -> str:
    """The part of a file that is written for people, line by line: all of Markdown, the comments of a source."""
    if file.suffix == ".md":
        return text
    return "\n".join(line[line.index("//"):] if "//" in line else "" for line in text.splitlines())


def check_paths(root: Path, names: list[str]) -> list[str]:
    """What Markdown files and the comments of sources, of `names`, say of files that are not among `names`."""
    there = set(names)
    ends = {"/".join(parts[i:]) for parts in (name.split("/") for name in names) for i in range(len(parts))}
    problems = []
    for name in names:
        file = root / name
        if file.suffix not in SOURCES + (".md",) or name in _OF_THE_PAST or not file.exists():
            continue
        for number, line in enumerate(comments(file, file.read_text(encoding="utf-8")).splitlines(), start=1):
            gone = {path for path in _PATH.findall(line) if path not in there and not (file.parent / path).exists()}
            gone |= {path for path in _NAME.findall(line) if path not in ends}
            problems += [f"{name}:{number}: {path}: there is no such file" for path in sorted(gone)
                         if not _PLACEHOLDER.search(path) and not _FOREIGN.match(path)]
    return problems


def main(arguments: list[str]) -> int:
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root,
                           capture_output=True, text=True, check=True).stdout.splitlines()
    names = [name for name in names if (root / name).exists()]
    problems = check(root, [root / name for name in names if name.endswith(".md")]) + check_paths(root, names)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
