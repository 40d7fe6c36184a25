// The built-in `codes`: reads what is in the QR codes and markers that a detector has found.
//
// Threads: as every plug-in (camd_plugin.h).
// Invariants: what was read of a track is kept and not read again; process() [no-alloc] then. A frame costs at most
//   `tries` attempts, and a code that cannot be read is tried less and less often, so that it does not hold up others.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/codes/pose.hpp"
#include "plugins/codes/reader.hpp"
#include "plugins/json_object.hpp"
#include "plugins/per_camera.hpp"
#include "plugins/tables.hpp"

namespace camd::plugins {
namespace {

using codes::Corners;
using codes::Intrinsics;
using codes::Pose;
using codes::Reader;

constexpr std::size_t kRemembered = 256;  // tracks of a camera

// What is known of one track.
struct Known {
  std::uint64_t track_id = 0;
  std::uint64_t used = 0;  // the camera's frame in which it was last seen
  std::uint32_t tries = 0;
  std::int64_t tried_ns = 0;  // when it was tried last
  float side = 0.0F;          // its mean side then, in pixels
  bool is_read = false;
  char text[CAMD_TEXT_BYTES] = {};
  char once[CAMD_TEXT_BYTES] = {};  // of a marker that was read so, once
};

// How long a code is left alone that could not be read in so many attempts. The first ones come frame by frame, as a
// hand or a blur may be gone by then.
std::int64_t rest_ns(std::uint32_t tries) noexcept {
  constexpr std::uint32_t kAtOnce = 4;
  constexpr std::int64_t kFirst = 50'000'000, kLongest = 1'000'000'000;
  return tries < kAtOnce ? 0 : std::min(kLongest, kFirst << std::min(tries - kAtOnce, 8U));
}

// Whether it is too early to try again a code with a mean side of `side`: one that has come nearer may be read at once.
bool rests(const Known& known, std::int64_t now_ns, float side) noexcept {
  const std::int64_t passed = now_ns - known.tried_ns;
  return passed >= 0 && passed < rest_ns(known.tries) && side < 1.1F * known.side;
}

bool contains_name(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Corners corners_of(const camd_detection& d) noexcept {
  Corners corners;
  for (std::size_t i = 0; i < 4; ++i) corners[i] = {d.keypoints[i][0], d.keypoints[i][1]};
  return corners;
}

struct CodesOptions {
  std::vector<std::string> qr, markers;
  int tries = 4;
  float min_side = 16.0F;
  std::optional<Intrinsics> intrinsics;
  double marker_size = 0.0;
  std::unique_ptr<Reader> reader;
};

void read_pose(JsonObject& config, CodesOptions& read) {
  const auto numbers = config.numbers("intrinsics", 0.0, 1e6);
  const auto size = config.number("marker_size", 0.001, 100.0);
  if (numbers && (numbers->size() != 4 || (*numbers)[0] == 0.0 || (*numbers)[1] == 0.0)) {
    config.fail("intrinsics", "must be [fx, fy, cx, cy] in pixels");
  } else if (numbers) {
    read.intrinsics = Intrinsics{(*numbers)[0], (*numbers)[1], (*numbers)[2], (*numbers)[3]};
  }
  if (numbers.has_value() != size.has_value()) {
    config.fail(numbers ? "marker_size" : "intrinsics",
                "is needed for poses, too: `intrinsics` and `marker_size` belong together");
  }
  read.marker_size = size.value_or(0.0);
}

CodesOptions read_options(JsonObject& config) {
  CodesOptions read;
  read.qr = config.texts("qr").value_or(std::vector<std::string>{"qr"});
  read.markers = config.texts("markers").value_or(std::vector<std::string>{"marker"});
  const auto families =
      config.texts("families")
          .value_or(std::vector<std::string>{"apriltag_36h11", "aruco_4x4_50", "aruco_5x5_100", "aruco_6x6_250"});
  if (const auto tries = config.integer("tries", 1, 100)) read.tries = static_cast<int>(*tries);
  if (const auto side = config.number("min_side", 8.0, 4096.0)) read.min_side = static_cast<float>(*side);
  read_pose(config, read);
  try {
    read.reader = std::make_unique<Reader>(families);
  } catch (const std::invalid_argument& e) {
    config.fail("families", e.what());
  }
  return read;
}

class Codes final : public camd::plugin::Postprocessor {
 public:
  Codes(camd::plugin::Host host, std::string_view config_json) : host_(host), events_(host.events()) {
    CodesOptions read = read_config(config_json, read_options);
    qr_ = std::move(read.qr);
    markers_ = std::move(read.markers);
    tries_ = read.tries;
    min_side_ = read.min_side;
    intrinsics_ = read.intrinsics;
    marker_size_ = read.marker_size;
    reader_ = std::move(read.reader);
    read_count_ = host_.counter("read");
    tried_ = host_.counter("tried");
  }

  static void check(const camd::plugin::Check& check) { check_config(check, read_options); }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    needs.picture(CAMD_NEED_HOST);
    waiting_.reserve(CAMD_MAX_DETECTIONS);
    views_.fill(model, [](const char* /*name*/) { return std::make_unique<View>(); });
  }

  void process(const camd_frame& frame, const camd::plugin::Tensors& /*tensors*/,
               camd::plugin::Results& results) override {
    if (frame.picture == nullptr) throw std::runtime_error("the picture that was asked for is not there");
    View& view = views_.of(frame);
    ++view.frame;
    waiting_.clear();
    for (int i = 0; i < results.size(); ++i) {
      camd_detection& d = results[i];
      const bool is_marker = contains_name(markers_, d.class_name);
      if (d.keypoint_count < 4 || (!is_marker && !contains_name(qr_, d.class_name))) continue;
      Known* known = d.track_id != 0 ? view.find(d.track_id) : nullptr;
      if (known != nullptr && known->is_read) {
        camd::plugin::copy_text(d.text, known->text);
        // The pose of a marker is asked for in every frame.
        if (!is_marker || !intrinsics_) continue;
      } else if (known != nullptr && rests(*known, frame.captured_mono_ns, codes::mean_side(corners_of(d)))) {
        continue;
      }
      waiting_.push_back({known != nullptr ? known->tries : 0, i, is_marker});
    }
    // Those that were tried least come first, so that none waits for another that cannot be read.
    const std::size_t now = std::min(waiting_.size(), static_cast<std::size_t>(tries_));
    std::partial_sort(
        waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(now), waiting_.end(),
        [](const Waiting& a, const Waiting& b) { return std::tie(a.tries, a.place) < std::tie(b.tries, b.place); });
    for (std::size_t i = 0; i < now; ++i) attempt(frame, view, results[waiting_[i].place], waiting_[i].is_marker);
  }

  std::unique_ptr<Camera> open_camera(int /*index*/, const char* /*name*/) override { return std::make_unique<View>(); }
  std::unique_ptr<Camera> exchange_camera(int index, std::unique_ptr<Camera> camera) noexcept override {
    return views_.exchange(index, std::move(camera));
  }

 private:
  struct View final : Camera {
    View() { known.reserve(kRemembered); }
    // What is known of a track, made if need be in the place of the one that was not seen for longest.
    Known* find(std::uint64_t track_id) {
      auto found = std::find_if(known.begin(), known.end(), [&](const Known& k) { return k.track_id == track_id; });
      if (found == known.end()) {
        if (known.size() < kRemembered) {
          found = known.emplace(known.end());
        } else {
          found = std::min_element(known.begin(), known.end(),
                                   [](const Known& a, const Known& b) { return a.used < b.used; });
          *found = Known{};
        }
        found->track_id = track_id;
      }
      found->used = frame;
      return &*found;
    }
    std::uint64_t frame = 0;
    std::vector<Known> known;
  };
  // A detection that has not been read.
  struct Waiting {
    std::uint32_t tries = 0;
    int place = 0;
    bool is_marker = false;
  };

  // The corners where the code is worth an attempt.
  [[nodiscard]] std::optional<Corners> readable(const camd_detection& d) const {
    const Corners corners = corners_of(d);
    if (!codes::is_quad(corners) || codes::mean_side(corners) < min_side_) return std::nullopt;
    return corners;
  }

  void attempt(const camd_frame& frame, View& view, camd_detection& d, bool is_marker) {
    const camd_picture& picture = *frame.picture;
    const std::optional<Corners> corners = readable(d);
    if (!corners) return;
    tried_.add();
    Known* known = d.track_id != 0 ? view.find(d.track_id) : nullptr;
    if (known != nullptr) {
      ++known->tries;
      known->tried_ns = frame.captured_mono_ns;
      known->side = codes::mean_side(*corners);
    }
    if (!is_marker) {
      // Of a track by turns, as another frame comes soon: an attempt is cheaper so.
      const codes::Looks looks = known == nullptr        ? codes::Looks::kAll
                                 : known->tries % 2 == 1 ? codes::Looks::kUsual
                                                         : codes::Looks::kOther;
      const std::optional<std::string> text = reader_->qr(picture, *corners, looks);
      if (text && !text->empty()) note(d, known, *text);
      return;
    }
    const std::optional<codes::MarkerRead> read = reader_->marker(picture, *corners);
    if (!read) return;
    if (known == nullptr || (!known->is_read && read->text == known->once)) {
      note(d, known, read->text);
    } else if (!known->is_read) {
      camd::plugin::copy_text(known->once, read->text);  // few bits may be right by chance: two frames have to agree
      known->side = 0.0F;                                // so the next one is asked at once
    }
    if (!intrinsics_ || read->text != d.text) return;
    Corners own = *corners;
    std::rotate(own.begin(), own.begin() + read->turn, own.end());
    tell_pose(d, own);
  }

  void note(camd_detection& d, Known* known, const std::string& text) {
    camd::plugin::copy_text(d.text, text);
    read_count_.add();
    if (known == nullptr) return;
    camd::plugin::copy_text(known->text, text);
    known->is_read = true;
    static_cast<void>(events_.add(camd::plugin::Event("code_read").track(d.track_id).number("tries", known->tries)));
  }

  void tell_pose(const camd_detection& d, const Corners& own) {
    const std::optional<Pose> pose = codes::find_pose(own, *intrinsics_, marker_size_);
    if (!pose) return;
    camd::plugin::Event event("pose");
    event.track(d.track_id).zone(d.text);
    constexpr std::array<const char*, 6> kNames = {"x", "y", "z", "rx", "ry", "rz"};
    for (std::size_t i = 0; i < 3; ++i) event.number(kNames[i], pose->position[i]);
    for (std::size_t i = 0; i < 3; ++i) event.number(kNames[i + 3], pose->rotation[i]);
    event.number("error_px", pose->error_px);
    static_cast<void>(events_.add(event));
  }

  camd::plugin::Host host_;
  camd::plugin::Events events_;
  camd::plugin::Counter read_count_, tried_;
  std::vector<std::string> qr_, markers_;  // names of the classes
  int tries_ = 4;
  float min_side_ = 16.0F;
  std::optional<Intrinsics> intrinsics_;
  double marker_size_ = 0.0;
  std::unique_ptr<Reader> reader_;
  std::vector<Waiting> waiting_;
  PerCamera<View> views_;
};

}  // namespace

const camd_plugin* codes_table() noexcept {
  static constexpr camd_plugin kTable = camd::plugin::make_table<Codes>(
      "codes", "1.0.0", "reads QR codes and the numbers of ArUco and AprilTag markers where a detector has found them");
  return &kTable;
}

}  // namespace camd::plugins
