// A walk over the protobuf wire format of an ONNX file before protobuf itself parses it.
//
// Why: protobuf allocates some hundred bytes for a message that takes two bytes of file, so a small hostile file could
// take all memory; and it says only "failed" where the user wants to know that the file is cut off.
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
