// How far engine `cuda` in f16 is off from f32, on pictures; and what it chose to compute in f32.
//   precision_infer_cuda MODEL.onnx [rgb] [top-left] [scale=N] [cpu] PICTURE.ppm...
// `cpu`: also how far both are off from engine `cpu`, which computes in f32.
// A tool for docs/experiments.md. Built as precision_infer_cuda_emulated as well, for machines without a GPU: slow.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "device/cuda/cuda_device.hpp"
#include "device/host_device.hpp"
#include "infer/cuda/cuda_engine.hpp"
#include "infer/half.hpp"
#if defined(CAMD_CUDA_EMULATION)
#include "tests/device/emulated_gpu.hpp"
#endif

namespace {

using namespace camd;
using device::CopyKind;

void require(const base::Status& status) {
  if (!status) throw base::Error(status.kind(), status.message());
}

struct Picture {
  int width = 0, height = 0;
  std::vector<std::byte> bgr;
};

Picture read_ppm(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string magic;
  Picture p;
  int most = 0;
  file >> magic >> p.width >> p.height >> most;
  file.get();
  if (!file || magic != "P6" || most != 255) throw std::runtime_error(path + " is no binary PPM of 8 bits");
  p.bgr.resize(static_cast<std::size_t>(p.width) * static_cast<std::size_t>(p.height) * 3);
  file.read(reinterpret_cast<char*>(p.bgr.data()), static_cast<std::streamsize>(p.bgr.size()));
  if (!file) throw std::runtime_error(path + " ends early");
  for (std::size_t i = 0; i < p.bgr.size(); i += 3) std::swap(p.bgr[i], p.bgr[i + 2]);
  return p;
}

using Outputs = std::vector<std::vector<float>>;

Outputs outputs_of(device::Device& device, infer::Engine& engine, const Picture& picture) {
  const auto execution = engine.make_execution();
  const device::Stream stream = device.make_stream("picture");
  const device::DeviceBuffer memory = device.allocate_device(picture.bgr.size());
  require(device.copy(memory.data(), picture.bgr.data(), picture.bgr.size(), CopyKind::kHostToDevice, stream));
  const auto layout = base::tight_layout(base::PixelFormat::kBgr, picture.width, picture.height);
  require(execution->enqueue_preprocess({memory.data(), layout}, stream));
  require(execution->enqueue_network(stream));
  Outputs outputs;
  for (std::size_t i = 0; i < engine.outputs().size(); ++i) {
    const infer::TensorView view = execution->output(i);
    std::vector<std::byte> bytes(view.spec->size_bytes());
    require(device.copy(bytes.data(), view.data, bytes.size(), CopyKind::kDeviceToHost, stream));
    require(device.synchronize(stream.ref()));
    const auto count = static_cast<std::size_t>(infer::element_count(view.spec->shape));
    outputs.push_back(infer::to_floats(bytes.data(), count, view.spec->type));
  }
  return outputs;
}

// The same for values in any order: a choice (TopK) puts rows elsewhere as soon as two scores are nearly the same.
double off_in_any_order(std::vector<float> got, std::vector<float> want) {
  for (std::vector<float>* const values : {&got, &want}) {
    std::replace_if(
        values->begin(), values->end(), [](float v) { return std::isnan(v); }, INFINITY);
    std::sort(values->begin(), values->end());
  }
  double far = 0;
  for (std::size_t k = 0; k < want.size(); ++k) far = std::max(far, static_cast<double>(std::abs(got[k] - want[k])));
  return far;
}

// A line for each output. `who`: whose values `got` are.
void compare(const std::vector<infer::TensorSpec>& specs, const Outputs& got, const Outputs& want,
             const std::string& who) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    double largest = 0, far = 0;
    for (const float value : want[i]) largest = std::max(largest, static_cast<double>(std::abs(value)));
    std::size_t off = 0;
    for (std::size_t k = 0; k < want[i].size(); ++k) {
      const double away = static_cast<double>(std::abs(got[i][k] - want[i][k]));
      far = std::max(far, away);
      off += away > 0.01 * largest ? 1 : 0;
    }
    std::printf(
        "%s: output %s: largest %.4g, off by %.3g, share %.3g, %zu of %zu by more than a hundredth, in any order "
        "%.3g\n",
        who.c_str(), specs[i].name.c_str(), largest, far, far / largest, off, want[i].size(),
        off_in_any_order(got[i], want[i]) / largest);
  }
}

