"""scripts/check_layers.py, fed with small trees."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import check_layers  # noqa: E402


class CheckLayers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for header in ("base/error.hpp", "config/config.hpp", "device/device.hpp", "capture/frame.hpp",
                       "infer/engine.hpp", "pipeline/core/pipeline.hpp", "plugins/camd_plugin.h", "plugins/builtin.hpp",
                       "plugins/draw.hpp"):
            self.write(header, "#pragma once\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def problems(self, name, text):
        self.write(name, text)
        return check_layers.check(self.root)

    def test_accepts_includes_down_the_layers(self):
        self.assertEqual(self.problems("capture/a.cpp", '#include "capture/frame.hpp"\n#include "device/device.hpp"\n'
                                       '#include "config/config.hpp"\n#include "base/error.hpp"\n#include <vector>\n'), [])

    def test_names_file_line_and_rule_of_an_include_against_the_layers(self):
        self.assertEqual(self.problems("base/a.cpp", '// a\n#include "config/config.hpp"\n'),
                         ['base/a.cpp:2: "config/config.hpp": base must not know config; '
                          'it may include nothing of ours'])

    def test_capture_does_not_see_infer(self):
        self.assertEqual(len(self.problems("capture/a.cpp", '#include "infer/engine.hpp"\n')), 1)

    def test_infer_does_not_see_capture(self):
        self.assertEqual(len(self.problems("infer/a.cpp", '#include "capture/frame.hpp"\n')), 1)

    def test_apps_reach_devices_only_through_the_pipeline(self):
        self.assertEqual(self.problems("apps/camd/a.cpp", '#include "pipeline/core/pipeline.hpp"\n'), [])
        self.assertEqual(len(self.problems("apps/camd/a.cpp", '#include "device/device.hpp"\n')), 1)

    def test_plug_ins_know_only_their_own_folder(self):
        self.assertEqual(self.problems("plugins/jsonl.cpp", '#include "plugins/draw.hpp"\n#include "camd_plugin.h"\n'), [])
        self.assertEqual(len(self.problems("plugins/jsonl.cpp", '#include "base/error.hpp"\n')), 1)

    def test_pipeline_sees_the_plug_in_interface_but_not_the_plug_ins(self):
        self.assertEqual(self.problems("pipeline/a.cpp",
                                       '#include "plugins/camd_plugin.h"\n#include "plugins/builtin.hpp"\n'), [])
        self.assertEqual(len(self.problems("pipeline/a.cpp", '#include "plugins/draw.hpp"\n')), 1)

    def test_cuda_headers_stay_in_the_cuda_folders(self):
        self.assertEqual(self.problems("device/cuda/a.cpp", "#include <cuda_runtime.h>\n"), [])
        self.assertEqual(self.problems("pipeline/a.cpp", "#include <cuda_runtime.h>\n"),
                         ["pipeline/a.cpp:1: <cuda_runtime.h>: CUDA headers belong in device/cuda/ and infer/cuda/ only"])

    def test_a_test_may_include_what_its_room_may(self):
        self.assertEqual(self.problems("tests/capture/a.cpp", '#include "device/device.hpp"\n'), [])
        self.assertEqual(len(self.problems("tests/capture/a.cpp", '#include "infer/engine.hpp"\n')), 1)

    def test_a_test_may_name_a_neighbour(self):
        self.write("tests/capture/pictures.hpp", "#pragma once\n")
        self.assertEqual(self.problems("tests/capture/a.cpp", '#include "pictures.hpp"\n'), [])

    def test_relative_and_missing_paths_are_refused(self):
        text = '#include "frame.hpp"\n#include "../base/error.hpp"\n#include "capture/none.hpp"\n'
        self.assertEqual(len(self.problems("capture/a.cpp", text)), 3)

    def test_base_keeps_to_its_short_list_of_libraries(self):
        self.assertEqual(self.problems("base/a.cpp", "#include <fmt/format.h>\n#include <openssl/evp.h>\n"), [])
        self.assertEqual(len(self.problems("base/a.cpp", "#include <gst/gst.h>\n")), 1)

    def test_wings_of_a_room_know_only_the_wings_below_them(self):
        self.write("infer/graph/graph.hpp", "#pragma once\n")
        self.write("infer/cpu/cpu_engine.hpp", "#pragma once\n")
        self.assertEqual(self.problems("infer/cpu/a.cpp", '#include "infer/graph/graph.hpp"\n'), [])
        self.assertEqual(self.problems("infer/graph/a.cpp", '#include "infer/cpu/cpu_engine.hpp"\n'),
                         ['infer/graph/a.cpp:1: "infer/cpu/cpu_engine.hpp": infer/graph must not know infer/cpu; '
                          "it may include onnx"])

    def test_a_source_in_the_room_itself_may_put_wings_together_and_a_header_may_not(self):
        self.write("infer/cpu/cpu_engine.hpp", "#pragma once\n")
        self.assertEqual(self.problems("infer/engine.cpp", '#include "infer/cpu/cpu_engine.hpp"\n'), [])
        self.assertEqual(len(self.problems("infer/other.hpp", '#include "infer/cpu/cpu_engine.hpp"\n')), 1)

    def test_every_wing_sees_the_headers_of_its_room(self):
        self.assertEqual(self.problems("infer/cuda/plan/a.cpp", '#include "infer/engine.hpp"\n'), [])


if __name__ == "__main__":
    unittest.main()
