// What one frame in flight may take of the machine's memory, whatever engine computes it.
//
// A file of some hundred bytes can ask for gigabytes: a padding is two numbers. Each frame in flight takes its memory
// once, and there are several. The largest detectors of this class stay below 512 MiB.
//
// Threads: functions of their arguments and of the machine's memory, [any].
#pragma once

#include <cstdint>
#include <string>

#include "base/error.hpp"

namespace camd::infer {

// No engine shall run this model on this machine.
class ModelTooLarge final : public base::Error {
 public:
  explicit ModelTooLarge(const std::string& message) : Error(base::ErrorKind::kModel, message) {}
};

// Throws ModelTooLarge, with the numbers, where one frame in flight would take more than a thirty-second of the
// machine's memory (512 MiB at least, 1 GiB at most): `tensors` bytes for input and outputs, `between` for the rest.
void check_frame_memory(const std::string& path, std::uint64_t tensors, std::uint64_t between);

}  // namespace camd::infer
