"""QR codes and fiducial markers as small module grids, rendered by OpenCV, split so that validation is unseen."""

from __future__ import annotations

import string
from dataclasses import dataclass

import cv2
import numpy as np

CLASSES = ("qr", "marker")
QR, MARKER = 0, 1
QR_BORDER = 2  # modules of white that OpenCV's encoder leaves around the symbol

# Bytes that fit at the strongest error correction, versions 1 to 10 (ISO/IEC 18004, table 7).
_QR_CAPACITY = (7, 14, 24, 34, 44, 58, 64, 84, 98, 119)
_QR_VERSION_WEIGHT = (0.14, 0.19, 0.2, 0.16, 0.11, 0.07, 0.05, 0.04, 0.02, 0.02)

_DICTIONARIES = tuple(
    (getattr(cv2.aruco, name), ids)
    for name, ids in (
        ("DICT_4X4_1000", 1000), ("DICT_5X5_1000", 1000), ("DICT_6X6_1000", 1000), ("DICT_7X7_1000", 1000),
        ("DICT_ARUCO_ORIGINAL", 1024), ("DICT_APRILTAG_16h5", 30), ("DICT_APRILTAG_25h9", 35),
        ("DICT_APRILTAG_36h11", 587),
    )
)  # fmt: skip
_DICTIONARY_WEIGHT = (0.24, 0.16, 0.16, 0.06, 0.08, 0.06, 0.06, 0.18)
# Every tenth id belongs to validation and the demo, the others to training.
_HELD_OUT_DIGIT = 7


@dataclass(frozen=True)
class Code:
    """One symbol: class and its modules, u8 [n, n], 255 light and 0 dark, without any quiet zone."""

    class_id: int
    modules: np.ndarray
    text: str

    @property
    def size(self) -> int:
        return len(self.modules)


def random_text(rng: np.random.Generator, length: int) -> str:
    alphabets = (string.ascii_letters + string.digits, string.digits, string.ascii_uppercase + string.digits + " $%*+-./:")
    alphabet = alphabets[rng.integers(len(alphabets))]
    text = "".join(alphabet[i] for i in rng.integers(0, len(alphabet), length))
    prefix = ("", "http://", "https://")[rng.integers(3)]
    return (prefix + text)[:length]


def make_qr(text: str, version: int, level: int) -> Code:
    """level: 0 L, 1 M, 2 Q, 3 H."""
    params = cv2.QRCodeEncoder.Params() if hasattr(cv2.QRCodeEncoder, "Params") else cv2.QRCodeEncoder_Params()
    params.version, params.correction_level = version, level
    picture = cv2.QRCodeEncoder.create(params).encode(text)
    modules = picture[QR_BORDER:-QR_BORDER, QR_BORDER:-QR_BORDER]
    if modules.shape[0] != 17 + 4 * version:
        raise ValueError(f"version {version} came out as {modules.shape[0]} modules")
    return Code(QR, np.ascontiguousarray(modules), text)


def make_marker(dictionary: int, marker_id: int, border: int = 1) -> Code:
    table = cv2.aruco.getPredefinedDictionary(dictionary)
    modules = cv2.aruco.generateImageMarker(table, marker_id, table.markerSize + 2 * border, borderBits=border)
    return Code(MARKER, modules, f"{dictionary}:{marker_id}")


def random_qr(rng: np.random.Generator) -> Code:
    version = int(rng.choice(10, p=_QR_VERSION_WEIGHT)) + 1
    length = int(rng.integers(3, _QR_CAPACITY[version - 1] + 1))
    return make_qr(random_text(rng, length), version, int(rng.integers(4)))


def random_marker(rng: np.random.Generator, held_out: bool) -> Code:
    dictionary, count = _DICTIONARIES[rng.choice(len(_DICTIONARIES), p=_DICTIONARY_WEIGHT)]
    while True:
        # Low ids are what people print first.
        limit = min(count, 50) if rng.random() < 0.5 else count
        marker_id = int(rng.integers(limit))
        if (marker_id % 10 == _HELD_OUT_DIGIT) == held_out:
            return make_marker(dictionary, marker_id, 2 if rng.random() < 0.04 else 1)


class CodeBank:
    """A fixed number of codes made once; drawing from it costs nothing."""

    def __init__(self, seed: int, held_out: bool, qr_count: int, marker_count: int):
        rng = np.random.default_rng((seed, 101 if held_out else 100))
        self._qr = [random_qr(rng) for _ in range(qr_count)]
        self._markers = [random_marker(rng, held_out) for _ in range(marker_count)]

    def draw(self, rng: np.random.Generator, class_id: int | None = None) -> Code:
        if class_id is None:
            class_id = QR if rng.random() < 0.5 else MARKER
        bank = self._qr if class_id == QR else self._markers
        return bank[rng.integers(len(bank))]
