// Plug-ins in worker processes that read outputs where the GPU left them, with a driver library that stands in for
// NVIDIA's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "device/exported_memory.hpp"
#include "tests/device/exported_file.hpp"
#include "tests/pipeline/plugin_chain.hpp"
#include "tests/support/python.hpp"
#include "tests/support/sanitized.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using testing::HasSubstr;

class RemoteGpu : public testing::Test {
 protected:
  void SetUp() override {
    values()[0] = 0.25F;
    spec_ = isolated("device");
    spec_.isolation.gpu = true;
  }
  [[nodiscard]] float* values() const noexcept { return reinterpret_cast<float*>(memory_.data()); }
  [[nodiscard]] const void* address() const noexcept { return memory_.data(); }
  std::string refusal() {
    try {
      const Chain chain({spec_}, {}, {"door"}, kFewValues, values());
    } catch (const base::Error& error) {
      return error.what();
    }
    return "";
  }
  void use_python() {
    spec_.plugin = test::source_dir() + "/tests/plugins/python/faults.py";
    spec_.config_json = R"({"how":"device"})";
    spec_.isolation.python = test::python();
  }
  const test::FakeDriver driver_;
  const device::DeviceBuffer memory_ = test::ExportedFile::make(test::ExportedFile::kSize);
  PluginSpec spec_;
};

TEST_F(RemoteGpu, OpensOutputsThatStayThereAndCopiesNothing) {
  Chain chain({spec_}, {}, {"door"}, kFewValues, values());
  EXPECT_EQ(chain.host.needs().device_outputs, std::vector<bool>{true});
  EXPECT_EQ(chain.host.needs().exported_outputs, std::vector<bool>{true});
  ASSERT_EQ(chain.process(), "");
  EXPECT_EQ(chain.items[0].score, 0.25F);
  EXPECT_NE(chain.items[0].class_id, getpid());
  chain.values[0] = 0.5F;
  ASSERT_EQ(chain.process(), "");
  EXPECT_EQ(chain.items[0].score, 0.5F);
  EXPECT_EQ(chain.health().bytes_copied, 0U);
}

TEST_F(RemoteGpu, OpensThemAgainInTheNextProcess) {
  Chain chain({spec_}, never_given_up(), {"door"}, kFewValues, values());
  ASSERT_EQ(chain.process(), "");
  ASSERT_EQ(kill(chain.items[0].class_id, SIGKILL), 0);
  while (chain.health().restarts == 0) (void)chain.process();
  (void)chain.lost_until_back();
  EXPECT_EQ(chain.items[0].score, 0.25F);
}

TEST_F(RemoteGpu, GivesPythonATensorThatDlpackExports) {
  if (test::kSanitized) GTEST_SKIP() << "an interpreter without the sanitizer cannot load a library with it";
  if (!test::python_has("numpy")) GTEST_SKIP() << test::python() << " has no NumPy (python3-numpy)";
  use_python();
  Chain chain({spec_}, {}, {"door"}, kFewValues, values());
  ASSERT_EQ(chain.process(), "");
  EXPECT_EQ(chain.items[0].score, 0.25F);
}

TEST_F(RemoteGpu, WritesNoFileThatIsNotGranted) {
  spec_.config_json = R"({"how":"opens","at":0,"path":"/tmp/camd-never"})";
  Chain chain({spec_}, {}, {"door"}, kFewValues, values());
  EXPECT_THAT(chain.process(),
              HasSubstr("it is confined and may not write /tmp/camd-never: allow: [\"files: /tmp/\"]"));
}

TEST_F(RemoteGpu, SaysWhatIsMissing) {
  device::forget_exported(address());
  EXPECT_THAT(refusal(), HasSubstr("where another process cannot open it: isolation: none"));
  device::note_exported(address(), test::handle_of("/nowhere"));
  EXPECT_THAT(refusal(), HasSubstr("cuIpcOpenMemHandle() failed: CUDA_ERROR_INVALID_VALUE (1)"));
  spec_.isolation.gpu = false;
  EXPECT_THAT(refusal(), HasSubstr("asks for an output where the GPU left it: allow: [gpu], or isolation: none"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
