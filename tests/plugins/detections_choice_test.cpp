// What all layouts of the built-in `detections` share: choice among candidates, mapping to the source, what is not a
// number, and what it says about wrong configurations and models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "detections_fixture.hpp"

namespace camd::plugins::testing {
namespace {

using ::testing::HasSubstr;

TEST_F(Detections, MapsBoxesAndKeypointsBackToTheSource) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  at(model.outputs[0], 0, 2, 3) = 0.9F;  // side 16, centre 28, 20
  run_.frame.scale_x = 0.5F;
  run_.frame.scale_y = 0.25F;
  run_.frame.offset_x = 4.0F;
  run_.frame.offset_y = 2.0F;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 32, 40, 32, 64);
  EXPECT_FLOAT_EQ(found[0].keypoints[0][0], 48.0F);
  EXPECT_FLOAT_EQ(found[0].keypoints[0][1], 72.0F);
}

TEST_F(Detections, KeepsTheBestOfOverlappingBoxesOfOneClass) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  at(model.outputs[0], 0, 2, 3) = 0.8F;
  at(model.outputs[0], 0, 2, 4) = 0.9F;  // 8 pixels beside, side 16: overlap 1/3, below nms
  at(model.outputs[0], 0, 3, 4) = 0.7F;
  at(model.outputs[1], 1, 3, 4) = -5.0F;  // moved up onto the second: suppressed
  at(model.outputs[0], 1, 2, 4) = 0.6F;   // another class at the same place: kept
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_FLOAT_EQ(found[0].score, 0.9F);
  EXPECT_FLOAT_EQ(found[1].score, 0.8F);
  EXPECT_FLOAT_EQ(found[2].score, 0.6F);
}

TEST_F(Detections, BlendsCloseNeighboursIntoTheBestByTheSquareOfTheirScores) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, R"({"nms":0.1,"blend":0.3})")) << error_;
  at(model.outputs[0], 0, 2, 4) = 0.8F;   // 28..44 x 12..28
  at(model.outputs[2], 8, 2, 4) = 2.5F;   // fifth keypoint 4 pixels to the right of its anchor, at 40
  at(model.outputs[0], 0, 2, 5) = 0.6F;   // 8 pixels to the right: overlap 1/3, blended
  at(model.outputs[0], 0, 3, 5) = 0.59F;  // 8 right and 8 down: overlap 1/7, left out and not blended
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FLOAT_EQ(found[0].score, 0.8F);
  const float shift = 8.0F * 0.36F / (0.64F + 0.36F);
  expect_box(found[0], 28.0F + shift, 12, 16, 16);
  EXPECT_NEAR(found[0].keypoints[4][0], 40.0F * 0.64F + 44.0F * 0.36F, 1e-4F);
  EXPECT_NEAR(found[0].keypoints[4][1], 20.0F, 1e-4F);
}

TEST_F(Detections, DoesNotBlendAKeypointThatIsNotANumber) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, R"({"nms":0.1,"blend":0.3})")) << error_;
  at(model.outputs[0], 0, 2, 4) = 0.8F;
  at(model.outputs[0], 0, 2, 5) = 0.6F;
  at(model.outputs[2], 0, 2, 5) = kNan;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 28, 12, 16, 16);
}

TEST_F(Detections, BlendsWhatComesAfterTheListIsFull) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, R"({"nms":0.1,"blend":0.3,"max":1})")) << error_;
  at(model.outputs[0], 0, 2, 4) = 0.8F;
  at(model.outputs[0], 0, 2, 5) = 0.6F;
  at(model.outputs[0], 0, 6, 1) = 0.7F;  // a second object, beyond `max`
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_GT(found[0].box[0], 30.0F);
}

TEST_F(Detections, UsesEachClassesOwnThreshold) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, R"({"score":{"marker":0.9,"default":0.3}})")) << error_;
  at(model.outputs[0], 0, 2, 3) = 0.31F;
  at(model.outputs[0], 1, 6, 6) = 0.89F;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_STREQ(found[0].class_name, "qr");
}

TEST_F(Detections, GivesAtMostSoManyAsAllowedBestFirst) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, R"({"max":2})")) << error_;
  for (int i = 0; i < 3; ++i) at(model.outputs[0], 0, 1, 1 + 3 * i) = 0.6F + 0.1F * static_cast<float>(i);
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_FLOAT_EQ(found[0].score, 0.8F);
  EXPECT_FLOAT_EQ(found[1].score, 0.7F);
}

TEST_F(Detections, StopsAtTheCapacityOfTheList) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  for (int i = 0; i < 3; ++i) at(model.outputs[0], 0, 1, 1 + 3 * i) = 0.9F;
  run_.results.capacity = 2;
  EXPECT_EQ(detect(model).size(), 2U);
}

