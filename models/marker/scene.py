"""Scenes: 1280x720 pictures with printed codes, clutter and exact corners, composed on the CPU with OpenCV.

A scene is the raw material of training pictures; views.py cuts, ages and exposes it. Coordinates follow
OpenCV: the centre of the first pixel is (0, 0).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np

import backgrounds
from backgrounds import Rng, colour
from codes import QR, Code, CodeBank

WIDTH, HEIGHT = 1280, 720
MAX_CODES = 33  # codes a scene can hold: a board's 16, and 17 of their own
_MOST_FAR_CODES = 24
_MAX_TEXTURE = 900  # px


@dataclass
class Patch:
    """A flat thing to be laid into the picture, with the codes that are printed on it."""

    image: np.ndarray  # f32 [h, w, 3], BGR
    alpha: np.ndarray  # f32 [h, w], 0..1
    codes: list[tuple[Code, np.ndarray]] = field(default_factory=list)  # f32 [4, 2] corners in texture pixels


@dataclass
class Scene:
    image: np.ndarray  # u8 [HEIGHT, WIDTH, 3], BGR
    corners: np.ndarray  # f32 [n, 4, 2], symbol's own top-left first, then clockwise
    classes: np.ndarray  # i64 [n]
    modules: np.ndarray  # f32 [n], modules a side


def _symbol(rng: Rng, code: Code, pitch: int, ink: np.ndarray, paper: np.ndarray) -> np.ndarray:
    """The symbol alone, f32 [n*pitch, n*pitch, 3], with the faults of printing."""
    n = code.size
    light = cv2.resize(code.modules, None, fx=pitch, fy=pitch, interpolation=cv2.INTER_NEAREST).astype(np.float32) / 255
    if code.class_id == QR and pitch >= 4 and rng.random() < 0.07:
        light = _dots(light, n, pitch, rng.uniform(0.7, 1.0))
    if pitch >= 3 and rng.random() < 0.4:
        # Ink bleeds: soften, then sharpen around a shifted threshold.
        soft = cv2.GaussianBlur(light, (0, 0), rng.uniform(0.1, 0.28) * pitch, borderType=cv2.BORDER_REPLICATE)
        light = 1 / (1 + np.exp(-(soft - rng.uniform(0.35, 0.65)) * rng.uniform(8, 25)))
    image = ink + light[..., None] * (paper - ink)
    if code.class_id == QR and rng.random() < 0.12:
        side = int(rng.uniform(0.14, 0.27) * n * pitch)
        if side >= 3:
            start = (n * pitch - side) // 2
            logo = backgrounds.hard_negative(rng) if rng.random() < 0.6 else np.full((8, 8, 3), colour(rng, 0, 256, 1.0), np.uint8)
            image[start : start + side, start : start + side] = cv2.resize(logo, (side, side), interpolation=cv2.INTER_AREA)
    return image


def _dots(light: np.ndarray, n: int, pitch: int, diameter: float) -> np.ndarray:
    """Round modules, as designers like them; the finder patterns stay square."""
    axis = (np.arange(pitch) + 0.5) / pitch - 0.5
    disc = (axis[:, None] ** 2 + axis[None] ** 2 < (diameter / 2) ** 2).astype(np.float32)
    dotted = 1 - (1 - light) * np.tile(disc, (n, n))
    f = 7 * pitch
    for rows, columns in ((slice(0, f), slice(0, f)), (slice(0, f), slice(-f, None)), (slice(-f, None), slice(0, f))):
        dotted[rows, columns] = light[rows, columns]
    return dotted


def _inks(rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Ink and paper: mostly black on white, at times coloured, faint or inverted."""
    kind = rng.random()
    if kind < 0.72:
        ink, paper = colour(rng, 0, 50, 0.1), colour(rng, 170, 256, 0.12)
    elif kind < 0.87:
        ink, paper = colour(rng, 0, 90, 0.7), colour(rng, 170, 256, 0.4)
    else:
        paper = colour(rng, 90, 220, 0.2)
        ink = paper * rng.uniform(0.25, 0.6)
    # A code needs contrast to be one.
    if paper.mean() - ink.mean() < 60:
        ink = ink * 0.3
    return (paper, ink) if rng.random() < 0.06 else (ink, paper)


