"""scripts/check_hardening.py, fed with small programs."""

import platform
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import check_hardening  # noqa: E402

PROGRAM = """
#include <stdio.h>
int main(int argc, char** argv) {
  char text[64];
  snprintf(text, (size_t)argc, "%s", argv[0]);
  return printf("%s of %d\\n", text, argc);
}
"""
HARDENED = ["-O2", "-fPIE", "-pie", "-fstack-protector-strong", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2",
            "-Wl,-z,relro,-z,now,-z,noexecstack", *(["-fcf-protection"] if platform.machine() == "x86_64" else [])]


@unittest.skipUnless(shutil.which("cc") and shutil.which("readelf"), "no compiler")
class CheckHardening(unittest.TestCase):
    def problems(self, *flags):
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder) / "a.c", Path(folder) / "a"
            source.write_text(PROGRAM)
            subprocess.run(["cc", *HARDENED, *flags, "-o", program, source], check=True)
            return check_hardening.problems(str(program))

    def test_accepts_what_has_it_all(self):
        self.assertEqual(self.problems(), [])

    def test_names_each_thing_that_is_missing(self):
        self.assertEqual(self.problems("-fno-pie", "-no-pie"), ["is not position independent (-fPIE -pie)"])
        self.assertEqual(self.problems("-Wl,-z,lazy"), ["binds symbols while it runs (-z now)"])
        self.assertEqual(self.problems("-Wl,-z,execstack"), ["has an executable stack (-z noexecstack)"])
        self.assertEqual(self.problems("-fno-stack-protector"),
                         ["guards no array on the stack (-fstack-protector-strong)"])
        self.assertEqual(self.problems("-U_FORTIFY_SOURCE"), ["calls printf without a size (_FORTIFY_SOURCE=2)"])

    @unittest.skipUnless(platform.machine() == "x86_64", "x86-64 only")
    def test_wants_places_for_indirect_jumps(self):
        self.assertEqual(self.problems("-fcf-protection=none"),
                         ["main() is no place for an indirect jump, 1 such (-fcf-protection)"])


if __name__ == "__main__":
    unittest.main()
