"""scripts/check_streams.py, fed with small trees."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import check_streams  # noqa: E402


class CheckStreams(unittest.TestCase):
    def problems(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.parent.mkdir(parents=True)
            path.write_text(text)
            return check_streams.check(Path(folder))

    def test_names_file_line_and_remedy_of_a_call_on_the_default_stream(self):
        self.assertEqual(
            self.problems("device/cuda/a.cpp", "// cudaMemset(\ncudaMemset(word, 0, 4);\n"),
            ["device/cuda/a.cpp:2: cudaMemset() works on the default stream, for which our streams do not wait: "
             "use cudaMemsetAsync()"])
        self.assertEqual(len(self.problems("infer/cuda/kernels/a.cu", "cudaMemcpy (to, from, 4, kind);\n")), 1)
        self.assertEqual(len(self.problems("infer/cuda/a.cpp", "cudaMemcpyToSymbol(to, from, 4);\n")), 1)

    def test_accepts_calls_that_name_their_stream(self):
        self.assertEqual(
            self.problems("device/cuda/a.cu", "cudaMemsetAsync(word, 0, 4, stream);\nk<<<1, 32, 0, stream>>>(word);\n"),
            [])

    def test_wants_a_stream_of_every_launch(self):
        self.assertEqual(
            self.problems("infer/cuda/kernels/a.cu", "k<<<1, 32>>>(word);\n"),
            ["infer/cuda/kernels/a.cu:1: a kernel is launched without a stream: "
             "<<<grid, block, shared bytes, stream>>>"])

    def test_leaves_other_folders_alone(self):
        self.assertEqual(self.problems("tests/pipeline/a.cpp", "cudaMemcpy(to, from, 4, kind);\n"), [])


if __name__ == "__main__":
    unittest.main()