// A choice of queries (TopK) comes in another order as soon as two scores are nearly the same. So boxes [1, queries, 4]
// are compared with the nearest one, and what belongs to them with what belongs to that.
void compare_queries(const std::vector<infer::TensorSpec>& specs, const std::vector<std::vector<float>>& got,
                     const std::vector<std::vector<float>>& want, const std::string& path) {
  constexpr double kLost = 0.01;  // of the picture's side: another query
  for (std::size_t b = 0; b < specs.size(); ++b) {
    if (specs[b].shape.size() != 3 || specs[b].shape[2] != 4) continue;
    const auto count = static_cast<std::size_t>(specs[b].shape[1]);
    std::vector<std::size_t> match(count, count);
    std::size_t moved = 0, lost = 0;
    double far_box = 0, far_score = 0;
    for (std::size_t q = 0; q < count; ++q) {
      double best = kLost;
      for (std::size_t other = 0; other < count; ++other) {
        double far = 0;
        for (std::size_t c = 0; c < 4; ++c)
          far = std::max(far, static_cast<double>(std::abs(want[b][q * 4 + c] - got[b][other * 4 + c])));
        if (far >= best) continue;
        best = far;
        match[q] = other;
      }
      if (match[q] == count) {
        ++lost;
      } else {
        moved += match[q] != q ? 1 : 0;
        far_box = std::max(far_box, best);
      }
    }
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (i == b || specs[i].shape.size() != 3 || specs[i].shape[1] != specs[b].shape[1]) continue;
      const auto classes = static_cast<std::size_t>(specs[i].shape[2]);
      const auto score = [](float logit) { return 1.0 / (1.0 + std::exp(-static_cast<double>(logit))); };
      for (std::size_t q = 0; q < count; ++q) {
        for (std::size_t c = 0; match[q] < count && c < classes; ++c) {
          const double away = score(want[i][q * classes + c]) - score(got[i][match[q] * classes + c]);
          far_score = std::max(far_score, std::abs(away));
        }
      }
    }
    std::printf("%s: %zu queries, %zu at another place, %zu only in one; boxes off by %.3g of a side, scores by %.3g\n",
                path.c_str(), count, moved, lost, far_box, far_score);
  }
}

int run(int argc, char** argv) {
  infer::EngineOptions options;
  std::vector<std::string> pictures;
  bool beside_cpu = false;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "rgb") {
      options.input.color = infer::ColorOrder::kRgb;
    } else if (word == "top-left") {
      options.input.resize = infer::ResizeMode::kLetterboxTopLeft;
    } else if (word.rfind("scale=", 0) == 0) {
      options.input.scale.fill(std::stof(word.substr(6)));
    } else if (word == "cpu") {
      beside_cpu = true;
    } else {
      pictures.push_back(word);
    }
  }
  base::set_log_level("debug");
  const auto host = device::make_host_device(base::system_clock());
  std::unique_ptr<infer::Engine> cpu;
  if (beside_cpu) {
    options.kind = infer::EngineKind::kCpu;
    cpu = infer::make_engine(argv[1], options, *host);
  }
  options.kind = infer::EngineKind::kCuda;
#if defined(CAMD_CUDA_EMULATION)
  const auto gpu = std::make_unique<camd::test::EmulatedGpu>(base::system_clock());
#else
  const auto gpu = device::make_cuda_device(0);
#endif
  const auto f16 = infer::make_engine(argv[1], options, *gpu);
  options.compute_type = infer::DataType::kF32;
  const auto f32 = infer::make_engine(argv[1], options, *gpu);
  for (const std::string& path : pictures) {
    const Picture picture = read_ppm(path);
    const Outputs got = outputs_of(*gpu, *f16, picture), want = outputs_of(*gpu, *f32, picture);
    if (cpu) {
      const Outputs truth = outputs_of(*host, *cpu, picture);
      compare(f32->outputs(), want, truth, path + ": f32 beside the CPU");
      compare(f32->outputs(), got, truth, path + ": f16 beside the CPU");
    }
    compare(f32->outputs(), got, want, path);
    compare_queries(f32->outputs(), got, want, path);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: precision_infer_cuda MODEL.onnx [rgb] [top-left] [scale=N] [cpu] PICTURE.ppm...\n");
    return 2;
  }
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
