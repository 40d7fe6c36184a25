// camd run --shard: several camds with one configuration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "config/endpoint.hpp"
#include "run_camd.hpp"
#include "tests/http/client.hpp"

namespace camd::test {
namespace CAMD_TEST_FILE {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Shards : public ::testing::Test {
 protected:
  std::string config(int cameras) {
    std::string text = "device: host\nmodel: {path: " + source_path("models/marker-640x360.onnx") + "}\ncameras:\n";
    for (int i = 0; i < cameras; ++i) {
      text += "  - {name: c" + std::to_string(i) +
              ", source: {type: test, width: 64, height: 48, frames: 2, realtime: false}}\n";
    }
    return folder_.write("camd.yaml", text + "postprocess:\n  - plugin: detections\n");
  }
  // The cameras of a run, by its last line.
  static std::multiset<std::string> cameras_of(const Finished& done) {
    std::multiset<std::string> names;
    std::istringstream lines(done.out);
    for (std::string line; std::getline(lines, line);) {
      const json event = json::parse(line);
      if (event.at("event") != "stop") continue;
      for (const json& camera : event.at("cameras")) names.insert(camera.at("camera").get<std::string>());
    }
    return names;
  }
  std::string endless(int cameras, const std::string& further = "") {
    std::string text = "device: host\nmodel: {path: " + source_path("models/marker-640x360.onnx") +
                       "}\nmetrics: {period: 100ms}\ncameras:\n";
    for (int i = 0; i < cameras; ++i) {
      text += "  - {name: c" + std::to_string(i) + ", source: {type: test, width: 64, height: 48, fps: 20}}\n";
    }
    return folder_.write("endless.yaml", text + "postprocess:\n  - plugin: detections\n" + further);
  }
  // The port that the log names; 0: none yet.
  static int port_of(const std::string& log) {
    const std::string words = "listening on 127.0.0.1:";
    const std::size_t at = log.find(words);
    return at == std::string::npos ? 0 : std::atoi(log.c_str() + at + words.size());
  }
  static test::Answer answer(const CamdProcess& camd, const std::string& path) {
    return test::ask(config::parse_endpoint("127.0.0.1:" + std::to_string(port_of(camd.err()))).value(), path);
  }
  TemporaryFolder folder_;
};

TEST_F(Shards, ShareTheCamerasSoThatEachRunsOnce) {
  const std::string path = config(4);
  std::multiset<std::string> all;
  for (const char* shard : {"0/2", "1/2"}) {
    const Finished done = run_camd({"run", path, "--metrics", "json", "--shard", shard});
    ASSERT_EQ(done.code, 0) << done.err;
    all.merge(cameras_of(done));
  }
  EXPECT_EQ(all, (std::multiset<std::string>{"c0", "c1", "c2", "c3"}));
}

TEST_F(Shards, TellInTheStartLineWhichOneRunsAndHowManyCamerasItHas) {
  const Finished done = run_camd({"run", config(4), "--metrics", "json", "--shard", "1/2"});
  ASSERT_EQ(done.code, 0) << done.err;
  const json start = json::parse(done.out.substr(0, done.out.find('\n')));
  EXPECT_EQ(start.at("shard"), json::parse(R"({"index":1,"count":2,"cameras":2,"cameras_in_file":4})"));
  const Finished alone = run_camd({"run", config(4), "--metrics", "json"});
  EXPECT_FALSE(json::parse(alone.out.substr(0, alone.out.find('\n'))).contains("shard"));
}

TEST_F(Shards, AreToldByCheckWithTheirCameras) {
  EXPECT_THAT(run_camd({"check", config(4), "--shard", "0/2"}).out,
              StartsWith("ok\nshard 0/2 has 2 of 4 cameras: c0, c3\n"));
  EXPECT_THAT(run_camd({"check", config(4), "--shard", "1/2"}).out,
              StartsWith("ok\nshard 1/2 has 2 of 4 cameras: c1, c2\n"));
}

// Three of the four that come belong to this one.
TEST_F(Shards, TakeTheirPartOfWhatAReloadBrings) {
  CamdProcess camd({"run", endless(4), "--metrics", "json", "--shard", "0/2"});
  ASSERT_TRUE(camd.read_until([](const CamdProcess& now) { return now.out().find('\n') != std::string::npos; }));
  endless(8);
  camd.signal(SIGHUP);
  ASSERT_TRUE(camd.read_until(
      [](const CamdProcess& now) { return now.out().find(R"("event":"reload")") != std::string::npos; }));
  camd.signal(SIGTERM);
  ASSERT_EQ(camd.wait(), 0) << camd.err();
  EXPECT_EQ(cameras_of({0, camd.out(), ""}), (std::multiset<std::string>{"c0", "c3", "c5", "c6", "c7"}));
}

// A hash may leave a shard empty. A pod that ended then would start again for ever.
TEST_F(Shards, WithoutACameraAreReadyAndTakeThoseThatAReloadBrings) {
  const std::string http = "http: {listen: '127.0.0.1:0'}\n";
  const std::string path = endless(1, http);
  EXPECT_THAT(run_camd({"check", path, "--shard", "1/2"}).out,
              StartsWith("ok\nshard 1/2 has 0 of 1 cameras: it waits for those that a reload brings\n"));
  CamdProcess camd({"run", path, "--metrics", "json", "--shard", "1/2"});
  ASSERT_TRUE(camd.read_until([](const CamdProcess& now) {
    return now.err().find("shard 1/2 has none of the file's cameras: it waits for those that a reload brings") !=
           std::string::npos;
  })) << camd.err();
  const test::Answer empty = answer(camd, "/readyz");
  EXPECT_EQ(empty.status, 200);
  EXPECT_EQ(empty.body, "{\"ready\":true,\"cameras\":0,\"not_running\":0,\"waits_for\":[]}\n");
  EXPECT_EQ(answer(camd, "/healthz").status, 200);
  EXPECT_THAT(answer(camd, "/metrics").body, HasSubstr(",shard=\"1/2\"} 1\n"));
  std::size_t read = 0;  // of stdout, in reloads
  const auto reload = [&](int cameras, const std::string& then) {
    endless(cameras, http);
    camd.signal(SIGHUP);
    return camd.read_until([&](const CamdProcess& now) {
      const std::size_t reloaded = now.out().find(R"("event":"reload")", read);
      if (reloaded == std::string::npos || now.out().find(then, reloaded) == std::string::npos) return false;
      read = reloaded + 1;
      return true;
    });
  };
  ASSERT_TRUE(reload(2, R"("camera":"c1")")) << camd.err();
  ASSERT_TRUE(reload(1, R"("event":"process")")) << camd.err();  // and loses it again
  EXPECT_THAT(answer(camd, "/readyz").body, StartsWith(R"({"ready":true,"cameras":0,)"));
  camd.signal(SIGTERM);
  EXPECT_EQ(camd.wait(), 0) << camd.err();
  EXPECT_EQ(cameras_of({0, camd.out(), ""}), (std::multiset<std::string>{}));
}

TEST_F(Shards, AreRefusedWithoutSense) {
  const Finished wrong = run_camd({"run", config(1), "--shard", "2/2"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err,
              HasSubstr("--shard \"2/2\": write i/n, such as 0/3, with i from 0 to n - 1 and n from 1 to 4096"));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::test
