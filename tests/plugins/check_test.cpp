// camd.check/1 of the built-ins: every mistake with its key, every path that is written, and nothing made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness.hpp"
#include "plugins/builtin.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What a built-in says of a configuration: "KEY: MESSAGE" and "KEY = PATH".
class Told {
 public:
  Told(const char* plugin, const std::string& config_json, const std::vector<std::string>& cameras = {"door"}) {
    std::vector<const char*> names;
    names.reserve(cameras.size());
    for (const std::string& camera : cameras) names.push_back(camera.c_str());
    const camd_plugin* const table = find_builtin(plugin);
    const auto* const extension = static_cast<const camd_plugin_check*>(table->get_extension(CAMD_EXTENSION_CHECK));
    const Asked asked{{sizeof(camd_check), config_json.c_str(), "{}", static_cast<std::int32_t>(names.size()),
                       names.data(), &mistake, &unknown_key, &claim},
                      this};
    camd_error error{};
    error.struct_size = sizeof(error);
    code = extension->check(&asked.check, &error);
    if (code != CAMD_OK) lines.emplace_back(error.message);
  }

  std::int32_t code = CAMD_OK;
  std::vector<std::string> lines;

 private:
  struct Asked {
    camd_check check;  // first: the callbacks find their object by its address
    Told* told;
  };
  static std::vector<std::string>& lines_of(const camd_check* check) {
    return reinterpret_cast<const Asked*>(check)->told->lines;
  }
  static void mistake(const camd_check* check, const char* key, const char* message) {
    lines_of(check).push_back(std::string(key) + ": " + message);
  }
  static void unknown_key(const camd_check* check, const char* key, const char* const* known, std::int32_t count) {
    std::string line = std::string(key) + " is none of";
    for (std::int32_t i = 0; i < count; ++i) line += std::string(" ") + known[i];
    lines_of(check).push_back(line);
  }
  static void claim(const camd_check* check, const char* key, const char* path) {
    lines_of(check).push_back(std::string(key) + " = " + path);
  }
};

class Check : public ::testing::Test {
 protected:
  Check() { std::filesystem::create_directories(folder_); }
  ~Check() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::string config(const std::string& key, const std::string& name,
                                   const std::string& more = "") const {
    return "{\"" + key + "\":\"" + path(name) + "\"" + more + "}";
  }
  [[nodiscard]] bool left_no_trace() const { return std::filesystem::is_empty(folder_); }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      ("camd_check_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + "_" +
       std::to_string(::getpid()));
};

TEST_F(Check, TellsAllMistakesOfDetectionsAtOnceWithTheirKeys) {
  EXPECT_THAT(
      Told("detections", R"({"nms":2,"scroe":0.5,"outputs":{"clz":["a"],"box":7},"score":{"a":9},"max":1.5})").lines,
      ElementsAre(
          "score.a: must be a number in 0..1", "outputs.box: must be a list of texts, not 7",
          "outputs.clz is none of cls obj box kps offset angle", "nms: must be a number in 0..1, not 2",
          "max: must be a whole number in 1..4096, not 1.5",
          "scroe is none of layout row background score classes anchors outputs nms blend max strides "
          "anchors_per_cell anchor_offset anchor_shift variances keypoints scores boxes relative decoded oriented "
          "scale_xy sizes softmax boxes_first clip_anchors fitted_strides size_limit centerness"));
  EXPECT_THAT(Told("detections", R"({"scale_xy":[],"sizes":"cube","softmax":1,"boxes_first":"yes"})").lines,
              ElementsAre("scale_xy: must be a list of numbers in 1..4, not []", "sizes: 'cube' is none of exp, square",
                          "softmax: must be true or false, not 1", "boxes_first: must be true or false, not \"yes\""));
  EXPECT_THAT(Told("detections", "{}").lines, IsEmpty());
}

TEST_F(Check, NamesThePathsThatAreWrittenAndMakesNothing) {
  EXPECT_THAT(Told("jsonl", config("path", "new/d.jsonl")).lines, ElementsAre("path = " + path("new/d.jsonl")));
  EXPECT_THAT(Told("jsonl", config("path", "{camera}.jsonl"), {"a b", "c"}).lines,
              ElementsAre("path = " + path("a_b.jsonl"), "path = " + path("c.jsonl")));
  EXPECT_THAT(Told("annotate", config("path", "f/{sequence}.png"), {"a", "b"}).lines,
              ElementsAre("path = " + path("f/{sequence}-a.png"), "path = " + path("f/{sequence}-b.png")));
  EXPECT_THAT(Told("annotate", config("path", "film.mp4")).lines, ElementsAre("path = " + path("film.mp4")));
  EXPECT_THAT(Told("tensors", config("dir", "t/"), {"a", "b"}).lines,
              ElementsAre("dir = " + path("t/a"), "dir = " + path("t/b")));
  EXPECT_THAT(Told("jsonl", R"({"path":"/dev/null"})").lines, IsEmpty());
  EXPECT_TRUE(left_no_trace());
}

