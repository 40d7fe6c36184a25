// NumPy's .npy format, version 1.0 (numpy.org/doc/stable/reference/generated/numpy.lib.format.html): f32,
// little-endian, row-major.
//
// Threads: [any], no shared state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/camd_plugin.h"

namespace camd::plugins {

// The bytes in front of the numbers: magic, version and dictionary, padded so that the numbers begin at a multiple of
// 64 bytes.
[[nodiscard]] std::string npy_header(const std::int64_t* shape, int ndim);

// A whole file from a compact host tensor of f32, f16, u8, i8, i32 or i64; every number is written as f32.
// Throws std::runtime_error for anything else.
void to_npy(const DLTensor& tensor, const std::string& name, std::vector<std::uint8_t>& file);

// The same of a tensor [1,C,H,W], written as [1,H,W,C].
void to_npy_channels_last(const DLTensor& tensor, const std::string& name, std::vector<std::uint8_t>& file);

}  // namespace camd::plugins