TEST_F(Detections, LeavesOutWhatIsNotANumber) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  at(model.outputs[0], 0, 0, 0) = kNan;
  at(model.outputs[0], 0, 0, 1) = kInf;
  at(model.outputs[0], 0, 0, 2) = -kInf;
  const float bad[] = {kNan, kInf, -kInf, 1e30F, -1e30F};
  for (int i = 0; i < 5; ++i) {
    at(model.outputs[0], 0, 1 + i, 3) = 0.9F;
    at(model.outputs[1], 0, 1 + i, 3) = bad[i];  // centres
    at(model.outputs[0], 0, 1 + i, 4) = 0.9F;
    at(model.outputs[2], 3, 1 + i, 4) = i < 3 ? bad[i] : kNan;  // a keypoint
  }
  EXPECT_EQ(detect(model).size(), 0U);
}

TEST_F(Detections, BoundsSizesThatWouldOverflow) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  at(model.outputs[0], 0, 2, 3) = 0.9F;
  at(model.outputs[1], 2, 2, 3) = 1e30F;  // width: exp of it is infinite
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 1U);
  expect_box(found[0], 0, 12, 640, 16);
}

TEST_F(Detections, LeavesOutBoxesBesideThePicture) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  at(model.outputs[0], 0, 2, 3) = 0.9F;
  run_.frame.offset_x = 100.0F;  // the letterbox' rim
  EXPECT_EQ(detect(model).size(), 0U);
}

TEST_F(Detections, WarnsOnceWhereScoresLookLikeLogits) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  at(model.outputs[0], 0, 2, 3) = 4.0F;
  EXPECT_EQ(detect(model).size(), 0U);
  EXPECT_EQ(detect(model).size(), 0U);
  ASSERT_EQ(run_.host.lines.size(), 1U);
  EXPECT_THAT(run_.host.lines[0], HasSubstr("set `scores: logits`"));
}

TEST_F(Detections, FindsTheSameAmongTooManyCandidates) {
  // Every cell passes: 2 * 2 * (64 + 16 + 4) is few; a larger input overflows the list of candidates.
  FakeModel model(640, 640);
  for (const std::int64_t stride : {8, 16, 32}) {
    const std::int64_t n = 640 / stride;
    FakeTensor& cls = model.output("cls_" + std::to_string(stride), {1, 4, n, n});
    for (std::size_t i = 0; i < cls.values.size(); ++i)
      cls.values[i] = 0.5F + 0.4F * static_cast<float>(i % 977) / 977.0F;
    model.output("box_" + std::to_string(stride), {1, 8, n, n});
  }
  ASSERT_TRUE(start(model, R"({"layout":"anchors","classes":["a","b"],"max":16})")) << error_;
  at(model.outputs[2], 3, 39, 39) = 0.99F;  // one that is better than all, late in the scan (stride 16)
  run_.frame.height = 640;
  const auto found = detect(model);
  ASSERT_EQ(found.size(), 16U);
  EXPECT_FLOAT_EQ(found[0].score, 0.99F);
  EXPECT_EQ(found[0].class_id, 1);
  for (std::size_t i = 1; i < found.size(); ++i) EXPECT_LE(found[i].score, found[i - 1].score);
}

TEST_F(Detections, FailsTheFrameWhenATensorIsNotAsDeclared) {
  FakeModel model = marker();
  ASSERT_TRUE(start(model, "{}")) << error_;
  model.outputs[0].shape = {1, 4, 4, 4};
  EXPECT_EQ(run_.process(model), CAMD_ERROR_FAILED);
  EXPECT_EQ(run_.error(), "tensor 'cls_8': is [1,4,4,4], wanted [1,4,8,8]");
}

TEST_F(Detections, TakesOutputsByNameWhereShapesDoNotTell) {
  FakeModel model(64, 64);
  model.output("first", {1, 4, 8, 8});
  model.output("second", {1, 4, 8, 8});
  const std::string common = R"("layout":"anchors","classes":["a","b","c","d"],"strides":[8],"anchors":[[16]])";
  EXPECT_FALSE(start(model, "{" + common + "}"));
  EXPECT_EQ(error_,
            "layout 'anchors': 'cls' could be first [1,4,8,8] second [1,4,8,8]: say which in `outputs: {cls: ...}`; "
            "the model's outputs are first [1,4,8,8], second [1,4,8,8]");
  Instance again(find_builtin("detections"));
  ASSERT_EQ(again.create("{" + common + R"(,"outputs":{"cls":"second","box":["first"]}})"), CAMD_OK);
  ASSERT_EQ(again.outputs(model), CAMD_OK) << again.error();
  at(model.outputs[1], 2, 1, 1) = 0.9F;
  ASSERT_EQ(again.process(model), CAMD_OK);
  ASSERT_EQ(again.found().size(), 1U);
  EXPECT_STREQ(again.found()[0].class_name, "c");
}

