// Layouts `centernet` and `centerface`: a map of how likely a cell is the centre of an object, and maps of its size and
// of where in the cell the centre lies.
//   centernet (Zhou et al., "Objects as Points", 2019): a cell counts where none of its eight neighbours scores higher
//     cx = (column + offset0) * stride   w = size0 * stride
//   Of four sizes each is the distance to one side (Zhang et al., "FairMOT", 2021; ifzhang/FairMOT,
//   lib/models/decode.py). centerface (Xu et al., "CenterFace", 2019; Star-Clouds/CenterFace,
//   prj-python/centerface.py): height and y first
//     cy = (row + 0.5 + offset0) * stride   h = exp(size0) * stride   keypoint y = top + k0 * h
#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "plugins/detections/decoder.hpp"

namespace camd::plugins {
namespace {

constexpr int kSides = 4;

class Centernet final : public Decoder {
 public:
  Centernet(std::vector<Level> levels, Scores scores) : Decoder(std::move(levels), std::move(scores)) {}

  // A peak is higher than the cells around it.
  [[nodiscard]] std::optional<First> looks_first() const override { return std::nullopt; }

  void scan(const TensorSet& tensors, Candidates& candidates) override {
    const Level& level = levels_.front();
    const Head& head = level.head(Role::kCls);
    const float floor = scores_.raw_floor(scores_.lowest());
    for (int k = 0; k < scores_.classes(); ++k) {
      const float* const map = tensors.data(head.output) + head.first + k * head.channel_step;
      Scores::scan_run(map, level.cells(), head.cell_step, floor, [&](std::int64_t cell, float raw) {
        if (is_peak(level, map, head.cell_step, cell, raw)) {
          scores_.offer(scores_.probability(raw), k, 0, 0, cell, candidates);
        }
      });
    }
  }

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    const GridCell at = cell_of(c);
    const auto stride = static_cast<float>(at.level.stride);
    const Values size = values(tensors, Role::kBox, c);
    Point within{0.5F, 0.5F};
    if (at.level.head(Role::kOffset).bound()) {
      const Values offset = values(tensors, Role::kOffset, c);
      within = {offset[0], offset[1]};
    }
    const float x = (at.column + within.x) * stride, y = (at.row + within.y) * stride;
    if (at.level.head(Role::kBox).channels == kSides) {
      return {x - size[0] * stride, y - size[1] * stride, x + size[2] * stride, y + size[3] * stride};
    }
    const float half_width = 0.5F * size[0] * stride, half_height = 0.5F * size[1] * stride;
    return {x - half_width, y - half_height, x + half_width, y + half_height};
  }

 private:
  static bool is_peak(const Level& level, const float* map, std::int64_t step, std::int64_t cell,
                      float value) noexcept {
    const std::int64_t row = cell / level.width, column = cell % level.width;
    for (std::int64_t y = row > 0 ? row - 1 : 0; y <= row + 1 && y < level.height; ++y) {
      for (std::int64_t x = column > 0 ? column - 1 : 0; x <= column + 1 && x < level.width; ++x) {
        if (map[(y * level.width + x) * step] > value) return false;
      }
    }
    return true;
  }
};

class Centerface final : public Decoder {
 public:
  Centerface(std::vector<Level> levels, Scores scores) : Decoder(std::move(levels), std::move(scores)) {}

  [[nodiscard]] Box box(const TensorSet& tensors, const Candidate& c) const override {
    const GridCell at = cell_of(c);
    const auto stride = static_cast<float>(at.level.stride);
    const Values size = values(tensors, Role::kBox, c), offset = values(tensors, Role::kOffset, c);
    const float x = (at.column + 0.5F + offset[1]) * stride, y = (at.row + 0.5F + offset[0]) * stride;
    const float half_width = 0.5F * bounded_exp(size[1]) * stride, half_height = 0.5F * bounded_exp(size[0]) * stride;
    return {x - half_width, y - half_height, x + half_width, y + half_height};
  }

