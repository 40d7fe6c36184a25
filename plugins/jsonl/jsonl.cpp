// The built-in `jsonl`: one JSON object per frame and line (docs/plugins.md has the fields in their order).
//
// Threads: as every plug-in (camd_plugin.h).
// Invariants: a line is there whole or not at all; after warm-up a frame costs no allocation and one write(2).
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/frame_json.hpp"
#include "plugins/json_object.hpp"
#include "plugins/jsonl/line_file.hpp"
#include "plugins/paths.hpp"
#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

// Room for a line of CAMD_MAX_DETECTIONS detections with a handful of keypoints each: a frame with more detections than
// any before costs no allocation. Memory that no line reaches is never touched.
constexpr std::size_t kLineBytes = std::size_t{1} << 22U;

struct JsonlOptions {
  std::string path;
  bool append = true;
};

JsonlOptions read_options(JsonObject& config) {
  JsonlOptions options;
  const auto path = config.text("path");
  if (!config.has("path") || (path && path->empty())) {
    config.fail("path", "is needed: the file to write, e.g. out/detections.jsonl");
  }
  options.path = path.value_or("");
  if (const std::string problem = time_problem(options.path); !problem.empty()) config.fail("path", problem);
  if (options.path == "-") config.fail("path", "'-' is stdout, which carries the metrics: name a file");
  options.append = config.boolean("append").value_or(true);
  return options;
}

bool is_per_camera(const std::string& path) { return path.find("{camera}") != std::string::npos; }

class Jsonl final : public camd::plugin::Postprocessor {
 public:
  Jsonl(camd::plugin::Host host, std::string_view config_json) : host_(host), events_(host.events()) {
    JsonObject config("config", config_json);
    const JsonlOptions options = read_options(config);
    config.finish();
    path_ = options.path;
    append_ = options.append;
    line_.reserve(kLineBytes);
    // Without a camera in its name there is one file: opened now, so that the reason is said as early as can be.
    if (!is_per_camera(path_)) files_.push_back(std::make_unique<LineFile>(path_, append_, host_.reloads()));
  }

  static void check(const camd::plugin::Check& check) {
    JsonObject config("config", check.config_json());
    const std::string path = read_options(config).path;
    config.report(check);
    if (path.empty() || path == "-" || !time_problem(path).empty()) return;
    try {
      std::vector<std::string> parts = {""};
      if (is_per_camera(path)) parts = camera_parts(check.camera_names());
      for (const std::string& part : parts) {
        const LineFile::Finding found = LineFile::look_at(camera_path(path, part, false));
        if (!found.problem.empty()) {
          check.mistake("path", found.problem);
        } else if (found.regular) {
          check.claim("path", found.path);
        }
      }
    } catch (const std::invalid_argument& same_names) {
      check.mistake("path", same_names.what());
    }
  }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    static_cast<void>(needs);  // reads `results` alone
    per_camera_ = files_.empty();
    if (!per_camera_) return;
    for (const std::string& part : camera_parts(model)) {
      if (part.empty()) {  // nobody has that place
        files_.push_back(nullptr);
        continue;
      }
      files_.push_back(std::make_unique<LineFile>(camera_path(path_, part, true), append_, host_.reloads()));
    }
  }

  void process(const camd_frame& frame, const camd::plugin::Tensors& tensors, camd::plugin::Results& results) override {
    static_cast<void>(tensors);
    const std::int64_t now_ns = host_.now_mono_ns();
    line_.clear();
    put_frame(line_, frame, results, events_, now_ns);
    line_.push_back('\n');
    LineFile& file = *files_.at(per_camera_ ? static_cast<std::size_t>(frame.camera_index) : 0);
    if (const std::string told = file.follow(now_ns); !told.empty()) host_.log(CAMD_LOG_WARN, "jsonl: " + told);
    file.append(std::string_view(line_.data(), line_.size()));
  }

  void reopen() override {
    std::string problems;
    for (const auto& file : files_) {
      try {
        if (file) file->reopen();
      } catch (const std::exception& problem) {
        problems += (problems.empty() ? "" : "; ") + std::string(problem.what());
      }
    }
    if (!problems.empty()) throw std::runtime_error(problems);
  }

  void finish() override {
    for (const auto& file : files_) {
      if (file) file->close();
    }
  }

  std::unique_ptr<Camera> open_camera(int /*index*/, const char* name) override {
    if (!per_camera_) return nullptr;
    auto opened = std::make_unique<OneFile>();
    opened->file = std::make_unique<LineFile>(camera_path(path_, file_part(name), true), append_, host_.reloads());
    return opened;
  }
  std::unique_ptr<Camera> exchange_camera(int index, std::unique_ptr<Camera> camera) noexcept override {
    if (!per_camera_) return camera;
    const auto place = static_cast<std::size_t>(index);
    if (files_.size() <= place) files_.resize(place + 1);
    auto before = std::make_unique<OneFile>();
    before->file = std::move(files_[place]);
    if (camera) files_[place] = std::move(static_cast<OneFile&>(*camera).file);
    return before;
  }

 private:
  struct OneFile final : Camera {
    void finish() override {
      if (file) file->close();
    }
    std::unique_ptr<LineFile> file;
  };

  camd::plugin::Host host_;
  camd::plugin::Events events_;
  std::string path_;
  bool append_ = true;
  bool per_camera_ = false;
  std::vector<std::unique_ptr<LineFile>> files_;  // one, or one per camera
  JsonBuffer line_;
};

}  // namespace

const camd_plugin* jsonl_table() noexcept {
  static constexpr camd_plugin kTable =
      camd::plugin::make_table<Jsonl>("jsonl", "1.0.0", "writes one JSON object per frame into a file");
  return &kTable;
}

}  // namespace camd::plugins
