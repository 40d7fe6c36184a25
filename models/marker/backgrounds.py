"""Backgrounds and hard negatives: everything in a training picture that is not a code."""

from __future__ import annotations

import functools
import importlib.util
import string
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

Rng = np.random.Generator

# Pictures that scikit-image and matplotlib carry (free of rights or free licences; see their READMEs).
_TRAINING_PICTURES = (
    "skimage/data/astronaut.png", "skimage/data/camera.png", "skimage/data/chelsea.png", "skimage/data/rocket.jpg",
    "skimage/data/hubble_deep_field.jpg", "skimage/data/retina.jpg", "skimage/data/ihc.png", "skimage/data/brick.png",
    "skimage/data/grass.png", "skimage/data/text.png", "skimage/data/page.png", "skimage/data/moon.png",
    "skimage/data/motorcycle_left.png", "skimage/data/color.png", "matplotlib/mpl-data/sample_data/grace_hopper.jpg",
)  # fmt: skip
_HELD_OUT_PICTURES = ("skimage/data/coffee.png", "skimage/data/coins.png", "skimage/data/gravel.png", "skimage/data/cell.png")
_FACES = "skimage/data/lfw_subset.npy"


def _package_file(name: str) -> Path | None:
    package, rest = name.split("/", 1)
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / rest
    return path if path.exists() else None


@functools.cache
def pictures(held_out: bool) -> tuple[np.ndarray, ...]:
    """The carried photographs that this machine has, BGR."""
    found = (_package_file(name) for name in (_HELD_OUT_PICTURES if held_out else _TRAINING_PICTURES))
    return tuple(image for path in found if path and (image := cv2.imread(str(path))) is not None)


@functools.cache
def faces() -> np.ndarray:
    path = _package_file(_FACES)
    return np.load(path) if path else np.zeros((0, 25, 25))


def colour(rng: Rng, low: int = 0, high: int = 256, saturation: float = 0.5) -> np.ndarray:
    """A random BGR colour around a random grey."""
    grey = rng.uniform(low, high)
    return np.clip(grey + rng.normal(0, 1, 3) * saturation * 60, 0, 255)


def smooth_noise(rng: Rng, height: int, width: int, cells: int, channels: int = 1) -> np.ndarray:
    """Low-frequency noise, f32 [height, width, channels], about -1..1."""
    shape = (max(2, round(cells * height / max(height, width)) + 1), max(2, round(cells * width / max(height, width)) + 1))
    small = rng.uniform(-1, 1, (*shape, channels)).astype(np.float32)
    big = cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)
    return big.reshape(height, width, channels)


def fractal_noise(rng: Rng, height: int, width: int, first: int = 3, octaves: int = 5, decay: float = 0.55) -> np.ndarray:
    total = np.zeros((height, width, 1), np.float32)
    for i in range(octaves):
        total += smooth_noise(rng, height, width, first * 2**i) * decay**i
    return total


def _u8(image: np.ndarray) -> np.ndarray:
    return np.clip(image, 0, 255).astype(np.uint8)


def _flat(height: int, width: int, tint: np.ndarray) -> np.ndarray:
    """u8, because OpenCV 5 writes text on nothing else."""
    return np.full((height, width, 3), _u8(tint))


# Backgrounds -----------------------------------------------------------------------------------------


def _wall(rng: Rng, h: int, w: int) -> np.ndarray:
    base = colour(rng, 30, 250) + smooth_noise(rng, h, w, int(rng.integers(1, 4))) * rng.uniform(5, 50)
    return base + fractal_noise(rng, h, w, 20, 4) * rng.uniform(0, 12)


def _clouds(rng: Rng, h: int, w: int) -> np.ndarray:
    mix = np.clip(fractal_noise(rng, h, w, int(rng.integers(2, 12))) * 0.5 + 0.5, 0, 1)
    return colour(rng) * mix + colour(rng) * (1 - mix)


