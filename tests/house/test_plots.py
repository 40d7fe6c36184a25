"""The measurement files of the manual, and the plots that scripts/plots.py draws from them."""

import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import measurement  # noqa: E402
import plots  # noqa: E402

IMAGES = ROOT / "docs/images"
HOW = "; python3 scripts/plots.py draws it again (Debian: python3-matplotlib)"

try:
    import matplotlib
    MATPLOTLIB = matplotlib.__version__
except ImportError:
    MATPLOTLIB = ""


def drawn_with(svg: str) -> str:
    """The version of matplotlib that an SVG names."""
    return re.search(r"Matplotlib v([0-9.]+)", svg).group(1).rstrip(".")


class Measurements(unittest.TestCase):
    def test_each_file_says_what_was_measured_where_when_and_how(self):
        files = sorted(plots.MEASUREMENTS.glob("*.json"))
        self.assertTrue(files)
        for file in files:
            with self.subTest(file.name):
                document = json.loads(file.read_text(encoding="utf-8"))
                for key in measurement.KEYS:
                    self.assertTrue(document[key].strip(), key)
                self.assertTrue(document["rows"])
                self.assertEqual(file.read_text(encoding="utf-8"), measurement.text(document))

    def test_figures_are_not_negative_and_percentiles_ascend(self):
        for file in sorted(plots.MEASUREMENTS.glob("*.json")):
            for number, row in enumerate(json.loads(file.read_text(encoding="utf-8"))["rows"]):
                for key, value in row.items():
                    with self.subTest(f"{file.name}, row {number}, {key}"):
                        if isinstance(value, list):
                            self.assertEqual(value, sorted(value))
                            self.assertGreaterEqual(value[0], 0)
                        elif isinstance(value, (int, float)):
                            self.assertGreaterEqual(value, 0)


class RowsOfARun(unittest.TestCase):
    """What scripts/measure_gpu.py makes of a run is what the committed files hold."""

    def bench_row(self, strategy, direct=0):
        def times(us):
            return {"p50": us + 0.4, "p99": us + 9.6, "p999": us + 20}

        return {"strategy": strategy, "e2e_us": times(158 - direct), "h2d_us": times(31), "preprocess_us": times(16),
                "infer_us": times(79), "d2h_us": times(25), "fps": 12945.7, "h2d_bytes": 1382400, "d2h_bytes": 1211328}

    def committed(self, name):
        return json.loads((plots.MEASUREMENTS / name).read_text(encoding="utf-8"))["rows"]

    def test_bench_rows_are_rounded_and_have_the_keys_of_the_committed_files(self):
        row = measurement.bench_rows([self.bench_row("graph")], extra={"pictures": "NV12", "outputs": "f16"})[0]
        self.assertEqual(row, {"pictures": "NV12", "outputs": "f16", "strategy": "graph", "host_to_host": [158, 168], "h2d": [31, 41],
                               "preprocess": [16, 26], "network": [79, 89], "d2h": [25, 35], "frames_per_second": 12946,
                               "bytes_up": 1382400, "bytes_down": 1211328})
        self.assertEqual([list(row)], [list(keys) for keys in {tuple(r) for r in self.committed("gpu-strategies.json")}])
        paced = measurement.bench_rows([self.bench_row("graph")], ("p50", "p99", "p999"))[0]
        self.assertEqual(paced["host_to_host"], [158, 168, 178])
        self.assertEqual([list(paced)], [list(keys) for keys in {tuple(r) for r in self.committed("gpu-paced.json")}])

    def test_peers_are_the_rows_of_the_committed_file_in_its_order(self):
        torch = [{"strategy": name, "e2e_us": {"p50": 1000, "p99": 1001}} for name in reversed(measurement.TORCH)]
        rows = measurement.peer_rows([self.bench_row("graph"), self.bench_row("graph-direct", direct=9)], torch)
        self.assertEqual([row["name"] for row in rows], [row["name"] for row in self.committed("gpu-peers.json")])
        self.assertEqual(rows[0]["host_to_host"], [149, 159])
        self.assertEqual(len(measurement.peer_rows([self.bench_row("graph"), self.bench_row("graph-direct")], torch[:-1])), 6)


class Plots(unittest.TestCase):
    def test_each_plot_is_committed_and_shown_with_a_text_for_who_does_not_see_it(self):
        shown = dict((name, text) for text, name in
                     re.findall(r"!\[([^\]]*)\]\(images/([\w-]+\.svg)\)", (ROOT / "docs/performance.md").read_text(encoding="utf-8")))
        self.assertEqual(sorted(shown), sorted(plots.PLOTS))
        for name, text in shown.items():
            self.assertTrue((IMAGES / name).exists(), name + HOW)
            self.assertGreater(len(text), 20, name)

    def test_each_plot_was_drawn_from_the_measurement_files_as_they_are(self):
        for name, (_, sources, _) in plots.PLOTS.items():
            with self.subTest(name):
                source = re.search(r"<dc:source>(.*)</dc:source>", (IMAGES / name).read_text(encoding="utf-8")).group(1)
                self.assertEqual(source, plots.source_of(sources), name + " is out of date" + HOW)

    @unittest.skipUnless(MATPLOTLIB, "python3-matplotlib is not installed")
    def test_the_script_draws_the_committed_bytes(self):
        committed = {name: (IMAGES / name).read_text(encoding="utf-8") for name in plots.PLOTS}
        versions = {drawn_with(svg) for svg in committed.values()}
        if versions != {MATPLOTLIB}:
            self.skipTest(f"drawn with matplotlib {', '.join(sorted(versions))}, and this is {MATPLOTLIB}")
        with tempfile.TemporaryDirectory() as folder:
            plots.draw(Path(folder))
            for name, svg in committed.items():
                self.assertTrue((Path(folder) / name).read_text(encoding="utf-8") == svg, name + " is out of date" + HOW)


if __name__ == "__main__":
    unittest.main()