TEST_F(Check, RefusesPathsThatCannotBeWritten) {
  std::ofstream(path("file")) << "text";
  std::filesystem::create_directories(path("folder"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(Told("jsonl", config("path", "folder")).lines,
              ElementsAre("path: cannot write " + path("folder") + ": Is a directory"));
  EXPECT_THAT(Told("jsonl", config("path", "file/d.jsonl")).lines,
              ElementsAre("path: cannot create the folder " + path("file") + ": Not a directory"));
  EXPECT_THAT(Told("jsonl", config("path", "pipe")).lines,
              ElementsAre("path: " + path("pipe") +
                          ": is no file that can be written line by line (a pipe or socket can stall the cameras)"));
  EXPECT_THAT(Told("jsonl", R"({"path":"-"})").lines,
              ElementsAre("path: '-' is stdout, which carries the metrics: name a file"));
  EXPECT_THAT(Told("annotate", config("path", "file/x/f.mp4")).lines,
              ElementsAre("path: cannot create the folder " + path("file/x") + ": Not a directory"));
  EXPECT_THAT(Told("tensors", config("dir", "file")).lines,
              ElementsAre("dir: cannot create the folder " + path("file") + ": Not a directory"));
  if (::geteuid() == 0) return;  // root may write everywhere
  ASSERT_EQ(::chmod(path("folder").c_str(), 0500), 0);
  EXPECT_THAT(Told("jsonl", config("path", "folder/d.jsonl")).lines,
              ElementsAre("path: cannot write into the folder " + path("folder") + ": Permission denied"));
}

TEST_F(Check, RefusesTwoCamerasThatWouldWriteOneFile) {
  for (const char* plugin : {"jsonl", "annotate"}) {
    EXPECT_THAT(
        Told(plugin, config("path", plugin == std::string("jsonl") ? "{camera}.jsonl" : "{camera}.mp4"), {"a b", "a_b"})
            .lines,
        ElementsAre("path: cameras 'a b' and 'a_b' would both write 'a_b': give them names that differ in "
                    "letters, digits, '-' or '_'"))
        << plugin;
  }
}

TEST_F(Check, TellsEachWrongKeyOfTheOutlets) {
  EXPECT_THAT(Told("jsonl", R"({"append":1,"pth":"x"})").lines,
              ElementsAre("path: is needed: the file to write, e.g. out/detections.jsonl",
                          "append: must be true or false, not 1", "pth is none of path append"));
  EXPECT_THAT(Told("jsonl", R"({"path":"%Q"})").lines,
              ElementsAre("path: '%Q' is no time that a path may hold: %Y, %y, %m, %d, %j, %H, %M, %S and %F are "
                          "(write %% for a percent sign)"));
  EXPECT_THAT(Told("annotate", R"({"path":"a.avi","fps":0})").lines,
              ElementsAre("path: is needed and ends in .mp4, .png or .jpg, e.g. out/annotated.mp4 or "
                          "out/frames/{camera}-{sequence}.png",
                          "fps: must be a number in 0.001..1000, not 0"));
  EXPECT_THAT(Told("tensors", R"({"every":0,"inputs":true})").lines,
              ElementsAre("dir: is needed: the folder to write, e.g. out/tensors",
                          "every: must be a whole number in 1..1000000000, not 0",
                          "inputs is none of dir every input outputs"));
}

TEST_F(Check, TellsEachWrongKeyOfTracksAndZones) {
  EXPECT_THAT(
      Told("track", R"({"hgih":0.5,"events":3})").lines,
      ElementsAre("events: must be true or false, not 3",
                  "hgih is none of high low start overlap low_overlap far_overlap sure confirm capacity keep by_class "
                  "events"));
  EXPECT_THAT(Told("zones", R"({"zones":[{"name":"a","polygon":[[0,0],[1,0],[1,1]]},7],"dwel":1})").lines,
              ElementsAre(::testing::StartsWith("zones.1: "), ::testing::StartsWith("dwel is none of ")));
  EXPECT_THAT(Told("zones", "{}").lines, ElementsAre("zones: is needed, or `lines`: what shall be counted"));
}

TEST_F(Check, TellsEachWrongKeyOfMqttAndItsOutbox) {
  EXPECT_THAT(Told("mqtt", R"({"url":"mqtt://h","qos":3,"outbox":{"capcity":1}})").lines,
              ElementsAre("qos: must be a whole number in 0..2, not 3",
                          "outbox.capcity is none of capacity memory full spool spool_max retry_max"));
  EXPECT_THAT(Told("mqtt", R"({"url":"mqtt://h","outbox":{"spool":")" + path("spool") + "\"}}").lines,
              ElementsAre("outbox.spool = " + path("spool")));
  EXPECT_TRUE(left_no_trace());
}

TEST_F(Check, SaysWhatIsNoConfigurationAtAll) {
  const Told told("jsonl", "[1]");
  EXPECT_EQ(told.code, CAMD_ERROR_FAILED);
  EXPECT_THAT(told.lines, ElementsAre("config: not a mapping of keys to values"));
}

TEST_F(Check, RefusesZonesThatCrossThemselvesOrLieOutsideWithTheirPlaceInTheList) {
  EXPECT_THAT(Told("zones", R"({"zones":[{"name":"a","polygon":[[0,0],[1,0],[1,1]]},)"
                            R"({"name":"bow","polygon":[[0,0],[1,1],[1,0],[0,1]]}],)"
                            R"("lines":[{"name":"l","from":[0,2],"to":[1,0]}]})")
                  .lines,
              ElementsAre("zones.1: polygon: crosses itself: its sides 1 and 3 meet",
                          "lines.0: [0, 2] lies outside the picture, which is 1 wide and 1 high (for pixels, set "
                          "`picture: [width, height]`)"));
}

TEST_F(Check, TellsAllThatIsWrongWithCodes) {
  EXPECT_THAT(Told("codes", R"({"tries":0,"marker_size":1})").lines,
              ElementsAre("tries: must be a whole number in 1..100, not 0",
                          "intrinsics: is needed for poses, too: `intrinsics` and `marker_size` belong together"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
