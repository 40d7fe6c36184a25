#include "conformance.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "infer/graph/lowering.hpp"
#include "infer/graph/read_tensor.hpp"
#include "tests/support/paths.hpp"

namespace camd::infer::test {
namespace {

namespace fs = std::filesystem;

// Cases of supported operators that camd refuses, or where it differs, on purpose.
constexpr const char* kLeftOut[] = {
    // three spatial dimensions
    "test_averagepool_3d_default",
    "test_convtranspose_3d",
    "test_maxpool_3d_default",
    // training
    "test_batchnorm_epsilon_training_mode",
    "test_batchnorm_example_training_mode",
    "test_training_dropout",
    "test_training_dropout_default",
    "test_training_dropout_default_mask",
    "test_training_dropout_mask",
    "test_training_dropout_zero_ratio_mask",
    // integer or boolean outputs
    "test_dropout_default_mask",
    "test_dropout_default_mask_ratio",
    "test_maxpool_with_argmax_2d_precomputed_pads",
    "test_maxpool_with_argmax_2d_precomputed_strides",
    // tensors without elements
    "test_reshape_allowzero_reordered",
    "test_slice_start_out_of_bounds",
    "test_split_zero_size_splits",
    // an ellipsis
    "test_einsum_batch_diagonal",
    "test_einsum_batch_diagonal_live",
    // a mode no detector uses
    "test_resize_tf_crop_and_resize",
    // the cases take the fractional output size for align_corners; PyTorch and ONNX Runtime take the whole one
    "test_resize_downsample_scales_cubic_align_corners",
    "test_resize_downsample_scales_linear_align_corners",
};

onnx::TensorProto read_proto(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  onnx::TensorProto tensor;
  tensor.ParseFromIstream(&file);
  return tensor;
}

}  // namespace

std::vector<ConformanceCase> conformance_cases() {
  // Tests run side by side and may all find no cases. Each writes a folder of its own and puts it in place in one step:
  // a file that another process is just writing anew would be read as half a tensor.
  const fs::path folder = fs::path(camd::test::binary_dir()) / "onnx_conformance_cases";
  if (!fs::exists(folder)) {
    const fs::path own = folder.string() + fmt::format(".{}", ::getpid());
    const std::string command =
        fmt::format("/usr/bin/python3 '{}/tests/infer/make_conformance.py' '{}' >/dev/null 2>&1",
                    camd::test::source_dir(), own.string());
    const bool made = std::system(command.c_str()) == 0;
    std::error_code taken;  // another process was faster
    if (made) fs::rename(own, folder, taken);
    if (!made || taken) fs::remove_all(own);
    if (!made) return {};
  }
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  std::vector<ConformanceCase> cases;
  for (const fs::path& path : folders) {
    const std::string name = path.filename().string();
    if (std::find(std::begin(kLeftOut), std::end(kLeftOut), name) != std::end(kLeftOut)) continue;
    std::ifstream stream(path / "model.onnx", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    ConformanceCase c;
    c.name = name;
    try {
      c.file = parse_onnx(bytes, name);
    } catch (const std::exception&) {
      continue;  // foreign domains and sequences
    }
    const auto& nodes = c.file.proto.graph().node();
    if (!std::all_of(nodes.begin(), nodes.end(),
                     [&](const auto& node) { return is_supported_operator(node.op_type()); })) {
      continue;
    }
    c.input.name = c.file.proto.graph().input(0).name();
    const Lowering reader(c.file, c.input);
    const bool live = name.size() > 5 && name.substr(name.size() - 5) == "_live";
    if (!fs::exists(path / "output_0.pb") ||
        (!live && read_proto(path / "output_0.pb").data_type() != onnx::TensorProto::FLOAT)) {
      continue;  // without the picture whole numbers are constants
    }
    const Constant input = read_tensor(reader, read_proto(path / "input.pb"));
    c.input.shape = input.shape;
    c.values = input.f32;
    for (int i = 0; fs::exists(path / fmt::format("output_{}.pb", i)); ++i) {
      Constant expected = read_tensor(reader, read_proto(path / fmt::format("output_{}.pb", i)));
      if (expected.type == DataType::kI64) {  // camd hands on f32 only
        expected.f32.assign(expected.i64.begin(), expected.i64.end());
        expected.type = DataType::kF32;
      }
      c.expected.push_back(std::move(expected));
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

std::string difference(const Constant& expected, const float* got, const Shape& shape) {
  if (shape != expected.shape)
    return fmt::format("shape {} instead of {}", to_string(shape), to_string(expected.shape));
  for (std::size_t i = 0; i < expected.f32.size(); ++i) {
    const float want = expected.f32[i];
    if (std::isnan(want) && std::isnan(got[i])) continue;
    if (want == got[i]) continue;
    // onnx/backend/test/loader: rtol 1e-3, atol 1e-7.
    if (!(std::abs(want - got[i]) <= 1e-6F + 1e-3F * std::abs(want))) {
      return fmt::format("element {}: {} instead of {}", i, got[i], want);
    }
  }
  return {};
}

}  // namespace camd::infer::test
