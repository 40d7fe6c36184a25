// What a model needs and which engines can run it, without running it: for `camd check` and `camd doctor`.
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

struct EngineReport {
  std::string engine;  // "cpu", "cuda", "opencv"
  bool runs = false;
  std::string detail;  // what it takes, or why it cannot
};

struct ModelReport {
  ModelDescription model;
  TensorSpec input;                  // all dimensions known
  std::vector<TensorSpec> outputs;   // as an engine that runs it says; as declared when none does
  std::int64_t multiply_adds = 0;    // of one run; 0: not known
  std::vector<std::string> foreign;  // operators that camd's own engines do not have
  std::vector<EngineReport> engines;
};

// Which engines are asked. OpenCV's DNN has to load and run the model to know; the others only plan.
enum class ReportDepth : std::uint8_t { kOwnEngines, kAllEngines };

// `host` is a host device. With kOwnEngines, OpenCV is asked only when engine cpu cannot run the model. Throws
// Error(kModel) when the file cannot be read, or its input not be fed.
[[nodiscard]] ModelReport report_model(const std::string& path, const EngineOptions& options, device::Device& host,
                                       ReportDepth depth);

}  // namespace camd::infer
