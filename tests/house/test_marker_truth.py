"""What the reference detector's drawn pictures say of the codes that they show. Needs the packages that training needs."""

import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models/marker"))

try:
    import cv2  # noqa: F401
    import numpy as np
    import torch
    import yaml  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}; models/README.md names the packages")
    sys.exit(77)

import scene  # noqa: E402
import views  # noqa: E402
from codes import CodeBank  # noqa: E402

WIDTH, HEIGHT = scene.WIDTH, scene.HEIGHT


def square(left: float, top: float, side: float) -> np.ndarray:
    return np.array([[left, top], [left + side, top], [left + side, top + side], [left, top + side]], np.float32)


class Scenes(unittest.TestCase):
    def table_of(self, codes: int) -> scene._Table:
        table = scene._Table(np.random.default_rng(1), True)
        code = CodeBank(1, held_out=True, qr_count=1, marker_count=1).draw(np.random.default_rng(1))
        table.kept = [(code, square(30.0 * i, 40, 20)) for i in range(codes)]
        return table

    def test_tell_each_code_of_a_board_of_sixteen_and_of_seventeen_others(self):
        self.assertEqual(len(self.table_of(33).finish().classes), 33)

    def test_with_more_codes_than_they_can_tell_are_refused(self):
        with self.assertRaisesRegex(ValueError, "a scene has 34 codes, MAX_CODES is 33"):
            self.table_of(34).finish()


class Views(unittest.TestCase):
    def share(self, quad: np.ndarray, moved: np.ndarray | None = None) -> float:
        corners = torch.from_numpy(quad)[None, None]
        there = corners if moved is None else torch.from_numpy(moved)[None, None]
        return views._visible_share(corners, there, (HEIGHT, WIDTH), torch.tensor([[0.0, WIDTH]]), HEIGHT).item()

    def test_show_the_whole_of_a_code_that_lies_in_scene_and_view(self):
        self.assertEqual(self.share(square(100, 100, 80)), 1.0)

    def test_show_nothing_of_a_code_where_the_scene_has_ended(self):
        # Half of it was drawn; the view shows the place of all of it.
        self.assertEqual(self.share(square(WIDTH - 40.5, 100, 80), square(500, 100, 80)), 0.5)

    def test_show_nothing_of_a_code_beyond_their_own_edge(self):
        self.assertEqual(self.share(square(500, 100, 80), square(-40, 100, 80)), 0.5)


if __name__ == "__main__":
    unittest.main()