def single_patch(rng: Rng, code: Code, side_px: float) -> Patch:
    """One code on its carrier: sheet, card, sticker, screen, or printed straight on the surface."""
    pitch = int(np.clip(round(1.3 * side_px / code.size), 2, _MAX_TEXTURE // code.size))
    ink, paper = _inks(rng)
    symbol = _symbol(rng, code, pitch, ink, paper)
    low = 0.6 if code.class_id == QR else 0.8
    margins = (rng.uniform(low, 5, 4) if rng.random() < 0.6 else np.full(4, rng.uniform(low, 4))) * pitch
    kind = rng.random()
    if kind < 0.3:  # a larger sheet around it
        margins = margins + rng.exponential(0.35, 4) * symbol.shape[0]
    top, right, bottom, left = (int(np.ceil(min(m, 2 * symbol.shape[0]))) for m in margins)
    n = symbol.shape[0]
    image = np.empty((n + top + bottom, n + left + right, 3), np.float32)
    image[:] = paper
    if kind < 0.3:
        _decorate(rng, image, (left, top, n), ink)
    image[top : top + n, left : left + n] = symbol
    alpha = np.ones(image.shape[:2], np.float32)
    if 0.3 <= kind < 0.38:  # a screen: bezel and visible pixel grid
        image = cv2.copyMakeBorder(image, *[n // 6] * 4, cv2.BORDER_CONSTANT, value=colour(rng, 0, 60, 0.1).tolist())
        image[:: int(rng.integers(2, 5))] *= rng.uniform(0.75, 1.0)
        alpha, top, left = np.ones(image.shape[:2], np.float32), top + n // 6, left + n // 6
    elif 0.38 <= kind < 0.44 and code.class_id == QR and ink.mean() < paper.mean():
        # Ink almost straight on the surface: what lies beneath shines through the paper.
        covered = (paper.mean() - image.mean(axis=2)) / max(1.0, paper.mean() - ink.mean())
        alpha = np.clip(covered, rng.uniform(0.4, 0.8), 1).astype(np.float32)
    elif 0.44 <= kind < 0.5:  # a thin line around the quiet zone
        cv2.rectangle(image, (1, 1), (image.shape[1] - 2, image.shape[0] - 2), ink.tolist(), max(1, pitch // int(rng.integers(2, 8))))
    if rng.random() < 0.4:
        image *= 1 + backgrounds.smooth_noise(rng, *image.shape[:2], int(rng.integers(3, 30))) * rng.uniform(0.02, 0.12)
    return Patch(image, alpha, [(code, _square(left, top, n))])


def _square(left: float, top: float, side: float) -> np.ndarray:
    """Corners of the symbol in texture pixels; its edge lies half a pixel outside its first pixel's centre."""
    x0, y0, x1, y1 = left - 0.5, top - 0.5, left + side - 0.5, top + side - 0.5
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], np.float32)


def _decorate(rng: Rng, image: np.ndarray, hole: tuple[int, int, int], ink: np.ndarray) -> None:
    """Words, lines and pictures beside the code."""
    h, w = image.shape[:2]
    for _ in range(int(rng.integers(0, 4))):
        x, y = int(rng.integers(w)), int(rng.integers(h))
        tw, th = int(rng.integers(8, max(9, w // 2))), int(rng.integers(6, max(7, h // 3)))
        view = image[y : y + th, x : x + tw]
        if min(view.shape[:2]) < 4:
            continue
        maker = backgrounds.text_block if rng.random() < 0.7 else backgrounds.photograph
        view[:] = maker(rng, *view.shape[:2])
    if rng.random() < 0.3:
        cv2.rectangle(image, (2, 2), (w - 3, h - 3), ink.tolist(), int(rng.integers(1, 5)))
    # Keep one module's worth of quiet around the symbol whatever was drawn.
    left, top, n = hole
    quiet = max(2, n // 25)
    image[max(0, top - quiet) : top + n + quiet, max(0, left - quiet) : left + n + quiet] = image[0, 0]


def board_patch(rng: Rng, bank: CodeBank, side_px: float) -> Patch:
    """A calibration board or a sheet of labels: many codes in a grid on one sheet."""
    class_id = int(rng.random() < 0.75)
    rows, columns = (int(v) for v in rng.integers(2, 5, 2))
    first = bank.draw(rng, class_id)
    pitch = int(np.clip(round(1.3 * side_px / first.size), 2, 250 // first.size))
    side = first.size * pitch
    gap = max(pitch, int(side * rng.uniform(0.15, 0.9)))
    ink, paper = _inks(rng)
    image = np.empty((rows * (side + gap) + gap, columns * (side + gap) + gap, 3), np.float32)
    image[:] = paper
    chess = class_id == 1 and rng.random() < 0.3  # ChArUco: dark squares between the markers
    codes = []
    for r in range(rows):
        for c in range(columns):
            left, top = gap + c * (side + gap), gap + r * (side + gap)
            if chess and (r + c) % 2:
                m = gap // 2
                image[top - m : top + side + m, left - m : left + side + m] = ink
                continue
            code = first if r + c == 0 else bank.draw(rng, class_id)
            symbol = _symbol(rng, code, max(1, side // code.size), ink, paper)
            if symbol.shape[0] != side:
                symbol = cv2.resize(symbol, (side, side), interpolation=cv2.INTER_AREA)
            image[top : top + side, left : left + side] = symbol
            codes.append((code, _square(left, top, side)))
    return Patch(image, np.ones(image.shape[:2], np.float32), codes)


def negative_patch(rng: Rng, makers: backgrounds.Makers = backgrounds.HARD_NEGATIVES) -> Patch:
    image = backgrounds.hard_negative(rng, makers).astype(np.float32)
    h, w = image.shape[:2]
    if rng.random() < 0.7:
        return Patch(image, np.ones((h, w), np.float32))
    # An irregular outline, as people, plants and crumpled things have.
    y, x = np.mgrid[-1 : 1 : h * 1j, -1 : 1 : w * 1j].astype(np.float32)
    edge = 0.75 - np.hypot(x, y) + backgrounds.smooth_noise(rng, h, w, 4)[..., 0] * 0.3
    return Patch(image, np.clip(edge * min(h, w) / 2, 0, 1))


def random_pose(rng: Rng, steep: float = 1.0) -> np.ndarray:
    """f32 [3, 3]: from a plane in units of the code's side to a picture in which that side is about 1."""
    roll = rng.normal(0, np.radians(15)) if rng.random() < 0.55 else rng.uniform(-np.pi, np.pi)
    tilt = min(abs(rng.normal(0, np.radians(30) * steep)), np.radians(66))
    azimuth, distance = rng.uniform(-np.pi, np.pi), np.exp(rng.uniform(np.log(1.8), np.log(12)))

    def turn(a: float) -> np.ndarray:
        return np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])

    lean = np.array([[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
    rotation = turn(azimuth) @ lean @ turn(roll - azimuth)
    camera = np.diag([distance, distance, 1.0])
    return camera @ np.column_stack((rotation[:, :2], [0, 0, distance]))


def project(homography: np.ndarray, points: np.ndarray) -> np.ndarray:
    return cv2.perspectiveTransform(points.reshape(1, -1, 2).astype(np.float64), homography).reshape(points.shape)


def pose_patch(patch: Patch, pose: np.ndarray, centre: np.ndarray, side_px: float, reference: np.ndarray) -> np.ndarray | None:
    """Homography from texture pixels to the picture, or None where the sheet would pass behind the camera."""
    texture_side = float(np.linalg.norm(reference[1] - reference[0]))
    middle = reference.mean(axis=0)
    to_plane = np.array([[1, 0, -middle[0]], [0, 1, -middle[1]], [0, 0, texture_side]]) / texture_side
    h = pose @ to_plane
    height, width = patch.image.shape[:2]
    rim = np.array([[0, 0, 1], [width, 0, 1], [width, height, 1], [0, height, 1]]) @ h.T
    if rim[:, 2].min() < 0.25 * rim[:, 2].max():
        return None
    corners = project(h, reference)
    side = np.linalg.norm(corners - np.roll(corners, 1, axis=0), axis=1).mean()
    scale = side_px / side
    shift = centre - scale * corners.mean(axis=0)
    return np.array([[scale, 0, shift[0]], [0, scale, shift[1]], [0, 0, 1]]) @ h


def lay(image: np.ndarray, patch: Patch, homography: np.ndarray, bend: tuple[float, float, bool] | None, shade: float,
        fine: int = 1) -> None:  # fmt: skip
    """Draws the patch into the u8 picture. A bend (squeeze, arch, vertical?) curves the sheet between the
    corners of its first code, which stay where the homography puts them. Each pixel is the mean of fine x fine samples:
    what is much finer in the texture needs several, as a camera's pixels are means too."""
    h, w = patch.image.shape[:2]
    rim = project(homography, np.array([[0, 0], [w, 0], [w, h], [0, h]], np.float32))
    slack = 4 if bend is None else 4 + 0.2 * np.ptp(rim, axis=0).max()
    x0, y0 = np.maximum(np.floor(rim.min(axis=0) - slack), 0).astype(int)
    x1, y1 = np.minimum(np.ceil(rim.max(axis=0) + slack) + 1, (image.shape[1], image.shape[0])).astype(int)
    if x1 - x0 < 2 or y1 - y0 < 2:
        return
    moved = np.array([[fine, 0, (fine - 1) / 2 - fine * x0], [0, fine, (fine - 1) / 2 - fine * y0], [0, 0, 1]]) @ homography
    size = (int(x1 - x0) * fine, int(y1 - y0) * fine)
    # The alpha channel rides along, so colour is not darkened at the rim by the black outside.
    rgba = np.dstack((patch.image, patch.alpha))
    if bend is None:
        warped = cv2.warpPerspective(rgba, moved, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        inside = cv2.warpPerspective(np.ones((h, w), np.float32), moved, size, flags=cv2.INTER_LINEAR)
    else:
        grid = np.stack(np.meshgrid(np.arange(size[0]), np.arange(size[1])), axis=-1).astype(np.float32)
        source = project(np.linalg.inv(moved), grid).astype(np.float32)
        source = _bent(source, patch.codes[0][1], *bend)
        warped = cv2.remap(rgba, source[..., 0], source[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        inside = cv2.remap(np.ones((h, w), np.float32), source[..., 0], source[..., 1], cv2.INTER_LINEAR)
    if fine > 1:
        warped, inside = (cv2.resize(part, (size[0] // fine, size[1] // fine), interpolation=cv2.INTER_AREA) for part in (warped, inside))
    alpha = (warped[..., 3] * inside)[..., None]
    view = image[y0:y1, x0:x1]
    view[:] = np.clip(view * (1 - alpha) + warped[..., :3] * (shade * alpha), 0, 255)


def _bent(points: np.ndarray, quad: np.ndarray, squeeze: float, arch: float, vertical: bool) -> np.ndarray:
    """Texture coordinates on a cylinder's side: compressed towards the edges, bowed along the axis."""
    middle, half = quad.mean(axis=0), np.ptp(quad, axis=0) / 2
    unit = (points - middle) / half
    p, q = (unit[..., 1], unit[..., 0]) if vertical else (unit[..., 0], unit[..., 1])
    p = np.clip(p, -2.5, 2.5)
    away = 1 - p * p
    p2, q2 = p - squeeze * p * away, q + arch * away
    unit = np.stack((q2, p2) if vertical else (p2, q2), axis=-1)
    return (unit * half + middle).astype(np.float32)


def _occlude(rng: Rng, image: np.ndarray, corners: np.ndarray) -> None:
    """A finger, a pen or a tear over a small part of the code."""
    side = np.linalg.norm(corners[1] - corners[0])
    edge = corners[rng.integers(4)] * (w := rng.uniform(0.2, 1.0)) + corners[rng.integers(4)] * (1 - w)
    outward = edge - corners.mean(axis=0)
    centre = edge + outward * rng.uniform(0.0, 0.35)
    axes = side * rng.uniform(0.06, 0.3, 2)
    tint = np.array([120, 150, 205]) * rng.uniform(0.4, 1.2) if rng.random() < 0.5 else colour(rng)
    angle = float(rng.uniform(0, 360))
    centre_i, axes_i = tuple(int(v) for v in centre), tuple(max(1, int(v)) for v in axes)
    cv2.ellipse(image, centre_i, axes_i, angle, 0, 360, np.clip(tint, 0, 255).tolist(), -1, cv2.LINE_AA)


def _shadows(rng: Rng, image: np.ndarray) -> np.ndarray:
    """Soft-edged darker regions: a hand's, a window frame's, a blind's."""
    h, w = image.shape[0] // 4, image.shape[1] // 4
    mask = np.zeros((h, w), np.float32)
    if rng.random() < 0.25:
        period = rng.integers(8, 60)
        mask[(np.arange(h) % period) < period // 2] = 1
    else:
        for _ in range(int(rng.integers(1, 4))):
            points = rng.uniform((0, 0), (w, h)) + rng.normal(0, 80, (int(rng.integers(3, 7)), 2))
            cv2.fillPoly(mask, [points.astype(np.int32)], 1.0)
    turn = cv2.getRotationMatrix2D((w / 2, h / 2), float(rng.uniform(0, 360)), 1.4)
    mask = cv2.GaussianBlur(cv2.warpAffine(mask, turn, (w, h)), (0, 0), rng.uniform(0.5, 12))
    gain = 1 - cv2.resize(mask, (image.shape[1], image.shape[0])) * rng.uniform(0.15, 0.65)
    return (image * gain[..., None]).astype(np.uint8)


def _overlaps(box: np.ndarray, taken: list[np.ndarray]) -> bool:
    return any((box[:2] < t[2:]).all() and (t[:2] < box[2:]).all() for t in taken)


class _Table:
    """A picture on which patches are laid, none over another."""

    def __init__(self, rng: Rng, held_out: bool):
        self.rng, self.image = rng, backgrounds.background(rng, HEIGHT, WIDTH, held_out)
        self.kept: list[tuple[Code, np.ndarray]] = []
        self._taken: list[np.ndarray] = []

    def place(self, patch: Patch, reference: np.ndarray, side_px: float, tries: int, fine: int = 1) -> None:
        """Somewhere, in a pose by chance, so that `reference` has that mean side."""
        for _ in range(tries):
            pose = random_pose(self.rng)
            centre = self.rng.uniform((-20, -20), (WIDTH + 20, HEIGHT + 20))
            if self._lay(patch, pose_patch(patch, pose, centre, side_px, reference), fine):
                return

    def place_close(self, patch: Patch, height: float, tries: int) -> None:
        """So that the patch's code is that many pixels high and, if it can be, wholly in the picture."""
        reference = patch.codes[0][1]
        for _ in range(tries):
            pose = random_pose(self.rng, steep=0.7)
            homography = pose_patch(patch, pose, np.zeros(2), 100, reference)
            if homography is None:
                continue
            extent = np.ptp(project(homography, reference), axis=0) / 100
            side = min(height / extent[1], 0.98 * WIDTH / extent[0])
            room = np.maximum(np.array([WIDTH, HEIGHT]) - extent * side, 0) / 2 + (20 if self.rng.random() < 0.2 else 0)
            centre = np.array([WIDTH, HEIGHT]) / 2 + self.rng.uniform(-1, 1, 2) * room
            if self._lay(patch, pose_patch(patch, pose, centre, side, reference), 1):
                return

    def _lay(self, patch: Patch, homography: np.ndarray | None, fine: int) -> bool:
        rng = self.rng
        if homography is None:
            return False
        quads = [project(homography, quad) for _, quad in patch.codes]
        h, w = patch.image.shape[:2]
        rim = project(homography, np.array([[0, 0], [w, 0], [w, h], [0, h]], np.float32))
        box = np.concatenate((rim.min(axis=0), rim.max(axis=0)))
        if _overlaps(box, self._taken):
            return False
        bend = None
        if len(quads) == 1 and rng.random() < 0.2:
            bend = (rng.uniform(0, 0.12), rng.uniform(-0.12, 0.12), bool(rng.random() < 0.5))
        lay(self.image, patch, homography, bend, float(rng.uniform(0.75, 1.05)), fine)
        self._taken.append(box)
        self.kept.extend((code, quad) for (code, _), quad in zip(patch.codes, quads))
        return True

    def place_negatives(self, count: int, smallest: float, largest: float, makers: backgrounds.Makers = backgrounds.HARD_NEGATIVES,
                        fine: int = 1) -> None:  # fmt: skip
        for _ in range(count):
            patch = negative_patch(self.rng, makers)
            h, w = patch.image.shape[:2]
            self.place(patch, _square(0, 0, min(h, w)), float(np.exp(self.rng.uniform(np.log(smallest), np.log(largest)))), 2, fine)

    def finish(self) -> Scene:
        rng, image = self.rng, self.image
        for _, quad in self.kept:
            if rng.random() < 0.12:
                _occlude(rng, image, quad)
        if rng.random() < 0.35:
            image = _shadows(rng, image)
        if len(self.kept) > MAX_CODES:  # one that is drawn and not told would count as a false alarm, and be taught as one
            raise ValueError(f"a scene has {len(self.kept)} codes, MAX_CODES is {MAX_CODES}")
        return Scene(
            image,
            np.array([quad for _, quad in self.kept], np.float32).reshape(-1, 4, 2),
            np.array([code.class_id for code, _ in self.kept], np.int64),
            np.array([code.size for code, _ in self.kept], np.float32),
        )


def make_scene(rng: Rng, bank: CodeBank, held_out: bool) -> Scene:
    """A scene of middling codes, boards and hard negatives."""
    table = _Table(rng, held_out)
    table.place_negatives(int(rng.integers(0, 7)), 30, 420)
    if rng.random() < 0.12:
        side = float(rng.uniform(40, 130))
        patch = board_patch(rng, bank, side)
        table.place(patch, patch.codes[0][1], side, 4)
    for _ in range(int(rng.integers(0, 4) if rng.random() < 0.25 else rng.integers(4, 18))):
        code = bank.draw(rng)
        lowest = max(34.0, 1.9 * code.size)
        side = float(np.exp(rng.uniform(np.log(lowest), np.log(560 if rng.random() < 0.35 else 200))))
        patch = single_patch(rng, code, side)
        table.place(patch, patch.codes[0][1], side, 6)
    return table.finish()


def make_far_scene(rng: Rng, bank: CodeBank, held_out: bool) -> Scene:
    """Many small codes: from 17 pixels and 0.6 pixels a module on."""
    table = _Table(rng, held_out)
    table.place_negatives(int(rng.integers(0, 6)), 20, 250, backgrounds.ALL_NEGATIVES)
    table.place_negatives(int(rng.integers(0, 8)), 12, 60, backgrounds.ALL_NEGATIVES, fine=2)
    for _ in range(int(rng.integers(6, _MOST_FAR_CODES + 1))):
        code = bank.draw(rng)
        lowest = max(17.0, 0.65 * code.size)
        side = float(np.exp(rng.uniform(np.log(lowest), np.log(max(64.0, 1.9 * code.size)))))
        patch = single_patch(rng, code, side)
        table.place(patch, patch.codes[0][1], side, 3, fine=3)
    return table.finish()


def make_close_scene(rng: Rng, bank: CodeBank, held_out: bool) -> Scene:
    """A code that fills 30 to 98 % of the picture's height, and little else."""
    table = _Table(rng, held_out)
    height = HEIGHT * rng.uniform(0.3, 0.98)
    patch = single_patch(rng, bank.draw(rng, QR if rng.random() < 0.6 else None), height)
    table.place_close(patch, height, 4)
    table.place_negatives(int(rng.integers(0, 4)), 40, 300, backgrounds.ALL_NEGATIVES)
    return table.finish()


def make_empty_scene(rng: Rng, bank: CodeBank, held_out: bool) -> Scene:
    """No code, but much that could be taken for one."""
    del bank
    table = _Table(rng, held_out)
    table.place_negatives(int(rng.integers(4, 15)), 40, 700, backgrounds.ALL_NEGATIVES)
    table.place_negatives(int(rng.integers(0, 20)), 12, 60, backgrounds.ALL_NEGATIVES, fine=2)
    return table.finish()


SCENE_KINDS = (make_scene, make_far_scene, make_close_scene, make_empty_scene)
_KIND_WEIGHT = (0.36, 0.24, 0.22, 0.18)


def make_training_scene(rng: Rng, bank: CodeBank) -> Scene:
    return SCENE_KINDS[rng.choice(len(SCENE_KINDS), p=_KIND_WEIGHT)](rng, bank, False)