TEST_F(Detections, NamesAnUndeclaredOutputAndTheNearestOne) {
  FakeModel model = marker();
  EXPECT_FALSE(start(model, R"({"outputs":{"cls":["cls_8","cls_16","csl_32"]}})"));
  EXPECT_THAT(error_, HasSubstr("layout 'anchors': undeclared output 'csl_32' (did you mean 'cls_32'?): the model's "
                                "outputs are cls_8 [1,4,8,8], box_8 [1,8,8,8]"));
}

TEST_F(Detections, SaysWhatIsMissingAndWhatThereIs) {
  FakeModel model(64, 64);
  model.output("prob", {1, 1000});
  EXPECT_FALSE(start(model, R"({"layout":"yunet","strides":[8]})"));
  EXPECT_EQ(error_,
            "layout 'yunet': no output for 'cls' at stride 8, wanted [1,1,8,8] or the same flattened; "
            "the model's outputs are prob [1,1000]");
}

TEST_F(Detections, RefusesClassNamesThatDoNotFitTheModel) {
  FakeModel model = yolox();
  EXPECT_FALSE(start(model, R"({"layout":"yolox","classes":"coco"})"));
  EXPECT_THAT(error_, HasSubstr("output [1,84,7]"));
}

TEST_F(Detections, SuggestsLayoutsWhereNoneIsNamed) {
  FakeModel model = yunet();
  EXPECT_FALSE(start(model, "{}"));
  EXPECT_EQ(error_,
            "config.layout: missing, and the model has no card that names one; the model's outputs look like yunet");
}

TEST_F(Detections, SuggestsOnlyLayoutsThatReadMost) {
  const auto suggestion = [](FakeModel& model) {
    Instance run(find_builtin("detections"));
    EXPECT_EQ(run.create("{}"), CAMD_OK);
    EXPECT_EQ(run.outputs(model), CAMD_ERROR_CONFIG);
    const std::string all = run.error();
    return all.substr(all.find("look like ") + 10);
  };
  FakeModel one = yolox();
  EXPECT_EQ(suggestion(one), "yolox");
  FakeModel fastest(64, 64);
  fastest.output("758", {1, 7, 4, 4});
  EXPECT_EQ(suggestion(fastest), "fastestdet");
  FakeModel ssd(64, 64);
  ssd.output("scores", {1, 84, 2});
  ssd.output("boxes", {1, 84, 4});
  EXPECT_EQ(suggestion(ssd), "ssd");
}

TEST_F(Detections, NamesEveryWrongKeyBeforeItSeesAModel) {
  EXPECT_EQ(run_.create(R"({"layout":"anchor","score":1.5,"nmss":0.4,"classes":["a","a"],"anchors":[16],"blend":2})"),
            CAMD_ERROR_CONFIG);
  EXPECT_EQ(run_.error(),
            "config.layout: 'anchor' is none of anchors, scrfd, yunet, ssd, yolox, nanodet, fastestdet (did you mean "
            "'anchors'?); config.score: must be a number in 0..1, not 1.5; config.classes: 'a' stands there twice; "
            "config.anchors: must be one list per stride of sides or [width, height] in network pixels, e.g. "
            "[[16, 32], [64, 128]]; config.blend: must be a number in 0..1, not 2; config.nmss: unknown key (did you "
            "mean 'nms'?)");
}

TEST_F(Detections, RefusesAThresholdForAClassThatIsNotThere) {
  FakeModel model = marker();
  EXPECT_FALSE(start(model, R"({"score":{"markr":0.9}})"));
  EXPECT_EQ(error_, "layout 'anchors': config.score.markr: no such class (did you mean 'marker'?)");
}

TEST_F(Detections, ReadsHalfPrecisionOutputs) {
  FakeModel model = marker();
  ASSERT_EQ(run_.create("{}"), CAMD_OK);
  static_cast<void>(model.model());
  model.specs[0].dtype.bits = 16;
  run_.needs.assign(9, CAMD_NEED_NONE);
  run_.need = {sizeof(camd_needs), run_.needs.data(), CAMD_NEED_NONE, CAMD_NEED_NONE};
  ASSERT_EQ(run_.table->outputs(run_.instance, &model.described, &run_.need, &run_.problem), CAMD_OK);
  std::vector<std::uint16_t> halves(256, 0);
  halves[0 * 64 + 2 * 8 + 3] = 0x3A00;  // 0.75
  // process() of the harness makes f32 tensors: the first is exchanged.
  ASSERT_EQ(run_.process(model), CAMD_ERROR_FAILED);
  model.outputs[0].tensor.data = halves.data();
  model.outputs[0].tensor.dtype.bits = 16;
  run_.results.count = 0;
  ASSERT_EQ(run_.table->process(run_.instance, &run_.frame, &run_.tensors, &run_.results, &run_.problem), CAMD_OK)
      << run_.error();
  ASSERT_EQ(run_.found().size(), 1U);
  EXPECT_FLOAT_EQ(run_.found()[0].score, 0.75F);
}

}  // namespace
}  // namespace camd::plugins::testing
