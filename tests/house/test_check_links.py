"""scripts/check_links.py, fed with small trees."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import check_links  # noqa: E402


class CheckLinks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def problems(self, files):
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        markdown = [self.root / name for name in files if name.endswith(".md")]
        return check_links.check(self.root, markdown) + check_links.check_paths(self.root, list(files))

    def test_a_link_leads_to_a_file_and_an_anchor_to_a_heading(self):
        self.assertEqual(self.problems({"a.md": "# One thing\n[b](b.md) [c](#one-thing) [d](#two)\n![p](p.svg)\n"}),
                         ["a.md:2: b.md: there is no such file", "a.md:2: #two: there is no such heading",
                          "a.md:3: p.svg: there is no such file"])

    def test_a_path_of_ours_in_markdown_exists(self):
        self.assertEqual(self.problems({"docs/a.md": "see `base/error.hpp` and `infer/old.cpp`\n", "base/error.hpp": ""}),
                         ["docs/a.md:1: infer/old.cpp: there is no such file"])

    def test_a_path_may_count_from_the_folder_of_its_page(self):
        self.assertEqual(self.problems({"docs/a.md": "`examples/one.yaml`\n", "docs/examples/one.yaml": ""}), [])

    def test_a_comment_is_looked_at_and_code_is_not(self):
        self.assertEqual(self.problems({"base/a.cpp": '#include "base/b.hpp"\nint a;  // as in base/c.hpp\n'}),
                         ["base/a.cpp:2: base/c.hpp: there is no such file"])

    def test_a_name_without_its_folder_is_that_of_some_file(self):
        self.assertEqual(self.problems({"base/a.cpp": "// as in b.cpp, run/c.cpp and d.cpp\n", "infer/run/c.cpp": "", "infer/b.cpp": ""}),
                         ["base/a.cpp:1: d.cpp: there is no such file"])

    def test_placeholders_headers_of_others_and_pages_of_the_past_are_left_alone(self):
        self.assertEqual(self.problems({"a.md": "`tests/EXAMPLE.json`, `lower_NAME.cpp`, `opencv2/core/version.hpp`\n",
                                        "docs/experiments.md": "`infer/gone.cpp`\n"}), [])


if __name__ == "__main__":
    unittest.main()
