#!/usr/bin/env python3
"""Checks that relative links in the tree's Markdown files lead to files that exist, and anchors to headings.

usage: check_links.py [ROOT]
"""

import re
import subprocess
import sys
from pathlib import Path

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


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


def main(arguments: list[str]) -> int:
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=root,
                           capture_output=True, text=True, check=True).stdout.splitlines()
    problems = check(root, [root / name for name in names if (root / name).exists()])
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
