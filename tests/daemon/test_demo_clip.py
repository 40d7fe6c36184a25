"""The demonstration as its users run it: every code of the clip is found and read, objects have numbers, the zone counts.

  test_demo_clip.py CAMD
"""

import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "models" / "marker"))
import check_demo  # noqa: E402

CAMD = str(Path(sys.argv.pop(1)).resolve())


class DemoClip(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        # Each frame of the clip once, as fast as they can be had; and no film, which would leave pictures out then.
        text = (SOURCE / "docs/examples/demo.yaml").read_text().replace("../../", f"{SOURCE}/")
        text = re.sub(r"  - plugin: annotate\n.*", "", text.replace("loop: true", "realtime: false"), flags=re.S)
        (Path(cls.folder.name) / "demo.yaml").write_text(text)
        subprocess.run([CAMD, "run", "demo.yaml", "--metrics", "off"], cwd=cls.folder.name, check=True, timeout=120)
        cls.lines = Path(cls.folder.name) / "out/detections.jsonl"
        cls.frames = [json.loads(line) for line in cls.lines.read_text().splitlines()]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_code_is_found_and_read_and_no_other_text_is(self):
        self.assertTrue(check_demo.report(check_demo.read_jsonl(self.lines), SOURCE / "models/demo/truth.csv"))
        texts = {d["text"] for frame in self.frames for d in frame["detections"] if "text" in d}
        self.assertEqual(texts, set(check_demo.TEXTS.values()))

    def test_a_code_that_is_never_covered_keeps_its_number(self):
        numbers = {d["track_id"] for frame in self.frames for d in frame["detections"] if d.get("text") == "apriltag_36h11:7"}
        self.assertEqual(len(numbers), 1)

    def test_the_zone_counts_who_enters_and_the_line_who_crosses(self):
        events = [event for frame in self.frames for event in frame.get("events", [])]
        inside = [e["numbers"]["inside"] for e in events if e["name"] in ("zone_entered", "zone_left")]
        self.assertGreaterEqual(max(inside), 3)  # both boxes and the cart stand on the desk
        crossed = [e["numbers"]["direction"] for e in events if e["name"] == "line_crossed" and e["zone"] == "middle"]
        self.assertIn(1, crossed)  # the card goes from the left to the right
        self.assertEqual(len({frame["seq"] for frame in self.frames}), 300)


if __name__ == "__main__":
    unittest.main()
