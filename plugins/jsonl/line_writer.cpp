#include "plugins/jsonl/line_writer.hpp"

#include <stdexcept>

#include "plugins/json_object.hpp"
#include "plugins/paths.hpp"

namespace camd::plugins {
namespace {

// Room for the lines of CAMD_MAX_DETECTIONS detections with a handful of keypoints each: a frame with more detections
// than any before costs no allocation. Memory that no line reaches is never touched.
constexpr std::size_t kLineBytes = std::size_t{1} << 22U;

struct LineOptions {
  std::string path;
  bool append = true;
};

LineOptions read_options(JsonObject& config) {
  LineOptions options;
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

}  // namespace

LineWriter::LineWriter(camd::plugin::Host host, std::string_view config_json, std::string_view name, PutLines put_lines)
    : host_(host), events_(host.events()), name_(name), put_lines_(put_lines) {
  JsonObject config("config", config_json);
  const LineOptions options = read_options(config);
  config.finish();
  path_ = options.path;
  append_ = options.append;
  lines_.reserve(kLineBytes);
  // Without a camera in its name there is one file: opened now, so that the reason is said as early as can be.
  if (!is_per_camera(path_)) files_.push_back(std::make_unique<LineFile>(path_, append_, host_.reloads()));
}

void LineWriter::check(const camd::plugin::Check& check) {
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

void LineWriter::outputs(const camd_model& model, camd::plugin::Needs& needs) {
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

void LineWriter::process(const camd_frame& frame, const camd::plugin::Tensors& tensors,
                         camd::plugin::Results& results) {
  static_cast<void>(tensors);
  const std::int64_t now_ns = host_.now_mono_ns();
  lines_.clear();
  put_lines_(lines_, frame, results, events_, now_ns);
  LineFile& file = *files_.at(per_camera_ ? static_cast<std::size_t>(frame.camera_index) : 0);
  if (const std::string told = file.follow(now_ns); !told.empty())
    host_.log(CAMD_LOG_WARN, std::string(name_) + ": " + told);
  if (lines_.size() > 0) file.append(std::string_view(lines_.data(), lines_.size()));
}

void LineWriter::reopen() {
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

void LineWriter::finish() {
  for (const auto& file : files_) {
    if (file) file->close();
  }
}

std::unique_ptr<LineWriter::Camera> LineWriter::open_camera(int /*index*/, const char* name) {
  if (!per_camera_) return nullptr;
  auto opened = std::make_unique<OneFile>();
  opened->file = std::make_unique<LineFile>(camera_path(path_, file_part(name), true), append_, host_.reloads());
  return opened;
}
std::unique_ptr<LineWriter::Camera> LineWriter::exchange_camera(int index, std::unique_ptr<Camera> camera) noexcept {
  if (!per_camera_) return camera;
  const auto place = static_cast<std::size_t>(index);
  if (files_.size() <= place) files_.resize(place + 1);
  auto before = std::make_unique<OneFile>();
  before->file = std::move(files_[place]);
  if (camera) files_[place] = std::move(static_cast<OneFile&>(*camera).file);
  return before;
}

}  // namespace camd::plugins
