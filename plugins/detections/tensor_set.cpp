// Checking and widening the outputs of a frame.
#include "plugins/detections/tensor_set.hpp"

#include <stdexcept>
#include <utility>

#include "plugins/half.hpp"

namespace camd::plugins {

TensorSet::TensorSet(const camd_model& model, std::vector<int> used)
    : used_(std::move(used)),
      outputs_(static_cast<std::size_t>(model.output_count)),
      data_(static_cast<std::size_t>(model.output_count), nullptr) {
  for (const int i : used_) {
    const camd_tensor_spec& spec = model.outputs[i];
    Output& output = outputs_[static_cast<std::size_t>(i)];
    output.name = spec.name;
    output.shape.assign(spec.shape, spec.shape + spec.ndim);
    output.half = spec.dtype.code == kDLFloat && spec.dtype.bits == 16;
    if (!output.half && !(spec.dtype.code == kDLFloat && spec.dtype.bits == 32)) {
      throw std::invalid_argument("output '" + output.name + "' holds neither f32 nor f16 (DLPack type " +
                                  std::to_string(spec.dtype.code) + " of " + std::to_string(spec.dtype.bits) +
                                  " bits)");
    }
    std::size_t size = 1;
    for (const std::int64_t dim : output.shape) size *= static_cast<std::size_t>(dim);
    if (output.half) output.widened.resize(size);
  }
}

void TensorSet::load(const camd::plugin::Tensors& tensors) {
  for (std::size_t i = 0; i < passed_.size(); ++i) passed_[i] = tensors.passed(static_cast<int>(i));
  for (const int i : used_) {
    Output& output = outputs_[static_cast<std::size_t>(i)];
    const int ndim = static_cast<int>(output.shape.size());
    const DLTensor* tensor = tensors.output(i);
    if (!output.half) {
      data_[static_cast<std::size_t>(i)] =
          camd::plugin::host_tensor<float>(tensor, output.name, output.shape.data(), ndim).data();
      continue;
    }
    // The adaptor has no half type: the same checks under another name.
    DLTensor raw = tensor != nullptr ? *tensor : DLTensor{};
    if (tensor != nullptr && raw.dtype.code == kDLFloat) raw.dtype.code = kDLUInt;
    const auto halves = camd::plugin::host_tensor<std::uint16_t>(tensor != nullptr ? &raw : nullptr, output.name,
                                                                 output.shape.data(), ndim);
    for (std::size_t j = 0; j < output.widened.size(); ++j) {
      output.widened[j] = half_to_float(halves[static_cast<std::int64_t>(j)]);
    }
    data_[static_cast<std::size_t>(i)] = output.widened.data();
  }
}

}  // namespace camd::plugins
