// The built-in `jsonl`: fields and their order, whole lines, refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness.hpp"
#include "plugins/builtin.hpp"
#include "plugins/camd_plugin.hpp"

namespace camd::plugins::testing {
namespace CAMD_TEST_FILE {

namespace fs = std::filesystem;

class JsonlTest : public InFolder {
 protected:
  [[nodiscard]] std::string config(const std::string& name) const { return R"({"path":")" + path(name) + "\"}"; }

  static camd_detection detection() {
    camd_detection d{};
    d.class_id = 1;
    d.score = 0.98768F;
    d.box[0] = 10.5F;
    d.box[1] = 20.0F;
    d.box[2] = 30.126F;
    d.box[3] = 40.0F;
    d.keypoint_count = 2;
    d.keypoints[0][0] = 1.0F;
    d.keypoints[0][1] = -2.25F;
    d.keypoints[1][0] = 3.0F;
    d.keypoints[1][1] = 4.0F;
    camd::plugin::copy_text(d.class_name, "qr");
    return d;
  }

  // The sequence numbers of a file's lines.
  [[nodiscard]] std::vector<int> sequences(const std::string& name) const {
    std::vector<int> found;
    std::ifstream file(path(name));
    for (std::string line; std::getline(file, line);) found.push_back(nlohmann::json::parse(line).at("seq"));
    return found;
  }

  FakeModel model_{4, 4};
  const camd_plugin* table_ = find_builtin("jsonl");
};

TEST_F(JsonlTest, WritesTheFieldsInTheirOrder) {
  Instance jsonl(table_);
  jsonl.host.now_ns = 1'000'012'345'678;
  jsonl.frame.sequence = 12;
  jsonl.frame.captured_mono_ns = 1'000'000'000'000;
  jsonl.frame.captured_uncertainty_ns = 240'000;
  jsonl.frame.captured_unix_ns = 1'795'264'683'831'323'954;
  ASSERT_EQ(jsonl.create(config("a/b/d.jsonl")), CAMD_OK) << jsonl.error();
  ASSERT_EQ(jsonl.outputs(model_), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_, {detection()}), CAMD_OK);
  ASSERT_EQ(jsonl.destroy(), CAMD_OK);
  EXPECT_EQ(
      read_file(path("a/b/d.jsonl")),
      R"({"camera":"door","seq":12,"captured_mono_ns":1000000000000,"time":"2026-11-21T12:38:03.831323Z",)"
      R"("latency_us":12345,"captured_uncertainty_us":240,"width":640,"height":480,"detections":[{"class":"qr","class_id":1,"score":0.9877,)"
      R"("box":[10.5,20,30.13,40],"keypoints":[[1,-2.25],[3,4]]}]})"
      "\n");
}