def _planks(rng: Rng, h: int, w: int) -> np.ndarray:
    """Wood: boards with grain, as on floors and desks."""
    board = int(rng.integers(25, 160))
    rows = np.arange(h) // board
    tone = rng.normal(0, 18, rows.max() + 1)[rows][:, None, None].astype(np.float32)
    grain = cv2.resize(rng.normal(0, 1, (h, max(2, w // 60))).astype(np.float32), (w, h))[..., None]
    image = np.array([60, 110, 170]) * rng.uniform(0.3, 1.3) + rng.normal(0, 15, 3) + tone + grain * rng.uniform(3, 16)
    image[np.arange(h) % board < rng.integers(1, 4)] *= rng.uniform(0.3, 0.8)
    return image


def _tiles(rng: Rng, h: int, w: int) -> np.ndarray:
    side, gap = int(rng.integers(12, 160)), int(rng.integers(1, 6))
    image = np.broadcast_to(colour(rng, 60, 240), (h, w, 3)).astype(np.float32)
    rows, columns = np.arange(h) // side, np.arange(w) // side
    image = image + rng.normal(0, rng.uniform(0, 25), (rows.max() + 1, columns.max() + 1))[rows][:, columns][..., None]
    joint = colour(rng)
    image[np.arange(h) % side < gap] = joint
    image[:, np.arange(w) % side < gap] = joint
    return image


def _polygons(rng: Rng, h: int, w: int) -> np.ndarray:
    image = _u8(_wall(rng, h, w))
    for _ in range(int(rng.integers(3, 40))):
        centre, size = rng.uniform((0, 0), (w, h)), rng.uniform(20, 400)
        points = (centre + rng.normal(0, size / 2, (int(rng.integers(3, 7)), 2))).astype(np.int32)
        cv2.fillPoly(image, [points], colour(rng).tolist(), cv2.LINE_AA)
    return image


def _boxes(rng: Rng, h: int, w: int) -> np.ndarray:
    """Shelves, cupboards, windows, monitors: axis-aligned rectangles with edges."""
    image = _u8(_wall(rng, h, w))
    for _ in range(int(rng.integers(5, 60))):
        x, y = rng.integers(-100, w), rng.integers(-100, h)
        bw, bh = (int(v) for v in np.exp(rng.uniform(np.log(10), np.log(500), 2)))
        cv2.rectangle(image, (int(x), int(y)), (int(x) + bw, int(y) + bh), colour(rng).tolist(), -1 if rng.random() < 0.7 else int(rng.integers(1, 12)))
    return image


def _weave(rng: Rng, h: int, w: int) -> np.ndarray:
    y, x = np.mgrid[0:h, 0:w].astype(np.float32)
    angle, period = rng.uniform(0, np.pi), rng.uniform(3, 60)
    wave = np.sin((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / period)
    if rng.random() < 0.5:
        wave = wave * np.sin((y * np.cos(angle) - x * np.sin(angle)) * 2 * np.pi / period)
    if rng.random() < 0.4:
        wave = np.sign(wave)
    return colour(rng, 40, 220) + wave[..., None] * rng.uniform(5, 70) + fractal_noise(rng, h, w) * 8


def picture_crop(rng: Rng, h: int, w: int, held_out: bool) -> np.ndarray:
    found = pictures(held_out)
    if not found:
        return _clouds(rng, h, w)
    image = found[rng.integers(len(found))]
    if rng.random() < 0.5:
        image = image[:, ::-1]
    if rng.random() < 0.3:
        image = np.rot90(image, int(rng.integers(1, 4)))
    ih, iw = image.shape[:2]
    cut = rng.uniform(0.35, 1.0)
    scale = min(ih / h, iw / w) * cut
    ch, cw = max(8, int(h * scale)), max(8, int(w * scale))
    y, x = int(rng.integers(0, ih - ch + 1)), int(rng.integers(0, iw - cw + 1))
    crop = np.ascontiguousarray(image[y : y + ch, x : x + cw])
    return cv2.resize(crop, (w, h), interpolation=cv2.INTER_AREA if ch > h else cv2.INTER_CUBIC)


_BACKGROUNDS: tuple[Callable[[Rng, int, int], np.ndarray], ...] = (_wall, _clouds, _planks, _tiles, _polygons, _boxes, _weave)
_BACKGROUND_WEIGHT = (0.22, 0.12, 0.14, 0.1, 0.16, 0.16, 0.1)


def background(rng: Rng, height: int, width: int, held_out: bool) -> np.ndarray:
    """u8 BGR picture to put codes on; sometimes two halves (wall and table, say)."""
    if rng.random() < 0.35:
        image = picture_crop(rng, height, width, held_out)
    else:
        image = _BACKGROUNDS[rng.choice(len(_BACKGROUNDS), p=_BACKGROUND_WEIGHT)](rng, height, width)
    image = np.ascontiguousarray(_u8(image))
    if rng.random() < 0.3:
        other = _u8(_BACKGROUNDS[rng.choice(len(_BACKGROUNDS), p=_BACKGROUND_WEIGHT)](rng, height, width))
        centre = rng.uniform((0, 0.3 * height), (width, 0.8 * height))
        angle = rng.normal(0, 0.3) if rng.random() < 0.7 else rng.uniform(0, np.pi)
        along = np.array([np.cos(angle), np.sin(angle)]) * 3000
        down = np.array([-along[1], along[0]])
        mask = np.zeros((height, width), np.uint8)
        cv2.fillPoly(mask, [np.array([centre - along, centre + along, centre + along + down, centre - along + down]).astype(np.int32)], 1)
        image[mask > 0] = other[mask > 0]
    return image


# Hard negatives: flat textures that share parts of a code's look --------------------------------------


def _ink_and_paper(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    ink, paper = colour(rng, 0, 70, 0.3), colour(rng, 150, 255, 0.3)
    return (paper, ink) if rng.random() < 0.15 else (ink, paper)


def text_block(rng: Rng, h: int, w: int) -> np.ndarray:
    ink, paper = _ink_and_paper(rng)
    image = _flat(h, w, paper)
    scale = rng.uniform(0.25, 1.6)
    font = int(rng.integers(0, 8))
    letters = string.ascii_letters + string.digits + "   .,:;-#%&"
    step, y = max(6, int(scale * rng.uniform(26, 44))), 0
    while (y := y + step) < h:
        line = "".join(letters[i] for i in rng.integers(0, len(letters), int(rng.integers(4, 80))))
        cv2.putText(image, line, (int(rng.integers(2, 12)), y), font, scale, ink.tolist(), max(1, int(scale * rng.uniform(1, 3))), cv2.LINE_AA)
    return image


def barcode(rng: Rng, h: int, w: int) -> np.ndarray:
    ink, paper = _ink_and_paper(rng)
    image = _flat(h, w, paper)
    module, margin = max(1, w // int(rng.integers(40, 140))), w // 10
    bars = np.repeat(rng.random(w // module + 1) < 0.5, module)[: w - 2 * margin]
    image[h // 10 : int(h * rng.uniform(0.6, 0.95)), margin : w - margin][:, bars[: w - 2 * margin]] = ink
    cv2.putText(image, str(rng.integers(10**10)), (margin, h - 3), 0, h / 250, ink.tolist(), 1, cv2.LINE_AA)
    return image


def checkerboard(rng: Rng, h: int, w: int) -> np.ndarray:
    ink, paper = _ink_and_paper(rng)
    n = int(rng.integers(2, 14))
    step = max(2, min(h, w) // n)
    mask = ((np.arange(h)[:, None] // step + np.arange(w)[None] // step) % 2).astype(bool)
    return np.where(mask[..., None], ink, paper)


def keyboard(rng: Rng, h: int, w: int) -> np.ndarray:
    keys, body = (colour(rng, 20, 250, 0.2) for _ in range(2))
    ink = colour(rng, 200, 255) if keys.mean() < 120 else colour(rng, 0, 60)
    image = _flat(h, w, body)
    side = max(10, h // int(rng.integers(3, 7)))
    for row, y in enumerate(range(2, h - side, side)):
        for x in range(2 + row * side // 3, w - side, side):
            cv2.rectangle(image, (x, y), (x + side - 3, y + side - 3), keys.tolist(), -1)
            cv2.putText(image, string.ascii_uppercase[rng.integers(26)], (x + side // 4, y + side * 2 // 3), 0, side / 60, ink.tolist(), 1, cv2.LINE_AA)
    return image


def blinds(rng: Rng, h: int, w: int) -> np.ndarray:
    period = int(rng.integers(4, 40))
    wave = (np.arange(h) % period / period).astype(np.float32)[:, None, None]
    image = colour(rng, 20, 120) * wave + colour(rng, 120, 255) * (1 - wave) + np.zeros((h, w, 3), np.float32)
    return image if rng.random() < 0.5 else np.ascontiguousarray(cv2.resize(image.transpose(1, 0, 2), (w, h)))


def circuit(rng: Rng, h: int, w: int) -> np.ndarray:
    image = _flat(h, w, rng.choice(np.array([[40, 90, 20], [90, 40, 10], [20, 20, 20], [30, 30, 130]])))
    for _ in range(int(rng.integers(20, 70))):
        x, y = int(rng.integers(w)), int(rng.integers(h))
        kind = rng.integers(4)
        if kind == 0:
            end = (x + int(rng.integers(-w // 3, w // 3)), y) if rng.random() < 0.5 else (x, y + int(rng.integers(-h // 3, h // 3)))
            cv2.line(image, (x, y), end, (image[0, 0] * 1.5 + 20.0).tolist(), int(rng.integers(1, 4)))
        elif kind == 1:
            a, b = int(rng.integers(4, max(5, w // 5))), int(rng.integers(4, max(5, h // 5)))
            cv2.rectangle(image, (x, y), (x + a, y + b), colour(rng, 0, 60, 0.1).tolist(), -1)
        elif kind == 2:
            cv2.circle(image, (x, y), int(rng.integers(2, 8)), colour(rng, 150, 230).tolist(), int(rng.integers(1, 3)))
        else:
            for i in range(int(rng.integers(3, 12))):
                cv2.rectangle(image, (x + 6 * i, y), (x + 6 * i + 3, y + 8), (200, 210, 210), -1)
    return image


def halftone(rng: Rng, h: int, w: int) -> np.ndarray:
    ink, paper = _ink_and_paper(rng)
    period = rng.uniform(4, 14)
    y, x = np.mgrid[0:h, 0:w].astype(np.float32)
    wave = np.cos((x + y) * 2 * np.pi / period) + np.cos((x - y) * 2 * np.pi / period)
    mask = (wave > smooth_noise(rng, h, w, 3)[..., 0] * 1.8)[..., None]
    return np.where(mask, ink, paper)


def modules_without_frame(rng: Rng, h: int, w: int) -> np.ndarray:
    """Random squares as in crosswords, pixel art and Data Matrix codes: neither finder patterns nor a black frame."""
    ink, paper = _ink_and_paper(rng)
    n = int(rng.integers(5, 32))
    grid = (rng.random((n, n)) < rng.uniform(0.25, 0.6)).astype(np.uint8)
    style = rng.integers(3)
    if style == 0:  # Data Matrix: a solid L and two dashed edges
        grid[:, 0] = grid[-1] = 1
        grid[0], grid[:, -1] = np.arange(n) % 2 == 0, np.arange(n) % 2 == 1
    elif style == 1:  # a light rim, so that no dark border can arise by chance
        grid[[0, -1]] = 0
        grid[:, [0, -1]] = 0
    mask = cv2.resize(np.pad(grid, 1), (w, h), interpolation=cv2.INTER_NEAREST).astype(bool)
    return np.where(mask[..., None], ink, paper)


def nested_squares(rng: Rng, h: int, w: int) -> np.ndarray:
    """One finder pattern alone, or rings: not a QR code."""
    ink, paper = _ink_and_paper(rng)
    image = _flat(h, w, paper)
    side = min(h, w) * rng.uniform(0.5, 0.9)
    rings = int(rng.integers(2, 5))
    for i in range(2 * rings - 1):
        half = side / 2 * (1 - i / (2 * rings - 1))
        tint = ink if i % 2 == 0 else paper
        if rng.random() < 0.8:
            cv2.rectangle(image, (int(w / 2 - half), int(h / 2 - half)), (int(w / 2 + half), int(h / 2 + half)), tint.tolist(), -1)
        else:
            cv2.circle(image, (w // 2, h // 2), int(half), tint.tolist(), -1, cv2.LINE_AA)
    return image


def framed(rng: Rng, h: int, w: int) -> np.ndarray:
    """A dark frame around something that is no marker: a picture, a letter, a shape, nothing at all."""
    ink, paper = _ink_and_paper(rng)
    image = _flat(h, w, paper)
    edge = int(min(h, w) * rng.uniform(0.05, 0.15))
    cv2.rectangle(image, (edge, edge), (w - edge, h - edge), ink.tolist(), -1)
    inner = edge + max(1, int(min(h, w) * rng.uniform(0.02, 0.2)))
    kind = rng.integers(6)
    if kind > 0 and inner < min(h, w) // 2 - 4:
        hole = image[inner : h - inner, inner : w - inner]
        hole[:] = paper if kind < 5 else picture_crop(rng, hole.shape[0], hole.shape[1], False)
        hh, hw = hole.shape[:2]
        if kind == 2:
            cv2.putText(image, string.ascii_uppercase[rng.integers(26)], (inner + hw // 8, h - inner - hh // 8), 0, hh / 35, ink.tolist(), max(1, hh // 12))
        elif kind == 3:
            cv2.circle(image, (w // 2, h // 2), max(2, min(hh, hw) // 3), ink.tolist(), -1 if rng.random() < 0.5 else max(1, hh // 10))
        elif kind == 4:
            cv2.line(image, (inner, inner), (w - inner, h - inner), ink.tolist(), max(1, hh // 10))
    return image


def face(rng: Rng, h: int, w: int) -> np.ndarray:
    found = faces()
    if len(found) == 0:
        return _clouds(rng, h, w)
    # Only the first half of the subset are faces.
    image = cv2.resize(found[rng.integers(len(found) // 2)].astype(np.float32), (w, h), interpolation=cv2.INTER_CUBIC)[..., None]
    return image * (np.array([150, 190, 240]) * rng.uniform(0.5, 1.1))


def table(rng: Rng, h: int, w: int) -> np.ndarray:
    image = text_block(rng, h, w)
    ink = colour(rng, 0, 100).tolist()
    for x in range(0, w, int(rng.integers(12, 80))):
        cv2.line(image, (x, 0), (x, h), ink, 1)
    for y in range(0, h, int(rng.integers(10, 40))):
        cv2.line(image, (0, y), (w, y), ink, 1)
    return image


def photograph(rng: Rng, h: int, w: int) -> np.ndarray:
    return picture_crop(rng, h, w, False)


def strands(rng: Rng, h: int, w: int) -> np.ndarray:
    """Hair, folds of cloth, cables: wavy lines that run side by side."""
    x = np.arange(w, dtype=np.float32)[None] + smooth_noise(rng, h, w, 3)[..., 0] * rng.uniform(5, 30)
    wave = np.sin(x * 2 * np.pi / rng.uniform(3, 20) + smooth_noise(rng, h, w, 8)[..., 0] * rng.uniform(1, 6))
    mix = np.clip(wave * rng.uniform(0.3, 1.0) + smooth_noise(rng, h, w, 4)[..., 0], -1, 1)[..., None] / 2 + 0.5
    return colour(rng, 0, 90) * mix + colour(rng, 60, 230) * (1 - mix)


def folds(rng: Rng, h: int, w: int) -> np.ndarray:
    """A garment: soft folds with dark creases in one light, fine weave, at times a hem and what is worn below it."""
    along = rng.uniform(1.5, 5)
    field = cv2.resize(smooth_noise(rng, max(8, round(h / along)), w, int(rng.integers(3, 9))), (w, h), interpolation=cv2.INTER_CUBIC)
    crease = 1 - np.abs(field) ** rng.uniform(0.3, 0.8)
    light = np.gradient(cv2.GaussianBlur(field, (0, 0), max(1.0, w / 60)), axis=1) * w * rng.uniform(0.02, 0.08)
    shade = np.clip(1 + light - crease * rng.uniform(0, 0.6), 0.05, 1.4)
    if rng.random() < 0.5:
        period, other = rng.uniform(2, 7, 2)
        y, x = np.mgrid[0:h, 0:w].astype(np.float32)
        wave = np.sin((y + 6 * field) * 2 * np.pi / period) + rng.uniform(0, 1) * np.sin((x + 6 * field) * 2 * np.pi / other)
        shade = shade * (1 + wave * smooth_noise(rng, h, w, 4)[..., 0] * rng.uniform(0.05, 0.35))
    image = colour(rng, 20, 240) * shade[..., None]
    if rng.random() < 0.5:
        seam = np.arange(w) * rng.normal(0, 0.05) + h * rng.uniform(0.4, 0.9)
        below = np.arange(h)[:, None] - seam[None] + 4 * smooth_noise(rng, 8, w, 4)[0, :, 0]
        image = np.where(below[..., None] > 0, colour(rng, 0, 200) * (0.9 + 0.1 * shade[..., None]), image)
        image = image * (1 - 0.6 * np.exp(-(below**2) / rng.uniform(2, 12)))[..., None]
        for stitch in range(int(rng.integers(0, 3))):
            image = image * (1 - 0.25 * (np.abs(below + (stitch + 1) * h / 12) < 1))[..., None]
    return image


def lined_paper(rng: Rng, h: int, w: int) -> np.ndarray:
    """Paper with faint lines, full or broken, as forms and books from afar."""
    paper = colour(rng, 150, 255, 0.15)
    ink = paper * rng.uniform(0.3, 0.85)
    y, x = np.mgrid[0:h, 0:w].astype(np.float32)
    period = rng.uniform(4, 18)
    mask = (np.sin((y + x * rng.normal(0, 0.05) + 3 * smooth_noise(rng, h, w, 3)[..., 0]) * 2 * np.pi / period) > rng.uniform(-0.3, 0.8)).astype(np.float32)
    if rng.random() < 0.6:
        mask = mask * (smooth_noise(rng, h, w, int(rng.integers(8, 40)))[..., 0] > -0.3)
    edge = rng.uniform(0.03, 0.2) * min(h, w)
    mask = mask * ((x > edge) & (x < w - edge) & (y > edge) & (y < h - edge))
    return paper + cv2.GaussianBlur(mask, (0, 0), 0.8)[..., None] * (ink - paper)


def book(rng: Rng, h: int, w: int) -> np.ndarray:
    """The edge of a book or a pile: a cover, pages side by side, a dark gap."""
    image = np.empty((h, w, 3), np.float32)
    image[:] = colour(rng, 10, 220, 0.7)
    top, bottom = sorted(rng.uniform(0.05, 0.95, 2) * h)
    pages = np.repeat(rng.uniform(0.6, 1.0, h), int(rng.integers(1, 4)))[:h, None, None] * colour(rng, 150, 255, 0.2)
    image[int(top) : int(bottom)] = pages[int(top) : int(bottom)]
    for y in (top, bottom):
        image[max(0, int(y) - 2) : int(y) + int(rng.integers(1, 6))] *= rng.uniform(0.1, 0.7)
    return image if rng.random() < 0.5 else np.ascontiguousarray(cv2.resize(image.transpose(1, 0, 2), (w, h)))


def limb(rng: Rng, h: int, w: int) -> np.ndarray:
    """A hand, a shoe, a shadow: a few dark lumps on something lighter, with creases between them."""
    image = _u8(_clouds(rng, h, w)).astype(np.float32)
    tint = np.array([90, 120, 180]) * rng.uniform(0.15, 1.2) if rng.random() < 0.6 else colour(rng, 0, 120, 0.3)
    for _ in range(int(rng.integers(3, 9))):
        centre = (int(rng.normal(w / 2, w / 7)), int(rng.normal(h / 2, h / 6)))
        axes = (max(2, int(w * rng.uniform(0.04, 0.15))), max(3, int(h * rng.uniform(0.08, 0.3))))
        angle = float(rng.normal(90, 40))
        cv2.ellipse(image, centre, axes, angle, 0, 360, (tint * rng.uniform(0.7, 1.2)).tolist(), -1, cv2.LINE_AA)
        cv2.ellipse(image, centre, axes, angle, 0, 360, (tint * rng.uniform(0.1, 0.6)).tolist(), 1, cv2.LINE_AA)
    return cv2.GaussianBlur(image, (0, 0), rng.uniform(0.4, 2.5))


def crumple(rng: Rng, h: int, w: int) -> np.ndarray:
    """Cloth that is gathered in places: short dark creases that run together, on soft light and shade."""
    image = colour(rng, 60, 250, 0.4) * (1 + smooth_noise(rng, h, w, int(rng.integers(1, 5))) * rng.uniform(0.05, 0.4))
    shade = np.ones((h, w), np.float32)
    for _ in range(int(rng.integers(1, 5))):
        knot, reach = rng.uniform((0, 0), (w, h)), min(h, w) * rng.uniform(0.1, 0.5)
        around = rng.uniform(0, 2 * np.pi)
        for _ in range(int(rng.integers(3, 10))):
            start = knot + rng.normal(0, reach / 4, 2)
            angle, bow = around + rng.normal(0, 0.9), rng.normal(0, 0.8)
            steps = np.linspace(0, 1, 8)[:, None]
            turn = angle + bow * steps
            line = start + np.concatenate((np.cos(turn), np.sin(turn)), axis=1) * steps * reach * rng.uniform(0.4, 1.2)
            thick = max(1, int(reach * rng.uniform(0.03, 0.2)))
            for k in range(7):  # thinner to its end
                ends = (tuple(int(v) for v in line[k]), tuple(int(v) for v in line[k + 1]))
                cv2.line(shade, *ends, float(rng.uniform(0.1, 0.8)), max(1, thick * (7 - k) // 7), cv2.LINE_AA)
    return image * cv2.GaussianBlur(shade, (0, 0), rng.uniform(0.5, 3.5))[..., None]


def blotches(rng: Rng, h: int, w: int) -> np.ndarray:
    """Spots of a few colours with clear rims, as on shoes, leaves, prints and camouflage."""
    image = np.empty((h, w, 3), np.float32)
    image[:] = colour(rng, 0, 256)
    for _ in range(int(rng.integers(1, 4))):
        field = fractal_noise(rng, h, w, int(rng.integers(3, 14)), 3)[..., 0]
        mask = np.clip((field - rng.uniform(-0.2, 0.9)) * rng.uniform(3, 30), 0, 1)[..., None]
        image += mask * (colour(rng, 0, 256) - image)
    return image


def panes(rng: Rng, h: int, w: int) -> np.ndarray:
    """Windows, shelves, vents and fences: equal openings side by side, each with a tone of its own, some with a bright rim."""
    image = _flat(h, w, colour(rng, 0, 256, 0.4))
    rows, columns = (int(v) for v in rng.integers(1, 9, 2))
    gap = rng.uniform(0.05, 0.35)
    dark, light = colour(rng, 0, 90, 0.4), colour(rng, 90, 256, 0.4)
    for r in range(rows):
        for c in range(columns):
            tone = dark if rng.random() < 0.7 else light
            x, y = (int((c + gap / 2) * w / columns), int((r + gap / 2) * h / rows))
            end = (int((c + 1 - gap / 2) * w / columns), int((r + 1 - gap / 2) * h / rows))
            cv2.rectangle(image, (x, y), end, np.clip(tone * rng.uniform(0.7, 1.3), 0, 255).tolist(), -1)
            if rng.random() < 0.3:  # a cross bar or something behind the glass
                middle = (x + end[0]) // 2 if rng.random() < 0.5 else int(rng.uniform(x, end[0] + 1))
                cv2.line(image, (middle, y), (middle, end[1]), light.tolist(), max(1, (end[0] - x) // int(rng.integers(4, 12))))
            if rng.random() < 0.2:
                cv2.rectangle(image, (x, y), end, light.tolist(), 1)
    return cv2.GaussianBlur(image, (0, 0), rng.uniform(0.3, 2.0))


def sign(rng: Rng, h: int, w: int) -> np.ndarray:
    """A logo, a caption, a number plate: a few bold letters on a plate of another tone, at times in two lines or outlined."""
    ink, paper = _ink_and_paper(rng)
    image = _flat(h, w, colour(rng, 0, 256))
    cv2.rectangle(image, (w // 16, h // 16), (w - w // 16, h - h // 16), paper.tolist(), -1)
    if rng.random() < 0.4:
        cv2.rectangle(image, (w // 12, h // 12), (w - w // 12, h - h // 12), ink.tolist(), max(1, h // 30))
    lines = int(rng.integers(1, 4))
    for i in range(lines):
        text = "".join(rng.choice(list(string.ascii_uppercase + string.digits), int(rng.integers(1, 7))))
        (tw, th), _ = cv2.getTextSize(text, 0, 1.0, 2)
        scale = min(0.8 * w / tw, 0.6 * h / lines / th)
        thick = max(1, int(scale * rng.uniform(1, 8)))
        cv2.putText(image, text, (int(w * 0.1), int(h * (i + 0.8) / lines)), int(rng.integers(0, 8)), scale, ink.tolist(), thick, cv2.LINE_AA)
    return image


def figure(rng: Rng, h: int, w: int) -> np.ndarray:
    """Somebody: head with hair, clothes that are plain, striped, checked or printed, arms, legs, a bag."""
    image = _u8(_clouds(rng, h, w) if rng.random() < 0.5 else _wall(rng, h, w))
    skin = np.array([110, 145, 200]) * rng.uniform(0.25, 1.2)
    unit, x = h / 8 * rng.uniform(0.8, 2.2), w / 2
    top = unit * rng.uniform(0.1, 1.2)

    def limb_to(start: tuple[float, float], end: tuple[float, float], tint: np.ndarray, thick: float) -> None:
        points = [tuple(int(v) for v in p) for p in (start, end)]
        cv2.line(image, *points, np.clip(tint, 0, 255).tolist(), max(1, int(thick)), cv2.LINE_AA)

    trousers, hair = colour(rng, 0, 160, 0.3), colour(rng, 0, 90, 0.3)
    for side in (-0.4, 0.4):
        limb_to((x + side * unit, top + 4 * unit), (x + side * unit * rng.uniform(0.5, 2.5), top + 7.5 * unit), trousers, 0.7 * unit)
    shirt = np.empty((max(4, int(3 * unit)), max(4, int(2 * unit)), 3), np.float32)
    shirt[:] = colour(rng, 0, 256)
    kind = rng.integers(5)
    sh, sw = shirt.shape[:2]
    if kind == 1:
        shirt[np.arange(sh) % max(2, sh // int(rng.integers(4, 20))) < max(1, sh // 30)] = colour(rng, 0, 256)
    elif kind == 2:
        step = max(2, sw // int(rng.integers(3, 12)))
        shirt[((np.arange(sh)[:, None] // step + np.arange(sw)[None] // step) % 2).astype(bool)] *= rng.uniform(0.2, 0.8)
    elif kind == 3:
        part = shirt[sh // 5 : sh // 2, sw // 4 : 3 * sw // 4]
        part[:] = (sign if rng.random() < 0.6 else blotches)(rng, *part.shape[:2])
    elif kind == 4:
        shirt[:] = folds(rng, sh, sw)
    y0, x0 = int(top + 1.2 * unit), int(x - sw / 2)
    view = image[max(0, y0) : max(0, y0) + sh, max(0, x0) : max(0, x0) + sw]
    view[:] = _u8(shirt)[: view.shape[0], : view.shape[1]]
    for side in (-1, 1):
        elbow = (x + side * unit * rng.uniform(1, 1.8), top + rng.uniform(2, 3.2) * unit)
        limb_to((x + side * unit, top + 1.5 * unit), elbow, shirt[0, 0] * rng.uniform(0.7, 1.0), 0.6 * unit)
        limb_to(elbow, (x + side * unit * rng.uniform(0, 2), top + rng.uniform(1, 4) * unit), skin, 0.45 * unit)
    head = (int(x), int(top + 0.5 * unit))
    cv2.ellipse(image, head, (max(1, int(0.55 * unit)), max(1, int(0.7 * unit))), 0, 0, 360, hair.tolist(), -1, cv2.LINE_AA)
    below = (head[0] + int(rng.normal(0, 0.15) * unit), head[1] + int(0.2 * unit))
    cv2.ellipse(image, below, (max(1, int(0.42 * unit)), max(1, int(0.5 * unit))), 0, 0, 360, np.clip(skin, 0, 255).tolist(), -1, cv2.LINE_AA)
    for side in (-0.18, 0.18):
        cv2.circle(image, (int(below[0] + side * unit), below[1]), max(1, int(0.08 * unit)), hair.tolist(), -1, cv2.LINE_AA)
    if rng.random() < 0.3:
        limb_to((x - unit, top + 1.3 * unit), (x + unit, top + 4 * unit), colour(rng, 0, 120), 0.2 * unit)
    return cv2.GaussianBlur(image, (0, 0), rng.uniform(0.3, 1.5))


Makers = tuple[tuple[Callable[[Rng, int, int], np.ndarray], float], ...]  # with how often each is drawn
HARD_NEGATIVES: Makers = (
    (text_block, 2), (barcode, 1.2), (checkerboard, 1.2), (keyboard, 1), (blinds, 0.8), (circuit, 1), (halftone, 0.8),
    (modules_without_frame, 2), (nested_squares, 1), (framed, 2), (face, 0.8), (table, 0.8), (photograph, 1), (strands, 1.5),
)  # fmt: skip
ALL_NEGATIVES: Makers = (*HARD_NEGATIVES, (folds, 5), (lined_paper, 2.5), (book, 1.5), (limb, 2), (crumple, 4), (blotches, 2),
                         (panes, 2.5), (sign, 2.5), (figure, 4), (keyboard, 1.5), (text_block, 2))  # fmt: skip


def hard_negative(rng: Rng, makers: Makers = HARD_NEGATIVES) -> np.ndarray:
    """u8 BGR texture of moderate size."""
    weight = np.array([w for _, w in makers])
    maker = makers[rng.choice(len(makers), p=weight / weight.sum())][0]
    h = int(rng.integers(80, 320))
    aspect = rng.uniform(0.8, 1.25) if maker in (modules_without_frame, nested_squares, framed, face) else rng.uniform(0.6, 2.5)
    return _u8(maker(rng, h, int(h * aspect)))
