// The built-in `detections`: decodes a detector's raw outputs into boxes, keypoints and classes in source pixels.
//
// Threads: as every plug-in (camd_plugin.h).
// Invariants: what process() adds is finite, inside the picture (boxes) and sorted by score; no allocation per frame.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "plugins/camd_plugin.hpp"
#include "plugins/detections/decoder.hpp"
#include "plugins/detections/options.hpp"
#include "plugins/json_object.hpp"
#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

class Detections final : public camd::plugin::Postprocessor {
 public:
  Detections(camd::plugin::Host host, std::string_view config_json) : host_(host), config_(config_json) {
    // What is wrong in the configuration alone is said before a model is read.
    static_cast<void>(read_options("{}", config_));
  }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    const Options options = read_options(model.card_json != nullptr ? model.card_json : "{}", config_);
    if (!options.layout) {
      throw std::invalid_argument("config.layout: missing, and the model has no card that names one; " +
                                  suggestion(model, options));
    }
    try {
      decoder_ = make_decoder(*options.layout, model, options);
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument("layout '" + std::string(to_string(*options.layout)) + "': " + e.what());
    }
    tensors_.emplace(model, decoder_->used_outputs());
    for (const int output : tensors_->used()) needs.output(output, CAMD_NEED_HOST);
    nms_ = options.nms;
    max_ = options.max;
    kept_.reserve(static_cast<std::size_t>(max_));
  }

  void process(const camd_frame& frame, const camd::plugin::Tensors& tensors, camd::plugin::Results& results) override {
    tensors_->load(tensors);
    candidates_.clear();
    decoder_->scan(*tensors_, candidates_);
    kept_.clear();
    for (const Candidate& candidate : candidates_.sorted()) {
      if (kept_.size() == static_cast<std::size_t>(max_)) break;
      const Box box = decoder_->box(*tensors_, candidate);
      // False for NaN as well.
      if (!(box.x1 > box.x0 && box.y1 > box.y0) || !std::isfinite(box.x0 + box.y0 + box.x1 + box.y1)) continue;
      const bool again = std::any_of(kept_.begin(), kept_.end(), [&](const Kept& k) {
        return k.class_id == candidate.class_id && overlap(k.box, box) > nms_;
      });
      if (again) continue;
      if (!add(frame, candidate, box, results)) continue;
      kept_.push_back({candidate.class_id, box});
    }
    warn_about_scores();
  }

 private:
  struct Kept {
    std::int32_t class_id;
    Box box;
  };

  // False when the box lies outside the picture or a keypoint is not a number: then it counts for nothing.
  bool add(const camd_frame& frame, const Candidate& candidate, const Box& box, camd::plugin::Results& results) {
    using camd::plugin::source_x;
    using camd::plugin::source_y;
    const auto width = static_cast<float>(frame.width), height = static_cast<float>(frame.height);
    const float x0 = std::clamp(source_x(frame, box.x0), 0.0F, width);
    const float y0 = std::clamp(source_y(frame, box.y0), 0.0F, height);
    const float x1 = std::clamp(source_x(frame, box.x1), 0.0F, width);
    const float y1 = std::clamp(source_y(frame, box.y1), 0.0F, height);
    if (!(x1 > x0 && y1 > y0)) return false;
    const int count = decoder_->keypoint_count();
    std::array<Point, CAMD_MAX_KEYPOINTS> points;
    if (count > 0) decoder_->keypoints(*tensors_, candidate, points.data());
    for (int k = 0; k < count; ++k) {
      Point& point = points[static_cast<std::size_t>(k)];
      point = {source_x(frame, point.x), source_y(frame, point.y)};
      if (!std::isfinite(point.x) || !std::isfinite(point.y)) return false;
    }
    camd_detection* added = results.add();
    if (added == nullptr) return true;  // the list is full; best scores came first
    added->class_id = candidate.class_id;
    added->score = candidate.score;
    added->box[0] = x0;
    added->box[1] = y0;
    added->box[2] = x1 - x0;
    added->box[3] = y1 - y0;
    added->keypoint_count = count;
    for (int k = 0; k < count; ++k) {
      added->keypoints[k][0] = points[static_cast<std::size_t>(k)].x;
      added->keypoints[k][1] = points[static_cast<std::size_t>(k)].y;
    }
    camd::plugin::copy_text(added->class_name, decoder_->scores().name(candidate.class_id));
    return true;
  }

  void warn_about_scores() {
    if (warned_ || decoder_->scores().out_of_range() == 0) return;
    warned_ = true;
    host_.log(CAMD_LOG_WARN,
              "detections: class scores above 1 are left out: if the model gives logits, set `scores: logits`");
  }

  // Which layouts would take this model: those that leave the fewest outputs unread.
  static std::string suggestion(const camd_model& model, const Options& options) {
    std::vector<std::string> fitting;
    std::size_t most = 0;
    for (const std::string& name : layout_names()) {
      try {
        const std::size_t used = make_decoder(parse_layout(name), model, options)->used_outputs().size();
        if (used > most) fitting.clear();
        most = std::max(most, used);
        if (used == most) fitting.push_back(name);
      } catch (const std::exception&) {
        continue;  // does not fit
      }
    }
    // `ssd` takes any list of rows: one that knows strides says more.
    if (fitting.size() > 1) fitting.erase(std::remove(fitting.begin(), fitting.end(), "ssd"), fitting.end());
    if (fitting.empty()) return "known are " + joined(layout_names());
    return "the model's outputs look like " + joined(fitting);
  }

  camd::plugin::Host host_;
  std::string config_;
  std::unique_ptr<Decoder> decoder_;
  std::optional<TensorSet> tensors_;
  Candidates candidates_;
  std::vector<Kept> kept_;
  float nms_ = 0.0F;
  int max_ = 0;
  bool warned_ = false;
};

}  // namespace

const camd_plugin* detections_table() noexcept {
  static constexpr camd_plugin kTable = camd::plugin::make_table<Detections>(
      "detections", "1.0.0", "decodes a detector's outputs into boxes, keypoints and classes in source pixels");
  return &kTable;
}

}  // namespace camd::plugins