TEST_F(JsonlTest, TakesTheTimeForExactWhereTheHostTellsNoUncertainty) {
  Instance jsonl(table_);
  jsonl.frame.captured_uncertainty_ns = 240'000;
  jsonl.frame.struct_size = offsetof(camd_frame, captured_uncertainty_ns);
  ASSERT_EQ(jsonl.create(config("d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_, {}), CAMD_OK);
  EXPECT_NE(read_file(path("d.jsonl")).find("\"captured_uncertainty_us\":0,"), std::string::npos);
}

TEST_F(JsonlTest, MarksDamagedPictures) {
  Instance jsonl(table_);
  ASSERT_EQ(jsonl.create(config("d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_, {}), CAMD_OK);
  jsonl.frame.flags = CAMD_FRAME_DAMAGED | 1U << 31;  // and one that it does not know
  ASSERT_EQ(jsonl.process(model_, {}), CAMD_OK);
  jsonl.frame.struct_size = offsetof(camd_frame, flags);  // an older host's frame has none
  ASSERT_EQ(jsonl.process(model_, {}), CAMD_OK);
  ASSERT_EQ(jsonl.destroy(), CAMD_OK);
  const std::string text = read_file(path("d.jsonl"));
  const std::size_t second = text.find('\n') + 1;
  EXPECT_EQ(text.find("\"damaged\":true,\"detections\":["), text.find("\"damaged\"", second));
  EXPECT_EQ(text.rfind("\"damaged\""), text.find("\"damaged\"", second));
  EXPECT_LT(text.find("\"damaged\""), text.find('\n', second));
}

TEST_F(JsonlTest, SaysThatAFrameIsIncompleteWhereAPluginWasMissing) {
  Instance jsonl(table_);
  jsonl.frame.flags = CAMD_FRAME_INCOMPLETE;
  ASSERT_EQ(jsonl.create(config("d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_, {}), CAMD_OK);
  EXPECT_NE(read_file(path("d.jsonl")).find("\"detections\":[],\"complete\":false}"), std::string::npos);
}

TEST_F(JsonlTest, WritesTracksTextsAndEventsWhereThereAreAny) {
  camd_detection d{};
  d.track_id = 18'446'744'073'709'551'615U;
  camd::plugin::copy_text(d.class_name, "qr");
  camd::plugin::copy_text(d.text, "say \"hi\"\n\\");
  Instance jsonl(table_);
  jsonl.host.events.push_back(
      camd::plugin::Event("enter").zone("T\xC3\xBCr").track(7).number("dwell_s", 1.25).number("count", 2).get());
  jsonl.host.events.push_back(camd::plugin::Event("night").get());
  ASSERT_EQ(jsonl.create(config("d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_, {d}), CAMD_OK);
  const std::string line = read_file(path("d.jsonl"));
  EXPECT_EQ(line.substr(line.find("\"detections\"")),
            R"("detections":[{"class":"qr","track_id":18446744073709551615,"text":"say \"hi\"\u000a\\","class_id":0,)"
            R"("score":0.0000,"box":[0,0,0,0],"keypoints":[]}],)"
            R"("events":[{"name":"enter","track_id":7,"zone":"Tür","numbers":{"dwell_s":1.25,"count":2}},)"
            R"({"name":"night"}]})"
            "\n");
}

TEST_F(JsonlTest, ReplacesWhatIsNoUtf8) {
  struct Case {
    const char* text;
    const char* read;  // by whoever parses the line
  };
  const Case cases[] = {
      {"a\xFFz", "a\xEF\xBF\xBDz"},
      {"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x9A\x97", "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x9A\x97"},  // two, three, four bytes
      {"\xC3", "\xEF\xBF\xBD"},                                                              // cut off
      {"\xE2\x82z", "\xEF\xBF\xBD\xEF\xBF\xBDz"},                                            // cut off
      {"\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},                                   // longer than it needs to be
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},                   // a surrogate
      {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}};  // above U+10FFFF
  for (const Case& one : cases) {
    camd_detection d{};
    camd::plugin::copy_text(d.class_name, one.text);
    std::snprintf(d.text, sizeof(d.text), "%s", one.text);
    Instance jsonl(table_);
    jsonl.host.events.push_back(camd::plugin::Event("x").get());
    std::snprintf(jsonl.host.events[0].zone, CAMD_EVENT_NAME_BYTES, "%s", one.text);
    const std::string file = path("utf8.jsonl");
    fs::remove(file);
    ASSERT_EQ(jsonl.create(config("utf8.jsonl")), CAMD_OK);
    ASSERT_EQ(jsonl.process(model_, {d}), CAMD_OK);
    const auto line = nlohmann::json::parse(read_file(file), nullptr, false);
    ASSERT_FALSE(line.is_discarded()) << read_file(file);
    EXPECT_EQ(line["detections"][0]["text"], one.read);
    EXPECT_EQ(line["detections"][0]["class"], one.read);
    EXPECT_EQ(line["events"][0]["zone"], one.read);
  }
}

TEST_F(JsonlTest, WritesALineForAFrameWithoutDetections) {
  Instance jsonl(table_);
  ASSERT_EQ(jsonl.create(config("d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  EXPECT_EQ(nlohmann::json::parse(read_file(path("d.jsonl")))["detections"], nlohmann::json::array());
}

TEST_F(JsonlTest, EscapesNames) {
  Instance jsonl(table_);
  jsonl.frame.camera = "a\"b\\c\nd \xC3\xA9";
  ASSERT_EQ(jsonl.create(config("d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  EXPECT_EQ(nlohmann::json::parse(read_file(path("d.jsonl")))["camera"], "a\"b\\c\nd \xC3\xA9");
}

TEST_F(JsonlTest, WritesNoNegativeZero) {
  Instance jsonl(table_);
  camd_detection d = detection();
  d.box[0] = -0.001F;
  ASSERT_EQ(jsonl.create(config("d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_, {d}), CAMD_OK);
  EXPECT_NE(read_file(path("d.jsonl")).find(R"("box":[0,20,)"), std::string::npos);
}

// A restart emptied what the run before had written.
TEST_F(JsonlTest, GoesOnAtTheEndOfAnEarlierFile) {
  std::ofstream(path("d.jsonl")) << R"({"seq":7})" << '\n';
  Instance jsonl(table_);
  jsonl.frame.sequence = 8;
  ASSERT_EQ(jsonl.create(config("d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  EXPECT_EQ(sequences("d.jsonl"), (std::vector<int>{7, 8}));
}

TEST_F(JsonlTest, EndsTheLineThatAKilledRunLeftUnfinished) {
  std::ofstream(path("d.jsonl")) << "{\"seq\":7}\n{\"seq\":8,\"cam";
  Instance jsonl(table_);
  ASSERT_EQ(jsonl.create(config("d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  const std::string whole = read_file(path("d.jsonl"));
  EXPECT_EQ(whole.substr(0, 28), "{\"seq\":7}\n{\"seq\":8,\"cam\n{\"ca");
  EXPECT_EQ(std::count(whole.begin(), whole.end(), '\n'), 4);
}

TEST_F(JsonlTest, EmptiesAnEarlierFileAtTheFirstFrameWhereAsked) {
  std::ofstream(path("d.jsonl")) << "earlier\n";
  const std::string emptying = R"({"append":false,"path":")" + path("d.jsonl") + "\"}";
  {
    Instance jsonl(table_);
    ASSERT_EQ(jsonl.create(emptying), CAMD_OK);
  }
  EXPECT_EQ(read_file(path("d.jsonl")), "earlier\n");
  Instance jsonl(table_);
  ASSERT_EQ(jsonl.create(emptying), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  EXPECT_EQ(read_file(path("d.jsonl")).find("earlier"), std::string::npos);
}

TEST_F(JsonlTest, NamesTheFileByTheTimeOfItsOpening) {
  const std::time_t before = std::time(nullptr);
  Instance jsonl(table_);
  ASSERT_EQ(jsonl.create(config("%Y%m%d-%H%M%S-100%%.jsonl")), CAMD_OK) << jsonl.error();
  const std::time_t after = std::time(nullptr);
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  std::vector<std::string> possible;
  for (std::time_t at = before; at <= after; ++at) {
    std::tm utc{};
    gmtime_r(&at, &utc);
    std::array<char, 64> name{};
    std::strftime(name.data(), name.size(), "%Y%m%d-%H%M%S-100%%.jsonl", &utc);
    possible.emplace_back(name.data());
  }
  EXPECT_THAT(possible, ::testing::Contains(listing().at(0)));
}

TEST_F(JsonlTest, RefusesATimeThatItDoesNotKnow) {
  Instance jsonl(table_);
  EXPECT_EQ(jsonl.create(R"({"path":"a%Q.jsonl"})"), CAMD_ERROR_CONFIG);
  EXPECT_EQ(
      jsonl.error(),
      "config.path: '%Q' is no time that a path may hold: %Y, %y, %m, %d, %j, %H, %M, %S and %F are (write %% for a "
      "percent sign)");
}

// Log rotation: lines went on into the renamed file for ever.
TEST_F(JsonlTest, GoesOnInANewFileWithinASecondWhenTheOldOneIsRenamed) {
  Instance jsonl(table_);
  ASSERT_EQ(jsonl.create(config("d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  fs::rename(path("d.jsonl"), path("d.1.jsonl"));
  jsonl.frame.sequence = 1;
  jsonl.host.now_ns = 999'999'999;
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  jsonl.frame.sequence = 2;
  jsonl.host.now_ns = 1'000'000'000;
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  EXPECT_EQ(sequences("d.1.jsonl"), (std::vector<int>{0, 1}));
  EXPECT_EQ(sequences("d.jsonl"), std::vector<int>{2});
  const std::string file = path("d.jsonl");
  EXPECT_EQ(jsonl.host.lines,
            std::vector<std::string>{"1 jsonl: " + file + " was renamed or removed: lines go on in " + file});
}

TEST_F(JsonlTest, MakesTheFileAndItsFolderAnewWhenTheyAreRemoved) {
  Instance jsonl(table_);
  ASSERT_EQ(jsonl.create(config("out/d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  fs::remove_all(path("out"));
  jsonl.frame.sequence = 1;
  jsonl.host.now_ns = 1'000'000'000;
  ASSERT_EQ(jsonl.process(model_), CAMD_OK) << jsonl.error();
  EXPECT_EQ(sequences("out/d.jsonl"), std::vector<int>{1});
}

TEST_F(JsonlTest, OpensARenamedFileAnewWhenTold) {
  Instance jsonl(table_);
  ASSERT_EQ(jsonl.create(R"({"append":false,"path":")" + path("d.jsonl") + "\"}"), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  fs::rename(path("d.jsonl"), path("d.1.jsonl"));
  ASSERT_EQ(jsonl.reopen(), CAMD_OK) << jsonl.error();
  jsonl.frame.sequence = 1;
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  ASSERT_EQ(jsonl.reopen(), CAMD_OK) << jsonl.error();  // it is where it should be: nothing happens
  jsonl.frame.sequence = 2;
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  EXPECT_EQ(sequences("d.1.jsonl"), std::vector<int>{0});
  EXPECT_EQ(sequences("d.jsonl"), (std::vector<int>{1, 2}));
}

TEST_F(JsonlTest, GoesOnInTheRenamedFileWhereNoNewOneCanBeHadAndSaysSoOnce) {
  Instance jsonl(table_);
  ASSERT_EQ(jsonl.create(config("out/d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  fs::rename(path("out"), path("kept"));
  std::ofstream(path("out")) << "in the way";
  const std::string why = "cannot create the folder " + path("out") + ": Not a directory";
  EXPECT_EQ(jsonl.reopen(), CAMD_ERROR_FAILED);
  EXPECT_EQ(jsonl.error(), why);
  for (int sequence = 1; sequence <= 2; ++sequence) {
    jsonl.frame.sequence = static_cast<std::uint64_t>(sequence);
    jsonl.host.now_ns += 1'000'000'000;
    ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  }
  EXPECT_EQ(sequences("kept/d.jsonl"), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(jsonl.host.lines, std::vector<std::string>{"1 jsonl: " + path("out/d.jsonl") +
                                                       " was renamed or removed, and lines go on into it: " + why});
}

// `copytruncate` of logrotate: lines went to where the end had been, with a hole before them.
TEST_F(JsonlTest, GoesOnAtTheBeginningOfAFileThatSomebodyTruncated) {
  Instance jsonl(table_);
  ASSERT_EQ(jsonl.create(config("d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  fs::resize_file(path("d.jsonl"), 0);
  jsonl.frame.sequence = 1;
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  EXPECT_EQ(sequences("d.jsonl"), std::vector<int>{1});
}

TEST_F(JsonlTest, FollowsTheFileTogetherWithTheInstanceOfAReload) {
  Instance old(table_);
  ASSERT_EQ(old.create(config("d.jsonl")), CAMD_OK);
  ASSERT_EQ(old.process(model_), CAMD_OK);
  Instance next(table_);
  next.host.host.reloads = 1;
  ASSERT_EQ(next.create(config("d.jsonl")), CAMD_OK) << next.error();
  fs::rename(path("d.jsonl"), path("d.1.jsonl"));
  old.frame.sequence = 1;
  old.host.now_ns = 1'000'000'000;
  ASSERT_EQ(old.process(model_), CAMD_OK);
  next.frame.sequence = 2;
  next.host.now_ns = 1'000'000'000;
  ASSERT_EQ(next.process(model_), CAMD_OK);
  ASSERT_EQ(old.destroy(), CAMD_OK);
  ASSERT_EQ(next.destroy(), CAMD_OK);
  EXPECT_EQ(sequences("d.1.jsonl"), std::vector<int>{0});
  EXPECT_EQ(sequences("d.jsonl"), (std::vector<int>{1, 2}));
}

TEST_F(JsonlTest, LeavesNoFileBehindAStartWithoutFrames) {
  {
    Instance jsonl(table_);
    ASSERT_EQ(jsonl.create(config("d.jsonl")), CAMD_OK);
  }
  EXPECT_FALSE(fs::exists(path("d.jsonl")));
}

TEST_F(JsonlTest, WritesOneFilePerCameraWhereThePathSaysSo) {
  model_.cameras = {"door", "../yard"};
  Instance jsonl(table_);
  ASSERT_EQ(jsonl.create(config("{camera}.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.outputs(model_), CAMD_OK) << jsonl.error();
  jsonl.frame.camera = "../yard";
  jsonl.frame.camera_index = 1;
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  jsonl.frame.camera = "door";
  jsonl.frame.camera_index = 0;
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  ASSERT_EQ(jsonl.destroy(), CAMD_OK);
  EXPECT_EQ(nlohmann::json::parse(read_file(path("door.jsonl")))["camera"], "door");
  EXPECT_EQ(nlohmann::json::parse(read_file(path("_.._yard.jsonl")))["camera"], "../yard");
}

TEST_F(JsonlTest, RefusesCamerasWhoseFilesWouldBeTheSame) {
  model_.cameras = {"a b", "a/b"};
  Instance jsonl(table_);
  ASSERT_EQ(jsonl.create(config("{camera}.jsonl")), CAMD_OK);
  EXPECT_EQ(jsonl.outputs(model_), CAMD_ERROR_CONFIG);
  EXPECT_EQ(
      jsonl.error(),
      "cameras 'a b' and 'a/b' would both write 'a_b': give them names that differ in letters, digits, '-' or '_'");
}

TEST_F(JsonlTest, RefusesStdout) {
  Instance jsonl(table_);
  EXPECT_EQ(jsonl.create(R"({"path":"-"})"), CAMD_ERROR_CONFIG);
  EXPECT_EQ(jsonl.error(), "config.path: '-' is stdout, which carries the metrics: name a file");
}

TEST_F(JsonlTest, NeedsAPath) {
  Instance jsonl(table_);
  EXPECT_EQ(jsonl.create("{}"), CAMD_ERROR_CONFIG);
  EXPECT_EQ(jsonl.error(), "config.path: is needed: the file to write, e.g. out/detections.jsonl");
}

TEST_F(JsonlTest, NamesEveryWrongKeyInOneLine) {
  Instance jsonl(table_);
  EXPECT_EQ(jsonl.create(R"({"path":5,"apend":true})"), CAMD_ERROR_CONFIG);
  EXPECT_EQ(jsonl.error(),
            "config.path: must be a text, not 5; "
            "config.apend: unknown key (did you mean 'append'?)");
}

TEST_F(JsonlTest, SaysWhyAFolderCannotBeMade) {
  std::ofstream(path("file")) << "in the way";
  Instance jsonl(table_);
  EXPECT_EQ(jsonl.create(config("file/d.jsonl")), CAMD_ERROR_CONFIG);
  EXPECT_EQ(jsonl.error(), "cannot create the folder " + path("file") + ": Not a directory");
}

TEST_F(JsonlTest, SaysWhyAFileCannotBeWritten) {
  fs::create_directories(path("folder"));
  Instance jsonl(table_);
  EXPECT_EQ(jsonl.create(config("folder")), CAMD_ERROR_CONFIG);
  EXPECT_EQ(jsonl.error(), "cannot write " + path("folder") + ": Is a directory");
}

TEST_F(JsonlTest, RefusesAPipeThatCouldStallTheCameras) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  Instance jsonl(table_);
  EXPECT_EQ(jsonl.create(config("pipe")), CAMD_ERROR_CONFIG);  // nobody reads: it must not block either
  EXPECT_EQ(jsonl.error(), "cannot write " + path("pipe") + ": No such device or address");
}

TEST_F(JsonlTest, RefusesAFileThatAnotherPostprocessorWrites) {
  Instance first(table_);
  ASSERT_EQ(first.create(config("d.jsonl")), CAMD_OK);
  Instance second(table_);
  EXPECT_EQ(second.create(config("d.jsonl")), CAMD_ERROR_CONFIG);
  EXPECT_EQ(second.error(), path("d.jsonl") + ": is being written by another postprocessor or another camd");
}

// camd makes the instances of the new configuration while those of the old one still write.
TEST_F(JsonlTest, GoesOnInTheSameFileAfterAReload) {
  std::ofstream(path("d.jsonl")) << "of an earlier process\n";
  const std::string emptying = R"({"append":false,"path":")" + path("d.jsonl") + "\"}";
  Instance old(table_);
  old.frame.sequence = 1;
  ASSERT_EQ(old.create(emptying), CAMD_OK);
  ASSERT_EQ(old.process(model_), CAMD_OK);
  Instance next(table_);
  next.host.host.reloads = 1;
  ASSERT_EQ(next.create(emptying), CAMD_OK) << next.error();
  ASSERT_EQ(next.outputs(model_), CAMD_OK) << next.error();
  old.frame.sequence = 2;
  ASSERT_EQ(old.process(model_), CAMD_OK);
  ASSERT_EQ(old.destroy(), CAMD_OK) << old.error();
  next.frame.sequence = 3;
  ASSERT_EQ(next.process(model_), CAMD_OK);
  ASSERT_EQ(next.destroy(), CAMD_OK) << next.error();
  EXPECT_EQ(sequences("d.jsonl"), (std::vector<int>{1, 2, 3}));
}

TEST_F(JsonlTest, LeavesTheFileToTheInstanceThatWritesWhenAReloadIsRefused) {
  Instance old(table_);
  ASSERT_EQ(old.create(config("d.jsonl")), CAMD_OK);
  for (int sequence = 0; sequence < 3; ++sequence) {
    Instance refused(table_);
    refused.host.host.reloads = 1;  // the same number each time: none of them came to run
    ASSERT_EQ(refused.create(config("d.jsonl")), CAMD_OK) << refused.error();
    ASSERT_EQ(refused.destroy(), CAMD_OK);
    old.frame.sequence = static_cast<std::uint64_t>(sequence);
    ASSERT_EQ(old.process(model_), CAMD_OK);
  }
  ASSERT_EQ(old.destroy(), CAMD_OK);
  EXPECT_EQ(sequences("d.jsonl"), (std::vector<int>{0, 1, 2}));
}

TEST_F(JsonlTest, NeverEmptiesAFileAfterAReload) {
  std::ofstream(path("d.jsonl")) << R"({"seq":7})"
                                 << "\n";
  Instance jsonl(table_);
  jsonl.host.host.reloads = 1;
  jsonl.frame.sequence = 8;
  ASSERT_EQ(jsonl.create(config("d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  EXPECT_EQ(sequences("d.jsonl"), (std::vector<int>{7, 8}));
}

TEST_F(JsonlTest, RefusesTwoPostprocessorsOfOneConfigurationAfterAReloadToo) {
  Instance old(table_);
  ASSERT_EQ(old.create(config("d.jsonl")), CAMD_OK);
  Instance first(table_);
  first.host.host.reloads = 1;
  ASSERT_EQ(first.create(config("d.jsonl")), CAMD_OK);
  Instance second(table_);
  second.host.host.reloads = 1;
  EXPECT_EQ(second.create(config("d.jsonl")), CAMD_ERROR_CONFIG);
  EXPECT_EQ(second.error(), path("d.jsonl") + ": is being written by another postprocessor or another camd");
}

TEST_F(JsonlTest, FailsTheFrameOnAFullDiskAndGoesOn) {
  Instance jsonl(table_);
  ASSERT_EQ(jsonl.create(R"({"path":"/dev/full"})"), CAMD_OK) << jsonl.error();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(jsonl.process(model_), CAMD_ERROR_FAILED);
    EXPECT_EQ(jsonl.error(), "cannot write /dev/full: No space left on device");
  }
  EXPECT_EQ(jsonl.destroy(), CAMD_OK);
}

// A limit on the file's size cuts a write short in the middle of a line, as a disk that fills up does.
TEST_F(JsonlTest, LeavesNoPartOfALineWhenTheDiskFillsUp) {
  Instance jsonl(table_);
  ASSERT_EQ(jsonl.create(config("d.jsonl")), CAMD_OK);
  ASSERT_EQ(jsonl.process(model_), CAMD_OK);
  const std::string whole = read_file(path("d.jsonl"));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{whole.size() + 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const std::int32_t code = jsonl.process(model_);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(code, CAMD_ERROR_FAILED);
  EXPECT_EQ(jsonl.error(), "cannot write " + path("d.jsonl") + ": File too large");
  EXPECT_EQ(read_file(path("d.jsonl")), whole);
  EXPECT_EQ(jsonl.process(model_), CAMD_OK);
  EXPECT_EQ(read_file(path("d.jsonl")), whole + whole);
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::plugins::testing
