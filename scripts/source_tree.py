"""What the checks of this folder know about the source tree: which files are ours, and what they include."""

import re
from pathlib import Path
from typing import Iterator, NamedTuple

ROOMS = ("base", "config", "device", "capture", "infer", "pipeline", "plugins", "apps")
HEADERS = (".h", ".hpp", ".cuh")
SOURCES = HEADERS + (".c", ".cpp", ".cu")

_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


class Include(NamedTuple):
    line: int
    target: str
    quoted: bool


def source_files(root: Path, folders=ROOMS + ("tests",), suffixes=SOURCES) -> Iterator[Path]:
    """Paths relative to root, sorted."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file():
                yield path.relative_to(root)


def includes(path: Path) -> list[Include]:
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        match = _INCLUDE.match(line)
        if match:
            found.append(Include(number, match.group(1) or match.group(2), match.group(1) is not None))
    return found
