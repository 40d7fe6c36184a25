// What a model needs and which engines can run it, for `camd check` and `camd doctor`. The model is not run.
//
// Threads: [any]; [blocks]: reads the file and prepares it for each engine, a second or less for detectors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "infer/engine.hpp"
#include "infer/model.hpp"
#include "infer/tensor.hpp"

namespace camd::infer {

// What an engine takes of its device's memory.
struct EngineMemory {
  std::uint64_t weight_bytes = 0;  // once
  std::uint64_t frame_bytes = 0;   // for each frame in flight: input, outputs and what lies between them
  std::uint64_t output_bytes = 0;  // of frame_bytes, the outputs
};

struct EngineReport {
  std::string engine;  // "cpu", "cuda", "opencv"
  bool runs = false;
  std::string detail;     // what the engine needs for it, or why it cannot run it
  EngineMemory memory{};  // 0 where nobody knows (opencv)
};

struct ModelReport {
  ModelDescription model;
  TensorSpec input;                  // all dimensions known
  std::vector<TensorSpec> outputs;   // as an engine computes them; as the file declares them when no engine runs it
  std::int64_t multiply_adds = 0;    // of one run; 0: not known
  std::string tail;                  // describe_tail(), where a part of the model runs on the host behind the rest
  std::vector<std::string> foreign;  // operators that camd's own engines do not have
  std::vector<EngineReport> engines;
};

// Which engines are asked. OpenCV's DNN has to load and run the model to know; the others only plan.
enum class ReportDepth : std::uint8_t { kOwnEngines, kAllEngines };

// `host` is a host device. With kOwnEngines, OpenCV is asked only when engine cpu cannot run the model. Throws
// Error(kModel) when the file cannot be read, or its input not be fed.
[[nodiscard]] ModelReport report_model(const std::string& path, const EngineOptions& options, device::Device& host,
                                       ReportDepth depth);

// What EngineOptions::cut_at could name.
struct CutCandidates {
  TensorSpec input;                 // of the network, all dimensions known
  std::vector<TensorSpec> tensors;  // all dimensions known
  // Of these, what an operator of TensorRT reads as boxes and scores (EfficientNMS_TRT and its kind). Empty: there is
  // none.
  std::vector<std::string> chosen_from{};
};
// Tensors inside a graph that camd's own engines can make although they cannot run the whole: what the nodes read that
// stop them, and outputs of the model that are not concerned. None where they run the whole. Throws Error(kModel) as
// report_model().
[[nodiscard]] CutCandidates cut_candidates(const std::string& path, const EngineOptions& options);

}  // namespace camd::infer
