// References to the environment and to files in the texts of a configuration.
#include "config/secrets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/secrets.hpp"
#include "tests/config/helpers.hpp"

namespace camd::config {
namespace CAMD_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class References : public testing::Test {
 protected:
  References() {
    setenv("CAMD_TEST_USER", "anna", 1);
    setenv("CAMD_TEST_PASSWORD", "p@ss/w:ord", 1);
    setenv("CREDENTIALS_DIRECTORY", folder_.c_str(), 1);
    unsetenv("CAMD_TEST_NONE");
    write_file(folder_ / "m.onnx", "");
  }
  ~References() override {
    unsetenv("CREDENTIALS_DIRECTORY");
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] Config load(const std::string& text, const std::vector<std::string>& overrides = {}) const {
    return load_text((folder_ / "c.yaml").string(), text, overrides, {.card_keys = card_keys()});
  }
  [[nodiscard]] std::string url(const std::string& written) const {
    return std::get<RtspSource>(load(with_source("{type: rtsp, url: \"" + written + "\"}")).cameras[0].source).url;
  }
  [[nodiscard]] std::string refusal(const std::string& text) const {
    try {
      (void)load(text);
    } catch (const ConfigErrors& errors) {
      return errors.what();
    }
    return "";
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("camd_references_" + std::to_string(::getpid()));
};

TEST_F(References, AreReadFromTheEnvironmentAndEncodedInALogin) {
  EXPECT_EQ(url("rtsp://${CAMD_TEST_USER}:${CAMD_TEST_PASSWORD}@10.0.0.7/live"),
            "rtsp://anna:p%40ss%2Fw%3Aord@10.0.0.7/live");
  EXPECT_EQ(url("rtsp://10.0.0.7/${CAMD_TEST_PASSWORD}"), "rtsp://10.0.0.7/p@ss/w:ord");
  setenv("CAMD_TEST_URL", "rtsp://u:secret@cam/1", 1);
  EXPECT_EQ(url("${CAMD_TEST_URL}"), "rtsp://u:secret@cam/1");
}

TEST_F(References, AreReadFromCredentialsAndFilesWithoutTheirLineEnd) {
  write_file(folder_ / "door-password", "from systemd\n");
  write_file(folder_ / "secrets/door", "from a file\r\n");
  EXPECT_EQ(url("rtsp://u:${door-password}@cam/1"), "rtsp://u:from%20systemd@cam/1");
  EXPECT_EQ(url("rtsp://u:${file:secrets/door}@cam/1"), "rtsp://u:from%20a%20file@cam/1");
  EXPECT_EQ(url("rtsp://u:${file:" + (folder_ / "secrets/door").string() + "}@cam/1"),
            "rtsp://u:from%20a%20file@cam/1");
}

TEST_F(References, AreReadAgainAtEveryLoad) {
  setenv("CAMD_TEST_PASSWORD", "the second", 1);
  EXPECT_EQ(url("rtsp://u:${CAMD_TEST_PASSWORD}@cam/1"), "rtsp://u:the%20second@cam/1");
}

TEST_F(References, StandInPipelinesInOptionsOfPluginsAndInOverrides) {
  setenv("CAMD_TEST_DIGITS", "12345678", 1);
  const Config config = load(with_source("{type: gstreamer, pipeline: \"rtspsrc user-pw=${CAMD_TEST_PASSWORD}\"}") +
                                 "postprocess:\n  - plugin: jsonl\n    config: {path: \"out/${CAMD_TEST_USER}.jsonl\", "
                                 "deep: [{key: \"${CAMD_TEST_DIGITS}\"}]}\n",
                             {"cameras.0.source.pipeline=x ${CAMD_TEST_USER}"});
  EXPECT_EQ(std::get<GStreamerSource>(config.cameras[0].source).pipeline, "x anna");
  EXPECT_EQ(config.postprocess[0].config_json, R"({"deep":[{"key":"12345678"}],"path":"out/anna.jsonl"})");
}

TEST_F(References, AreEscapedByASecondDollar) {
  EXPECT_EQ(url("rtsp://cam/$${X}$$${CAMD_TEST_USER}$"), "rtsp://cam/${X}$${CAMD_TEST_USER}$");
  EXPECT_EQ(without_references("${X} $${Y} $"), "$${X} $$${Y} $");
}

TEST_F(References, ThatCannotBeReadAreToldAllAtOnceWithTheirPlace) {
  const std::string text =
      "model: {path: \"${CAMD_TEST_USER}\"}\ncameras:\n"
      "  - name: a\n    source: {type: rtsp, url: \"rtsp://${CAMD_TEST_NONE}@cam\"}\n"
      "  - name: b\n    source: {type: rtsp, url: \"rtsp://${file:none}@cam\"}\n"
      "  - name: c\n    source: {type: rtsp, url: \"rtsp://${bad name}@cam\"}\n"
      "  - name: d\n    source: {type: rtsp, url: \"rtsp://${CAMD_TEST_USER\"}\n";
  const std::string told = refusal(text);
  const std::string file = (folder_ / "c.yaml").string();
  EXPECT_THAT(told, HasSubstr(file + ":1:15: model.path: ${...} is read in cameras[].source, postprocess[].config and "
                                     "http.token only"));
  EXPECT_THAT(told,
              HasSubstr(file + ":4:31: cameras.0.source.url: CAMD_TEST_NONE is not set: set it in the environment, "
                               "or load a credential of this name (systemd: LoadCredential=CAMD_TEST_NONE:FILE)"));
  EXPECT_THAT(told,
              HasSubstr(":6:31: cameras.1.source.url: " + (folder_ / "none").string() + ": No such file or directory"));
  EXPECT_THAT(told, HasSubstr(":8:31: cameras.2.source.url: write ${NAME}, ${file:PATH}, or $${ for the text ${"));
  EXPECT_THAT(told, HasSubstr(":10:31: cameras.3.source.url: ${ without its }: write $${ for the text ${"));
}

TEST_F(References, RefuseWhatIsNoLineOfText) {
  const auto told = [&](const std::string& contents) {
    write_file(folder_ / "s", contents);
    return refusal(with_source("{type: rtsp, url: \"rtsp://${file:s}@cam\"}"));
  };
  EXPECT_THAT(told(""), HasSubstr("${file:s} is empty"));
  EXPECT_THAT(told("\n"), HasSubstr("${file:s} is empty"));
  EXPECT_THAT(told("two\nlines\n"), HasSubstr("${file:s} is no single line of UTF-8"));
  EXPECT_THAT(told("\xFF\xFF\xFF\xFF"), HasSubstr("${file:s} is no single line of UTF-8"));
  EXPECT_THAT(told(std::string(5000, 'x')), HasSubstr("is larger than 4096 bytes"));
  std::filesystem::remove(folder_ / "s");
  ASSERT_EQ(mkfifo((folder_ / "s").c_str(), 0600), 0);  // nobody writes: reading it hangs
  EXPECT_THAT(refusal(with_source("{type: rtsp, url: \"rtsp://${file:s}@cam\"}")),
              HasSubstr("is no file that can be read"));
}

TEST_F(References, AreNotRepeatedByMessagesNorByTheSumOfTheConfiguration) {
  setenv("CAMD_TEST_PASSWORD", "never shown", 1);
  const std::string told = refusal(with_source("{type: rtsp, url: \"${CAMD_TEST_PASSWORD}\", latency: 3}") +
                                   "postprocess: [{plugin: jsonl, config: {path: x}}]\n");
  EXPECT_THAT(told, HasSubstr("cameras.0.source.url: expected "));
  EXPECT_THAT(told, Not(HasSubstr("never shown")));
  const std::string wrong =
      refusal(with_source("{type: rtsp, url: \"rtsp://cam\", latency: \"${CAMD_TEST_PASSWORD}\"}"));
  EXPECT_THAT(wrong, HasSubstr("what a reference stands for"));
  EXPECT_THAT(wrong, Not(HasSubstr("never")));
  EXPECT_EQ(base::without_secrets("the password is never shown"), "the password is ***");
  EXPECT_EQ(base::without_secrets("nor never%20shown"), "nor ***");

  const std::string with = with_source("{type: rtsp, url: \"rtsp://u:${CAMD_TEST_PASSWORD}@cam\"}");
  const std::string before = effective_sha256(load(with));
  setenv("CAMD_TEST_PASSWORD", "another one", 1);
  EXPECT_EQ(effective_sha256(load(with)), before);
}

TEST_F(References, AreWordsWhereNothingIsRead) {
  const Config config = load_yaml(with_source("{type: rtsp, url: \"rtsp://${file:/dev/stdin}@cam/$${X}\"}"));
  EXPECT_EQ(std::get<RtspSource>(config.cameras[0].source).url, "rtsp://secret@cam/${X}");
  EXPECT_EQ(effective_text(load_yaml(effective_text(config))), effective_text(config));
}

}  // namespace CAMD_TEST_FILE
}  // namespace camd::config
