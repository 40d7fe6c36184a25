#include "config/model_card.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/config/helpers.hpp"

namespace camd::config {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;

constexpr std::string_view kCard =
    "name: marker\n"
    "layout: anchors\n"
    "classes: [qr, 7]\n"
    "input: {color: rgb, mean: [1, 2, 3], scale: 0.5, resize: letterbox, position: top_left, pad: 0}\n"
    "score: 0.5\n"
    "nms: 0.4\n"
    "strides: [8, 16, 32]\n"
    "anchors: [[16, 32], [64, 128], [256, 512]]\n"
    "anchor_offset: 0.5\n"
    "variances: [0.1, 0.2]\n"
    "keypoints: 5\n";

class ModelCardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / ("camd_card_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] Config load_model(const std::string& model, const std::string& postprocess = "[]") const {
    return load_text(
        (folder_ / "c.yaml").string(),
        "model: " + model + "\ncameras: [{name: a, source: {type: test}}]\npostprocess: " + postprocess + "\n", {},
        kNoFiles);
  }
  std::filesystem::path folder_;
};

TEST_F(ModelCardTest, HoldsWhatItsFileSays) {
  write_file(folder_ / "m.yaml", kCard);
  const ModelCard card = load_model_card(folder_ / "m.yaml", card_keys());
  EXPECT_EQ(card.name, "marker");
  EXPECT_EQ(card.input,
            (ModelInput{std::nullopt, std::nullopt, ColorOrder::kRgb, std::array{1.0F, 2.0F, 3.0F},
                        std::array{0.5F, 0.5F, 0.5F}, ResizeMode::kLetterbox, LetterboxPosition::kTopLeft, 0.0F}));
  EXPECT_EQ(card.rest_json,
            R"({"anchor_offset":0.5,"anchors":[[16,32],[64,128],[256,512]],"classes":["qr","7"],"keypoints":5,)"
            R"("layout":"anchors","nms":0.4,"score":0.5,"strides":[8,16,32],"variances":[0.1,0.2]})");
}

TEST_F(ModelCardTest, IsFoundBesideTheModelByItsNameWithOrWithoutSize) {
  write_file(folder_ / "marker.yaml", kCard);
  EXPECT_EQ(find_model_card(folder_ / "marker.onnx"), folder_ / "marker.yaml");
  EXPECT_EQ(find_model_card(folder_ / "marker-640x360.onnx"), folder_ / "marker.yaml");
  EXPECT_EQ(find_model_card(folder_ / "marker-640x.onnx"), std::nullopt);
  EXPECT_EQ(find_model_card(folder_ / "marker-big.onnx"), std::nullopt);
  EXPECT_EQ(find_model_card(folder_ / "other.onnx"), std::nullopt);
  write_file(folder_ / "marker-640x360.yaml", kCard);
  EXPECT_EQ(find_model_card(folder_ / "marker-640x360.onnx"), folder_ / "marker-640x360.yaml");
}

TEST_F(ModelCardTest, CompletesTheInputButTheFileWins) {
  write_file(folder_ / "m.yaml", kCard);
  const Config config = load_model("{path: m-64x32.onnx, input: {color: bgr, width: 64}}",
                                   "[{plugin: detections, config: {score: 0.9}}]");
  EXPECT_EQ(config.model.card, folder_ / "m.yaml");
  EXPECT_EQ(config.model.input,
            (ModelInput{64, std::nullopt, ColorOrder::kBgr, std::array{1.0F, 2.0F, 3.0F}, std::array{0.5F, 0.5F, 0.5F},
                        ResizeMode::kLetterbox, LetterboxPosition::kTopLeft, 0.0F}));
  EXPECT_EQ(config.model.card_json, load_model_card(folder_ / "m.yaml", card_keys()).rest_json);
  EXPECT_EQ(config.postprocess[0].config_json, R"({"score":0.9})");
  EXPECT_EQ(config.at("model.input.mean", "x"), (folder_ / "m.yaml").string() + ":4:27: model.input.mean: x");
  EXPECT_EQ(config.at("model.input.width", "x"), (folder_ / "c.yaml").string() + ":1:56: model.input.width: x");
}

TEST_F(ModelCardTest, SaysWhereTheModelIsCutUnlessTheFileDoes) {
  write_file(folder_ / "m.yaml", "layout: ssd\ncut_at: [scores, 7]\n");
  const Config config = load_model("{path: m.onnx}");
  EXPECT_THAT(config.model.cut_at, ElementsAre("scores", "7"));
  EXPECT_EQ(config.model.card_json, R"({"layout":"ssd"})");
  EXPECT_EQ(config.at("model.cut_at", "x"), (folder_ / "m.yaml").string() + ":2:9: model.cut_at: x");
  EXPECT_THAT(load_model("{path: m.onnx, cut_at: [mine]}").model.cut_at, ElementsAre("mine"));
}

