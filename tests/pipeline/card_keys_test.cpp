#include "pipeline/run/card_keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/describe.hpp"
#include "config/model_card.hpp"
#include "plugins/builtin.hpp"
#include "tests/infer/onnx_builder.hpp"
#include "tests/support/manual.hpp"
#include "tests/support/paths.hpp"

namespace camd::pipeline {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;

class CardKeys : public ::testing::Test {
 protected:
  // What is left for the plug-in of a card.
  std::string rest_of(const std::string& card) {
    (void)folder_.write("m.yaml", card);
    return config::load_model_card(folder_.path() / "m.yaml", card_keys()).rest_json;
  }
  // The lines that refuse a card, without its path.
  std::vector<std::string> problems_of(const std::string& card) {
    std::vector<std::string> lines;
    try {
      (void)rest_of(card);
    } catch (const config::ConfigErrors& errors) {
      for (const config::Problem& problem : errors.problems())
        lines.push_back(problem.line().substr((folder_.path() / "m.yaml").string().size() + 1));
    }
    return lines;
  }
  infer::test::TemporaryFolder folder_;
};

TEST_F(CardKeys, OfDetectionsReachThePlugInAndNamesOfClassesStayTexts) {
  EXPECT_EQ(rest_of("name: marker\ninput: {color: rgb}\ncut_at: [a]\nlayout: anchors\nclasses: [qr, 7]\nmax: 7\n"),
            R"({"classes":["qr","7"],"layout":"anchors","max":7})");
  EXPECT_EQ(rest_of("classes: coco\n"), R"({"classes":"coco"})");
}

TEST_F(CardKeys, RefuseWhatDetectionsDoesNotTakeWithItsPlace) {
  EXPECT_THAT(
      problems_of("clases: [a]\nnms: 1.5\nboxes: center\nstrides: [8, 16]\nanchors: [[1], [2], [3]]\n"),
      ElementsAre("1:1: clases: unknown key; known here: name, cut_at, input, layout, classes, score, nms, blend, max, "
                  "strides, anchors, anchors_per_cell, anchor_offset, anchor_shift, variances, keypoints, scores, "
                  "background, row, boxes, relative, decoded, oriented, scale_xy, sizes, softmax, boxes_first, "
                  "clip_anchors, fitted_strides, size_limit, centerness, outputs (did you mean classes?)",
                  "2:6: nms: expected a number from 0 to 1, found 1.5",
                  "3:8: boxes: expected one of corners, corners_yx, centre, priors, priors_yx, found center (did you "
                  "mean centre?)",
                  "5:10: anchors: has 3 elements for 2 strides"));
}

TEST_F(CardKeys, OfDetectionsAreExplainedAndTheirExamplesAreTakenByIt) {
  for (const plugins::CardKey& key : plugins::detections_keys()) {
    if (key.path.ends_with("[]")) continue;
    EXPECT_FALSE(key.help.empty()) << key.path;
    const std::string rest = rest_of(std::string(key.path) + ": " + std::string(key.example) + "\n");
    // As keys of the configuration, where an unknown one is refused.
    EXPECT_NO_THROW((void)plugins::suggest_layouts({}, rest, nullptr)) << rest;
  }
}

TEST_F(CardKeys, ReadTheCardOfTheReferenceDetector) {
  EXPECT_EQ(config::load_model_card(test::source_dir() + "/models/marker.yaml", card_keys()).name, "marker");
}

TEST(Manual, HasTheTableOfTheModelCard) {
  test::expect_manual_has("configuration", "card keys", config::keys_markdown(card_keys()));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::pipeline
