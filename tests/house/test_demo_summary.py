"""scripts/demo_summary.py, fed with small runs."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import demo_summary  # noqa: E402


def frame(index, latency_us, classes=()):
    return {"captured_mono_ns": index * 100_000_000, "latency_us": latency_us,
            "detections": [{"class": name} for name in classes]}


def stop(captured, delivered, superseded):
    return {"event": "stop", "cameras": [{"camera": "demo", "totals": {
        "captured": captured, "delivered": delivered, "in_flight": 0,
        "dropped": {"superseded": superseded, "too_old": 0}}}]}


class DemoSummary(unittest.TestCase):
    def test_counts_frames_rate_percentiles_and_detections(self):
        frames = [frame(i, 1000 * (i + 1), ["qr", "marker"] if i == 0 else ["qr"] if i == 1 else []) for i in range(100)]
        self.assertEqual(demo_summary.summary(frames, []), [
            "  frames      100 delivered, 10.0 a second",
            "  latency     p50 50.0 ms, p99 99.0 ms, from the capture stamp to the written line",
            "  detections  1 marker, 2 qr; in 2 of 100 frames",
        ])

    def test_shows_the_accounting_of_the_stop_line(self):
        text = demo_summary.summary([frame(0, 1000)], [{"event": "camera"}, stop(10, 8, 2)])
        self.assertEqual(text[-1], "  accounting  demo: 10 captured = 8 delivered + 2 dropped + 0 in flight; "
                                   "dropped: 2 superseded")

    def test_says_when_the_accounting_does_not_add_up(self):
        self.assertIn("DOES NOT ADD UP", demo_summary.summary([frame(0, 1000)], [stop(10, 8, 1)])[-1])

    def test_says_when_nothing_was_delivered(self):
        self.assertEqual(demo_summary.summary([], []), ["  no frame was delivered"])

    def test_one_frame_has_no_rate(self):
        self.assertEqual(demo_summary.summary([frame(5, 1500, ["qr"])], [])[0], "  frames      1 delivered")

    def test_leaves_out_a_line_that_was_cut_off(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.jsonl"
            path.write_text('{"a": 1}\n{"a": ')
            self.assertEqual(list(demo_summary.lines_of(path)), [{"a": 1}])


if __name__ == "__main__":
    unittest.main()
