"""scripts/check_packages.py, fed with small CMake files."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import check_packages  # noqa: E402


class CheckPackages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "cmake").mkdir()
        (self.root / "scripts").mkdir()

    def problems(self, cmake, packages):
        (self.root / "cmake/Deps.cmake").write_text(cmake)
        (self.root / "scripts/packages.txt").write_text(packages)
        return check_packages.check(self.root)

    def test_accepts_what_has_a_row(self):
        cmake = "find_package(fmt REQUIRED)\npkg_check_modules(GST REQUIRED IMPORTED_TARGET\n  a-1.0>=1.22 b-1.0)\n"
        self.assertEqual(self.problems(cmake, "libfmt-dev demo find_package(fmt)\nliba demo pkg(a-1.0) pkg(b-1.0)\n"), [])

    def test_names_file_and_line_of_what_has_none(self):
        self.assertEqual(self.problems("# a\nfind_package(fmt REQUIRED)\n", "g++ demo compiler\n"),
                         ["cmake/Deps.cmake:2: find_package(fmt) has no row in scripts/packages.txt"])

    def test_asks_for_each_module_of_opencv(self):
        problems = self.problems("find_package(OpenCV 4 REQUIRED COMPONENTS core dnn)\n",
                                 "libopencv-core-dev demo find_package(OpenCV:core)\n")
        self.assertEqual(problems, ["cmake/Deps.cmake:1: find_package(OpenCV:dnn) has no row in scripts/packages.txt"])

    def test_is_content_with_one_of_several_names(self):
        cmake = "find_path(D NAMES a.h b.h PATH_SUFFIXES x REQUIRED)\n"
        self.assertEqual(self.problems(cmake, "libb demo find_path(b.h)\n"), [])
        self.assertEqual(len(self.problems(cmake, "libc demo find_path(c.h)\n")), 1)

    def test_does_not_take_a_comment_for_a_row(self):
        self.assertEqual(len(self.problems("find_package(fmt)\n", "# libfmt-dev demo find_package(fmt)\n")), 1)


if __name__ == "__main__":
    unittest.main()
