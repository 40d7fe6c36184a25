#!/usr/bin/env python3
"""Makes the picture at the top of README.md: a frame of the demo with its detections, beside the dashboard of that run.

  python3 scripts/readme_picture.py [--bin build/demo/bin] [--out docs/images/camd.webp]

Runs docs/examples/demo.yaml for ten seconds with BIN/camd, lets BIN/camtop draw the metrics lines up to the last whole
second, and puts both side by side. Nothing else should run on the machine. Needs Debian's python3-pil, python3-pyte and
fonts-dejavu-core.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import tempfile
import termios
import time
from pathlib import Path

import pyte
from PIL import Image, ImageDraw, ImageFont

ROOT = Path(__file__).resolve().parent.parent
FRAME = 30  # of the clip's 300: all codes are in view
COLUMNS, ROWS = 66, 24
HEIGHT = 528  # of the picture; a text row is a ROWS-th of it
BACKGROUND, TEXT = "#16191d", "#e6e6e6"
FONTS = Path("/usr/share/fonts/truetype/dejavu")
# The terminal's colours by pyte's names, light enough for a dark background.
COLORS = {"default": TEXT, "red": "#ff6b6b", "green": "#69d58c", "brown": "#f2c14e", "blue": "#6ea8fe", "magenta": "#d29bfd",
          "cyan": "#56c8d8", "white": TEXT, "black": BACKGROUND}


def run_demo(camd: Path, folder: Path) -> tuple[Path, Path]:
    """The annotated frame and the metrics lines of a run."""
    frame, metrics = folder / f"{FRAME:06}.png", folder / "metrics.jsonl"
    with metrics.open("wb") as out:
        subprocess.run([camd, "--log", "error", "run", ROOT / "docs/examples/demo.yaml", "--duration", "10s", "--metrics", "json",
                        "--set", f"postprocess.jsonl.config.path={folder}/detections.jsonl",
                        "--set", f"postprocess.annotate.config.path={folder}/{{sequence}}.png",
                        "--set", f"postprocess.annotate.config.every={FRAME}"],
                       stdout=out, check=True)  # fmt: skip
    return frame, metrics


def until_the_last_second(metrics: Path) -> None:
    """Cuts off what the drain wrote: the stop line, and a last period of a few frames."""
    lines = metrics.read_text(encoding="utf-8").splitlines()
    stop = json.loads(lines[-1])["mono_ns"]
    metrics.write_text("".join(line + "\n" for line in lines if stop - json.loads(line)["mono_ns"] > 500_000_000), encoding="utf-8")


def dashboard(camtop: Path, metrics: Path) -> pyte.Screen:
    """What camtop draws on a terminal of COLUMNS x ROWS."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", NO_COLOR="", COLUMNS=str(COLUMNS), LINES=str(ROWS))
        time.sleep(0.2)  # until the terminal has its size
        os.execv(camtop, ["camtop", str(metrics)])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    end = time.monotonic() + 3
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            stream.feed(os.read(terminal, 65536))
    os.write(terminal, b"q")
    os.waitpid(child, 0)
    return screen


def drawn(screen: pyte.Screen) -> Image.Image:
    """A terminal's screen as a picture of HEIGHT."""
    row = HEIGHT // ROWS
    regular = ImageFont.truetype(str(FONTS / "DejaVuSansMono.ttf"), row - 6)
    bold = ImageFont.truetype(str(FONTS / "DejaVuSansMono-Bold.ttf"), row - 6)
    column = round(regular.getlength("0"))
    picture = Image.new("RGB", ((COLUMNS + 4) * column, HEIGHT), BACKGROUND)
    pen = ImageDraw.Draw(picture)
    for y in range(ROWS):
        for x in range(COLUMNS):
            cell = screen.buffer[y][x]
            place = ((x + 2) * column, y * row)
            color = COLORS.get(cell.fg, TEXT)
            eighths = "▏▎▍▌▋▊▉█".find(cell.data) + 1
            if cell.data and eighths:  # bars without gaps between the cells
                pen.rectangle([place[0], place[1] + 3, place[0] + column * eighths // 8 - 1, place[1] + row - 4], fill=color)
            elif cell.data == "░":
                pen.rectangle([place[0], place[1] + 3, place[0] + column - 1, place[1] + row - 4], fill="#4a4f57")
            elif cell.data.strip():
                pen.text((place[0], place[1] + 2), cell.data, font=bold if cell.bold else regular, fill=color)
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, default=ROOT / "build/demo/bin")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/images/camd.webp")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        frame_file, metrics = run_demo(arguments.bin / "camd", Path(name))
        until_the_last_second(metrics)
        right = drawn(dashboard(arguments.bin / "camtop", metrics))
        frame = Image.open(frame_file).convert("RGB")
    left = frame.resize((frame.width * HEIGHT // frame.height, HEIGHT), Image.LANCZOS)
    both = Image.new("RGB", (left.width + right.width, HEIGHT), BACKGROUND)
    both.paste(left, (0, 0))
    both.paste(right, (left.width, 0))
    both.save(arguments.out, quality=88, method=6)
    print(f"{arguments.out}: {both.width}x{both.height}, {arguments.out.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
