// The built-ins `mot`, `coco` and `onvif`: exact lines. What they share with `jsonl` is tested there.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/tables.hpp"
#include "tests/plugins/harness.hpp"

namespace camd::plugins {
namespace CAMD_TEST_FILE {

class Lines : public testing::InFolder {
 protected:
  // What is written of two frames: one with a person and something without a track, one with nothing.
  std::string written(const camd_plugin* table) {
    testing::FakeModel model(32, 32);
    testing::Instance plugin(table);
    EXPECT_EQ(plugin.create(R"({"path":")" + path("lines") + "\"}"), CAMD_OK) << plugin.error();
    EXPECT_EQ(plugin.outputs(model), CAMD_OK) << plugin.error();
    camd_detection person{};
    camd::plugin::copy_text(person.class_name, "person");
    person.score = 0.875F;
    person.track_id = 7;
    person.box[0] = 160;
    person.box[1] = 120;
    person.box[2] = 320;
    person.box[3] = 240;
    camd_detection other{};
    camd::plugin::copy_text(other.class_name, "<b & c>");
    other.class_id = 3;
    other.score = 0.5F;
    other.box[2] = other.box[3] = 10.125F;
    other.keypoint_count = 1;
    other.keypoints[0][0] = 1.5F;
    other.keypoints[0][1] = 2;
    plugin.frame.sequence = 41;
    plugin.frame.captured_unix_ns = 1'700'000'000'250'000'000;
    EXPECT_EQ(plugin.process(model, {person, other}), CAMD_OK) << plugin.error();
    plugin.frame.sequence = 42;
    EXPECT_EQ(plugin.process(model, {}), CAMD_OK) << plugin.error();
    EXPECT_EQ(plugin.destroy(), CAMD_OK) << plugin.error();
    return testing::read_file(path("lines"));
  }
};

TEST_F(Lines, OfMotCountFromOneAndHaveNoTrackAsMinusOne) {
  EXPECT_EQ(written(mot_table()),
            "42,7,161.00,121.00,320.00,240.00,0.8750,-1,-1,-1\n"
            "42,-1,1.00,1.00,10.12,10.12,0.5000,-1,-1,-1\n");
}

TEST_F(Lines, OfCocoAreAnObjectEachWithItsKeypoints) {
  EXPECT_EQ(written(coco_table()),
            R"({"image_id":41,"category_id":0,"bbox":[160.00,120.00,320.00,240.00],"score":0.8750})"
            "\n"
            R"({"image_id":41,"category_id":3,"bbox":[0.00,0.00,10.12,10.12],"score":0.5000,"keypoints":[1.50,2.00,2]})"
            "\n");
}

TEST_F(Lines, OfOnvifAreAFrameEachWithPlacesFromMinusOneToOne) {
  const std::string begin =
      R"(<tt:MetadataStream xmlns:tt="http://www.onvif.org/ver10/schema"><tt:VideoAnalytics><tt:Frame UtcTime="2023-11-14T22:13:20.250000Z" Source="door">)";
  const std::string end = "</tt:Frame></tt:VideoAnalytics></tt:MetadataStream>\n";
  EXPECT_EQ(
      written(onvif_table()),
      begin +
          R"(<tt:Object ObjectId="7"><tt:Appearance><tt:Shape><tt:BoundingBox left="-0.5000" top="0.5000" right="0.5000" bottom="-0.5000"/><tt:CenterOfGravity x="0.0000" y="0.0000"/></tt:Shape><tt:Class><tt:Type Likelihood="0.8750">person</tt:Type></tt:Class></tt:Appearance></tt:Object>)"
          R"(<tt:Object><tt:Appearance><tt:Shape><tt:BoundingBox left="-1.0000" top="1.0000" right="-0.9684" bottom="0.9578"/><tt:CenterOfGravity x="-0.9842" y="0.9789"/></tt:Shape><tt:Class><tt:Type Likelihood="0.5000">&lt;b &amp; c&gt;</tt:Type></tt:Class></tt:Appearance></tt:Object>)" +
          end + begin + end);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins
