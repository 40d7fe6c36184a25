// What camd decides for a model without a card, as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/daemon/run_camd.hpp"
#include "tests/infer/onnx_builder.hpp"
#include "tests/support/paths.hpp"

namespace camd::test {
namespace CAMD_TEST_FILE {

using testing::HasSubstr;
using testing::Not;

class CardOfAModel : public ::testing::Test {
 protected:
  CardOfAModel() { std::filesystem::copy_file(source_path("models/marker-640x360.onnx"), model_); }
  Finished check() {
    return run_camd({"check", folder_.write("c.yaml",
                                            "device: host\nmodel: {path: m.onnx}\ncameras: [{name: a, source: {type: "
                                            "test}}]\npostprocess: [{plugin: detections}]\n")});
  }
  TemporaryFolder folder_;
  std::string model_ = (folder_.path() / "m.onnx").string();
};

TEST_F(CardOfAModel, IsPrintedAndTakenOnceItLiesBesideTheModel) {
  const Finished without = check();
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_THAT(without.out, HasSubstr("the model has no card, and this was decided for it:\n"));
  EXPECT_THAT(without.out, HasSubstr("`camd config --for " + model_ + "` prints it as a card\n"));
  const Finished printed = run_camd({"config", "--for", model_});
  EXPECT_EQ(printed.code, 0) << printed.err;
  EXPECT_THAT(printed.out, HasSubstr("save it as m.yaml.\n"));
  EXPECT_THAT(printed.out, HasSubstr("\nlayout: anchors\n"));
  (void)folder_.write("m.yaml", printed.out);
  const Finished with = check();
  EXPECT_EQ(with.code, 0) << with.err;
  EXPECT_THAT(with.out, Not(HasSubstr("was decided for it")));
}

// The file's name has what YAML reads as something else.
TEST_F(CardOfAModel, IsDecidedWithoutAConfigurationWhenTheModelStandsInItsPlace) {
  const std::string odd = (folder_.path() / "a: {b} \"#\\.onnx").string();
  std::filesystem::copy_file(model_, odd);
  const Finished checked = run_camd({"check", odd});
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("the model has no card, and this was decided for it:\n"));
  EXPECT_THAT(checked.out, HasSubstr("layout: anchors"));
  EXPECT_EQ(run_camd({"check", odd, "--set", "model.engine=none"}).err,
            "--set model.engine: expected one of auto, cuda, cpu, opencv, found none\n");
  const Finished ran = run_camd({"run", odd, "--set", "device=host", "--frames", "2", "--metrics", "off"});
  EXPECT_EQ(ran.code, 0) << ran.err;
}

TEST_F(CardOfAModel, IsRefusedByCheckForTheReasonThatConfigGives) {
  infer::test::OnnxBuilder b;
  b.input("x", {1, 3, 64, 64}).weight("0", {}, {0}).node("ReduceMean", {"x"}, {"m"}).integer("keepdims", 0);
  b.weight("rows", {1, 300, 14}, std::vector<float>(std::size_t{300} * 14, 0)).node("Mul", {"m", "0"}, {"none"});
  (void)folder_.write("m.onnx", b.node("Add", {"none", "rows"}, {"y"}).output("y", {1, 300, 14}).bytes());
  const Finished printed = run_camd({"config", "--for", model_});
  EXPECT_THAT(printed.err, HasSubstr("hold nothing on a picture of noise"));
  const Finished checked = check();
  EXPECT_NE(checked.code, 0);
  EXPECT_THAT(checked.err, HasSubstr(printed.err));
}

// The picture that decides it is tried on the host, whatever the device is.
TEST_F(CardOfAModel, IsDecidedWithoutTheDeviceBeingToldTwice) {
  const Finished ran = run_camd({"run", model_, "--set", "device=host", "--frames", "2", "--metrics", "off"});
  const std::size_t told = ran.err.find("device: host, as configured\n");
  ASSERT_NE(told, std::string::npos) << ran.err;
  EXPECT_EQ(ran.err.find("device: host", told + 1), std::string::npos) << ran.err;
}

// What `camd check` and `camd run` decide of it counts for `camd doctor` as well.
TEST_F(CardOfAModel, IsTakenByDoctorToo) {
  const Finished looked = run_camd({"doctor", model_});
  EXPECT_THAT(looked.out, HasSubstr("detections       reads its outputs as configured\n"));
  EXPECT_THAT(looked.out, Not(HasSubstr("broken")));
}

TEST_F(CardOfAModel, IsRefusedInOneLineForAFileThatIsNotThere) {
  const Finished none = run_camd({"config", "--for", (folder_.path() / "none.onnx").string()});
  EXPECT_EQ(none.code, 3);
  EXPECT_EQ(none.out, "");
  EXPECT_THAT(none.err, HasSubstr("none.onnx: no such model file\n"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::test
