#!/usr/bin/env python3
"""Checks that every header compiles alone: includes what it uses and needs no include before it.

usage: check_headers.py BUILD_DIR

Compiles a file that includes nothing but the header, with the flags that BUILD_DIR/compile_commands.json gives to a
source of the same folder. A header is compiled again only when it, a header of ours that it includes, or the flags
have changed (BUILD_DIR/check_headers.json remembers, and ccache, where it is installed, for other folders). Headers of
folders that this build leaves out are named and skipped. Exit 1 if one failed.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from source_tree import HEADERS, ROOMS, includes, source_files


def sources_of(file: Path) -> list[Path]:
    """The source, or those that a file of CMake's unity builds includes."""
    if file.parent.name != "Unity":
        return [file]
    return [Path(name) for name in re.findall(r'^#include "(.*)"$', file.read_text(), re.MULTILINE)]


def flags_by_folder(build: Path, root: Path) -> dict[str, list[str]]:
    """Compiler and flags of the first C++ source of each folder and of each room."""
    flags: dict[str, list[str]] = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        sources = [file for file in sources_of(Path(entry["file"])) if file.suffix == ".cpp" and file.is_relative_to(root)]
        words = shlex.split(entry["command"])
        if Path(words[0]).name == "ccache":
            words = words[1:]
        kept, skip = [], False
        for word in words:
            if skip:
                skip = False
            elif word in ("-o", "-MF", "-MT", "-MQ"):
                skip = True
            elif word not in ("-c", "-MD", "-MMD", entry["file"]):
                kept.append(word)
        for source in sources:
            folder = source.relative_to(root).parent
            for level in (folder, *folder.parents):
                if level != Path("."):
                    flags.setdefault(level.as_posix(), kept)
    return flags


def own_headers_under(root: Path, header: Path, seen: set[Path]) -> set[Path]:
    """The header and every header of ours that it includes, directly or not."""
    if header not in seen:
        seen.add(header)
        for include in includes(root / header):
            for candidate in (Path(include.target), header.parent / include.target):
                if (root / candidate).is_file():
                    own_headers_under(root, candidate, seen)
                    break
    return seen


def fingerprint(root: Path, header: Path, command: list[str]) -> str:
    digest = hashlib.sha256("\0".join(command).encode())
    for part in sorted(own_headers_under(root, header, set())):
        digest.update(part.as_posix().encode() + (root / part).read_bytes())
    return digest.hexdigest()


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if arguments in (["-h"], ["--help"]) else 2
    root = Path(__file__).resolve().parent.parent
    build = Path(arguments[0]).resolve()
    flags = flags_by_folder(build, root)
    memory = build / "check_headers.json"
    try:
        known = json.loads(memory.read_text())
    except (OSError, ValueError):
        known = {}

    jobs, skipped, current = [], [], {}
    for header in source_files(root, ROOMS, HEADERS):
        command = flags.get(header.parent.as_posix())
        if header.suffix == ".cuh" or (command is None and "cuda" in header.parts):
            skipped.append(header)
            continue
        if command is None:
            command = next((flags[p.as_posix()] for p in header.parents if p.as_posix() in flags), None)
        if command is None:
            skipped.append(header)
            continue
        languages = [["-x", "c++"]]
        if header.suffix == ".h":  # the plug-in interface is C
            languages.append(["-x", "c", "-std=c11", "-pedantic"])
        for language in languages:
            words = [w for w in command if not w.startswith(("-O", "-g"))]
            if language[1] == "c":
                left_out = ("-std=", "-fvisibility-inlines", "-Wthread-safety")
                words = ["cc", *(w for w in words[1:] if not w.startswith(left_out))]
            words += ["-O0", *language, "-c"]  # not -fsyntax-only, of which ccache keeps nothing
            key = f"{header} ({language[1]})"
            print_of = fingerprint(root, header, words)
            if known.get(key) == print_of:
                current[key] = print_of
            else:
                jobs.append((key, header, words, print_of))

    ccache = [tool] if (tool := shutil.which("ccache")) else []
    failed = 0
    with TemporaryDirectory() as folder, ThreadPoolExecutor(max_workers=os.cpu_count()) as workers:

        def compile_alone(job):
            key, header, words, print_of = job
            source = Path(folder, re.sub(r"\W", "_", key))
            source.write_text(f'#include "{header}"\n')
            command = [*ccache, *words, source.name, "-o", f"{source.name}.o"]
            return key, print_of, subprocess.run(command, capture_output=True, text=True, cwd=folder)

        for key, print_of, done in workers.map(compile_alone, jobs):
            if done.returncode == 0:
                current[key] = print_of
            else:
                failed += 1
                print(f"{key}: does not compile alone:\n{done.stderr.strip()}")
    memory.write_text(json.dumps(current, indent=0, sort_keys=True))
    for header in skipped:
        print(f"{header}: left out, nothing of its folder is part of this build")
    print(f"{len(current) + failed} headers, {len(jobs)} compiled now, {failed} failed, {len(skipped)} left out")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
