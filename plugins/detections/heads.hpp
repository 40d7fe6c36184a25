// Finds what each output of a model holds: which tensor has the classes, boxes or keypoints of each stride, and how its
// elements are addressed, whatever the order of its axes.
//
// Threads: all functions [setup]; Head and Level are plain values.
// Invariants: a bound Head's elements all lie inside its output's declared shape; a frame's tensors are checked against
//   that shape before they are read (TensorSet).
//
// Shapes understood, with k values per anchor, A anchors per cell, h x w cells of one stride, N = h*w*A:
//   [1,A*k,h,w]  [1,h,w,A*k]  [1,A,h,w,k]  [1,h,w,A,k]  [1,N,k]  [N,k]  [1,k,N], and [1,sum N,k] or [1,k,sum N] for all
//   strides in one tensor.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/detections/options.hpp"

namespace camd::plugins {

// Values of one role at one level: element (cell, anchor, channel) is at
// first + cell * cell_step + anchor * anchor_step + channel * channel_step of output `output`.
struct Head {
  int output = -1;  // -1: the model has no such output
  int channels = 0;
  std::int64_t first = 0, cell_step = 0, anchor_step = 0, channel_step = 0;

  [[nodiscard]] bool bound() const noexcept { return output >= 0; }
  // Index of channel 0 of that anchor.
  [[nodiscard]] std::int64_t at(std::int64_t cell, std::int64_t anchor) const noexcept {
    return first + cell * cell_step + anchor * anchor_step;
  }
};

struct Level {
  int stride = 1;
  int width = 0, height = 0;   // cells
  int step_x = 1, step_y = 1;  // network pixels from one cell to the next: `stride`, but with Options::fitted_strides
  int anchors = 1;             // per cell
  std::array<Head, kRoleCount> heads;

  [[nodiscard]] const Head& head(Role role) const noexcept { return heads[static_cast<std::size_t>(role)]; }
  [[nodiscard]] Head& head(Role role) noexcept { return heads[static_cast<std::size_t>(role)]; }
  [[nodiscard]] std::int64_t cells() const noexcept { return static_cast<std::int64_t>(width) * height; }
};

// What a layout expects of one role.
struct RoleRule {
  Role role;
  std::vector<int> channels;  // allowed values per anchor; empty: any
  int multiple_of = 1;        // and a multiple of this
  bool required = true;
  int least = 1;  // fewest channels of an anchor
  // Channels where nothing else tells; the first where one tensor holds several roles that may vary. Empty: any.
  std::vector<int> usual{};
  bool most = false;  // of several outputs that could be it, the one with the most channels is
};

struct HeadRules {
  std::vector<RoleRule> roles;
  // One tensor holding all roles' channels one after the other, in the order of `fused` (yolox: box, obj, cls);
  // empty: the layout has no such form.
  std::vector<Role> fused;
  std::vector<int> anchors;  // per stride; one entry: the same for every stride
};

// The declared shape of output `i` as text for messages: "cls_8 [1,4,45,80]".
[[nodiscard]] std::string describe_output(const camd_model& model, int i);
// All outputs, each as describe_output() writes it, joined by ", ".
[[nodiscard]] std::string describe_outputs(const camd_model& model);
// Index of the output of that name, or throws std::invalid_argument ("undeclared output ...", did you mean).
[[nodiscard]] int find_output(const camd_model& model, const std::string& name);

// `output` as the values of one level; `channels` of what it gives is the number of values per anchor. Nothing when the
// shape is another.
[[nodiscard]] std::optional<Head> head_of_level(const camd_model& model, int output, const Level& level);
// Whether an output's name says that it holds `role`: exporters name them in many ways, some parts are common.
[[nodiscard]] bool hints_at(const std::string& name, Role role);

// Finds the outputs of all roles at every stride; those that are not `required` may stay unbound. Throws
// std::invalid_argument with the first problem.
[[nodiscard]] std::vector<Level> bind_heads(const camd_model& model, const Options& options, const HeadRules& rules);

}  // namespace camd::plugins
