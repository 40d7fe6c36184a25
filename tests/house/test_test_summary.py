"""scripts/test_summary.py, fed with what ctest 3.25 writes."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import test_summary  # noqa: E402

SKIP = ("Note: Google Test filter = A.Skips\n[ RUN      ] A.Skips\ntests/a.cpp:7: Skipped\n"
        "there is no GPU\n\n[  SKIPPED ] A.Skips (0 ms)\n")


def junit(*cases):
    return f'<testsuite>{"".join(cases)}</testsuite>'


def case(name, status="run", inner=""):
    return f'<testcase name="{name}" status="{status}">{inner}</testcase>'


class TestSummary(unittest.TestCase):
    def test_counts_what_passed(self):
        self.assertEqual(test_summary.summary("dev", junit(case("a"), case("b"))), ["dev: 2 passed, 0 failed, 0 skipped"])

    def test_names_each_failure(self):
        text = test_summary.summary("dev", junit(case("a", "fail", '<failure message=""/>'), case("b")))
        self.assertEqual(text, ["dev: 1 passed, 1 failed, 0 skipped", "  failed: a"])

    def test_groups_skips_by_what_the_tests_said(self):
        inner = f'<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>{SKIP}</system-out>'
        cases = [case(name, "notrun", inner) for name in "abcde"]
        self.assertEqual(test_summary.summary("dev", junit(*cases)), [
            "dev: 0 passed, 0 failed, 5 skipped", "  skipped: a, b, c and 2 more: there is no GPU"])

    def test_says_when_a_test_gave_no_reason(self):
        text = test_summary.summary("dev", junit(case("a", "notrun", "<skipped/>")))
        self.assertEqual(text[1], "  skipped: a: it does not say why")

    def test_names_each_disabled_test(self):
        text = test_summary.summary("dev", junit(case("a", "disabled", "<skipped/>")))
        self.assertEqual(text, ["dev: 0 passed, 0 failed, 0 skipped, 1 disabled", "  disabled: a"])

    def test_counts_each_test_of_a_program_that_ran_several(self):
        output = ("[ RUN      ] A.Holds\n[       OK ] A.Holds (3 ms)\n[ RUN      ] A.Skips\na.cpp:7: Skipped\nthere is no GPU\n\n"
                  "[  SKIPPED ] A.Skips (0 ms)\n[  PASSED  ] 1 test.\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] A.Skips\n")
        text = test_summary.summary("asan", junit(case("room/part_1", inner=f"<system-out>{output}</system-out>"),
                                                  case("room/part_2")))
        self.assertEqual(text, ["asan: 2 passed, 0 failed, 1 skipped", "  skipped: room/A.Skips: there is no GPU"])

    def test_names_what_failed_and_what_never_ended_in_a_program_that_ran_several(self):
        output = ("[ RUN      ] A.Holds\n[       OK ] A.Holds (3 ms)\n[ RUN      ] A.Fails/2\na.cpp:9: Failure\n"
                  "[  FAILED  ] A.Fails/2, where GetParam() = 7 (1 ms)\n[ RUN      ] A.Crashes\nAddressSanitizer: of a null pointer\n")
        text = test_summary.summary("asan", junit(
            case("room/part_1", "fail", f'<failure message=""/><system-out>{output}</system-out>')))
        self.assertEqual(text, ["asan: 1 passed, 2 failed, 0 skipped", "  failed: room/A.Fails/2", "  failed: room/A.Crashes"])


if __name__ == "__main__":
    unittest.main()
