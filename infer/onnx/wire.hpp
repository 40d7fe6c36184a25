// Checks the protobuf wire format of an ONNX file before protobuf parses it.
//
// Why: protobuf allocates about a hundred bytes for a message of two bytes, so a small hostile file could take all
// memory. And where a file is cut off, protobuf says only that it failed.
// Threads: [any]. Format: protobuf.dev/programming-guides/encoding, field numbers of onnx-ml.proto (ONNX 1.12).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace camd::infer {

// Empty when `bytes` are well-formed wire format with at most `max_fields` messages and strings; else the cause in
// words ("truncated: ...", "not an ONNX file: ...").
[[nodiscard]] std::string check_onnx_wire(std::string_view bytes, std::size_t max_fields);

}  // namespace camd::infer
