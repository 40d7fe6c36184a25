// What the kernel tells of the board that makes camd slower than it need be: slow cores, clocks that are held back,
// heat, a weak power supply, memory that is set aside.
//
// Threads: [any]. [blocks] while the kernel's files are read.
#pragma once

#include <filesystem>
#include <vector>

#include "pipeline/diagnose/doctor.hpp"

namespace camd::pipeline {

// `root` has the kernel's `proc` and `sys`: "/" but in tests. What is not there is not told. Never throws.
[[nodiscard]] std::vector<Finding> examine_board(const std::filesystem::path& root);

}  // namespace camd::pipeline
