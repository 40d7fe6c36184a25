// The outputs that a decoder reads, as f32 in host memory; f16 outputs are widened into buffers of our own. Where camd
// has filtered them, only the values of the places that passed are this frame's.
//
// Threads: constructor [setup]; load() and data() [post], one frame at a time.
// Invariants: load() checks every tensor against the shape that outputs() was told, so a decoder's indices stay inside.
//   No allocation after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plugins/camd_plugin.hpp"

namespace camd::plugins {

class TensorSet {
 public:
  // `used`: indices of the model's outputs. Throws std::invalid_argument for a type that is neither f32 nor f16.
  TensorSet(const camd_model& model, std::vector<int> used);

  // [setup] So many filters are declared: one for each of the decoder's levels, in their order.
  void filter(std::size_t levels) { passed_.assign(levels, nullptr); }
  // Throws std::runtime_error when a tensor is not what was declared.
  void load(const camd::plugin::Tensors& tensors);
  // [setup] Reads output `output` from `values` instead: all its elements as f32, which outlive this object.
  void borrow(int output, const float* values) { data_[static_cast<std::size_t>(output)] = values; }
  // Valid until the frame ends.
  [[nodiscard]] const float* data(int output) const noexcept { return data_[static_cast<std::size_t>(output)]; }
  [[nodiscard]] const std::vector<int>& used() const noexcept { return used_; }
  // The places of a level that passed; nothing: all of them are to be looked at.
  [[nodiscard]] std::optional<std::span<const std::int32_t>> passed(int level) const noexcept {
    const auto i = static_cast<std::size_t>(level);
    if (i >= passed_.size() || passed_[i] == nullptr) return std::nullopt;
    return std::span(passed_[i] + 1, static_cast<std::size_t>(*passed_[i]));
  }

 private:
  struct Output {
    std::string name;
    std::vector<std::int64_t> shape;
    bool half = false;
    std::vector<float> widened;
  };
  std::vector<int> used_;
  std::vector<Output> outputs_;  // by the model's index; only the used ones are filled
  std::vector<const float*> data_;
  std::vector<const std::int32_t*> passed_;  // by level; empty: nothing is filtered
};

}  // namespace camd::plugins