TEST_F(ModelCardTest, RefusesPaddingOfAStretchedPicture) {
  write_file(folder_ / "m.yaml", "input: {resize: stretch, pad: 0}\n");
  try {
    (void)load_model("{path: m.onnx}");
    FAIL() << "no error";
  } catch (const ConfigErrors& errors) {
    EXPECT_EQ(errors.problems().at(0).line(),
              (folder_ / "m.yaml").string() +
                  ":1:31: input.pad: says how a letterboxed picture is padded, but resize "
                  "is stretch: leave it out, or write resize: letterbox");
  }
}

TEST_F(ModelCardTest, ChangesTheHashOfTheConfiguration) {
  write_file(folder_ / "m.yaml", "score: 0.5\n");
  const std::string before = effective_sha256(load_model("{path: m.onnx}"));
  EXPECT_EQ(effective_sha256(load_model("{path: m.onnx}")), before);
  write_file(folder_ / "m.yaml", "score: 0.6\n");
  EXPECT_NE(effective_sha256(load_model("{path: m.onnx}")), before);
}

TEST_F(ModelCardTest, IsTakenFromWhereTheConfigurationSays) {
  write_file(folder_ / "m.yaml", "{classes: [beside]}\n");
  write_file(folder_ / "cards/other.yaml", "{input: {color: rgb}}\n");
  const Config config = load_model("{path: m.onnx, card: cards/other.yaml}");
  EXPECT_EQ(config.model.card, folder_ / "cards/other.yaml");
  EXPECT_EQ(config.model.input.color, ColorOrder::kRgb);
}

TEST_F(ModelCardTest, IsNotTheConfigurationThatHasTheModelsName) {
  write_file(folder_ / "m.yaml", kSmallest);
  const Config config = load(folder_ / "m.yaml", {}, kNoFiles);
  EXPECT_EQ(config.model.card, std::nullopt);
}

TEST_F(ModelCardTest, IsRefusedTogetherWithTheConfiguration) {
  write_file(folder_ / "m.yaml", "clases: [a]\nnms: 1.5\nstrides: [8, 16]\nanchors: [[1], [2], [3]]\n");
  const std::string card = (folder_ / "m.yaml").string();
  const std::string known =
      "unknown key; known here: name, cut_at, input, layout, classes, score, nms, blend, anchor_offset, strides, "
      "anchors, variances, keypoints (did you mean classes?)";
  try {
    (void)load_model("{path: m.onnx, engine: gpu}");
    FAIL() << "no error";
  } catch (const ConfigErrors& errors) {
    std::vector<std::string> lines;
    for (const Problem& problem : errors.problems()) lines.push_back(problem.line());
    EXPECT_THAT(
        lines,
        ElementsAre((folder_ / "c.yaml").string() +
                        ":1:31: model.engine: expected one of auto, cuda, cpu, opencv, found gpu (did you mean cuda?)",
                    card + ":1:1: clases: " + known, card + ":2:6: nms: expected a number from 0 to 1, found 1.5",
                    card + ":4:10: anchors: has 3 elements for 2 strides"));
  }
}

TEST_F(ModelCardTest, IsRefusedWhenItsFileIsEmptyOrMissing) {
  write_file(folder_ / "m.yaml", "# nothing\n");
  const std::string card = (folder_ / "m.yaml").string();
  const auto message = [](const std::filesystem::path& path) -> std::string {
    try {
      (void)load_model_card(path, card_keys());
    } catch (const ConfigErrors& errors) {
      return errors.what();
    }
    return {};
  };
  EXPECT_EQ(message(folder_ / "m.yaml"),
            card + ": is not a model card: expected a map of keys such as layout and classes");
  EXPECT_EQ(message(folder_ / "none.yaml"), (folder_ / "none.yaml").string() + ": no such file");
}

TEST_F(ModelCardTest, HasOnlyItsOwnKeysWhereNoneOfAPlugInAreGiven) {
  write_file(folder_ / "m.yaml", "layout: ssd\n");
  try {
    (void)load_text((folder_ / "c.yaml").string(),
                    "model: {path: m.onnx}\ncameras: [{name: a, source: {type: test}}]\n", {}, {.check_files = false});
    FAIL() << "no error";
  } catch (const ConfigErrors& errors) {
    EXPECT_EQ(errors.problems().at(0).line(),
              (folder_ / "m.yaml").string() + ":1:1: layout: unknown key; known here: name, cut_at, input");
  }
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::config
