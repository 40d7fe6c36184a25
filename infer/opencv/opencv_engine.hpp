// The engine that runs on any machine: OpenCV's DNN module (4.6 or later) on the host device.
//
// Threads: as Engine. The network runs in the compute stream's order; OpenCV spreads each layer over its own pool of
// EngineOptions::threads threads, which the whole process shares (cv::setNumThreads).
// Memory: each Execution has a network of its own (a cv::dnn::Net is not safe for two threads, and a stream per frame
// means two threads): the weights once and OpenCV's activations once for every frame in flight.
// Allocation: OpenCV allocates inside forward(); this is the engine that cannot keep the zero-allocation promise.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "infer/engine.hpp"
#include "infer/onnx/file.hpp"

namespace camd::infer {

// [setup] [blocks] Runs the network once to learn the real output shapes. Throws Error(kModel) naming the operator and
// the node that OpenCV cannot run.
[[nodiscard]] std::unique_ptr<Engine> make_opencv_engine(OnnxFile file, const EngineOptions& options,
                                                         device::Device& device);

// OpenCV's own message as a plain reason of one line: without the place in its sources, the function and the error's
// number. A failed assertion becomes "OpenCV needs CONDITION". [any]
[[nodiscard]] std::string plain_opencv_reason(std::string_view said);

}  // namespace camd::infer