  void keypoints(const TensorSet& tensors, const Candidate& c, Point* points) const override {
    const Box of = box(tensors, c);
    const Values l = values(tensors, Role::kKps, c);
    for (int k = 0; k < keypoint_count(); ++k) {
      points[k] = {of.x0 + l[2 * k + 1] * (of.x1 - of.x0), of.y0 + l[2 * k] * (of.y1 - of.y0)};
    }
  }
};

// What is wanted of one map.
struct Wanted {
  Role role;
  int channels;  // 0: any
  bool required;
  std::array<const char*, 3> words;  // of which its name has one
};

bool is_named(const std::string& name, const Wanted& wanted) {
  for (const char* word : wanted.words) {
    if (*word != '\0' && name.find(word) != std::string::npos) return true;
  }
  return false;
}

// Finds the maps: by `outputs:`, by names, else in the order in which such models put them out.
std::vector<Level> bind_maps(const camd_model& model, const Options& options, const std::vector<Wanted>& maps) {
  if (model.input.ndim != 4) throw std::invalid_argument("the model's input is no picture");
  constexpr int kUsualStride = 4;
  Level level;
  level.stride = options.strides.empty() ? kUsualStride : options.strides.front();
  level.height = static_cast<int>(model.input.shape[2] / level.stride);
  level.width = static_cast<int>(model.input.shape[3] / level.stride);
  std::vector<bool> taken(static_cast<std::size_t>(model.output_count), false);
  const auto take = [&](const Wanted& wanted, auto&& fits) {
    for (int i = 0; i < model.output_count && !level.head(wanted.role).bound(); ++i) {
      if (taken[static_cast<std::size_t>(i)] || model.outputs[i].ndim != 4) continue;
      const auto head = head_of_level(model, i, level);
      if (!head || (wanted.channels != 0 && head->channels != wanted.channels)) continue;
      if (!fits(std::string(model.outputs[i].name))) continue;
      level.head(wanted.role) = *head;
      taken[static_cast<std::size_t>(i)] = true;
    }
  };
  for (const Wanted& wanted : maps) {
    const auto& names = options.outputs[static_cast<std::size_t>(wanted.role)];
    if (names.empty()) continue;
    static_cast<void>(find_output(model, names.front()));
    take(wanted, [&](const std::string& name) { return name == names.front(); });
  }
  for (const Wanted& wanted : maps) {
    take(wanted, [&](const std::string& name) { return is_named(name, wanted); });
  }
  for (const Wanted& wanted : maps) {
    take(wanted, [](const std::string&) { return true; });
    if (level.head(wanted.role).bound() || !wanted.required) continue;
    const std::string channels = wanted.channels == 0 ? "C" : std::to_string(wanted.channels);
    throw std::invalid_argument("no map of '" + std::string(to_string(wanted.role)) + "', wanted [1," + channels + "," +
                                std::to_string(level.height) + "," + std::to_string(level.width) +
                                "]; the model's outputs are " + describe_outputs(model));
  }
  return {level};
}

Scores scores_of(const Options& options, const std::vector<Level>& levels) {
  Options no_background = options;
  no_background.background = false;
  return {no_background, levels.front().head(Role::kCls).channels, false};
}

}  // namespace

std::unique_ptr<Decoder> make_centernet(const camd_model& model, const Options& options) {
  const auto maps = [&](int sizes) {
    return bind_maps(model, options,
                     {{Role::kCls, static_cast<int>(options.classes.size()), true, {"hm", "heat", "cls"}},
                      {Role::kBox, sizes, true, {"wh", "size", ""}},
                      {Role::kOffset, 2, false, {"reg", "off", ""}}});
  };
  const bool sides = std::any_of(model.outputs, model.outputs + model.output_count, [](const auto& output) {
    return output.ndim == 4 && output.shape[1] == kSides &&
           is_named(output.name, {Role::kBox, 0, true, {"wh", "size", ""}});
  });
  auto levels = maps(sides ? kSides : 2);
  Scores scores = scores_of(options, levels);
  return std::make_unique<Centernet>(std::move(levels), std::move(scores));
}

std::unique_ptr<Decoder> make_centerface(const camd_model& model, const Options& options) {
  const int points = options.keypoints.value_or(5);
  std::vector<Wanted> maps = {{Role::kCls, 1, true, {"hm", "heat", "cls"}},
                              {Role::kBox, 2, true, {"scale", "wh", "size"}},
                              {Role::kOffset, 2, true, {"off", "reg", ""}}};
  if (points > 0) maps.push_back({Role::kKps, 2 * points, options.keypoints.has_value(), {"land", "lm", "kps"}});
  auto levels = bind_maps(model, options, maps);
  Scores scores = scores_of(options, levels);
  return std::make_unique<Centerface>(std::move(levels), std::move(scores));
}

}  // namespace camd::plugins
