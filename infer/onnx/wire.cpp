#include "infer/onnx/wire.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace camd::infer {
namespace {

// Messages that hold messages in numbers a file decides. Everything else is counted, but not entered.
enum class Kind : std::uint8_t {
  kLeaf,
  kModel,
  kGraph,
  kNode,
  kAttribute,
  kTensor,
  kSparseTensor,
  kValue,
  kType,
  kTensorType,
  kShape,
  kFunction,
  kTraining,
  kContainerType,
  kAnnotation,
};

Kind child_of(Kind parent, std::uint64_t field) noexcept {
  switch (parent) {
    case Kind::kModel:
      return field == 7 ? Kind::kGraph : field == 20 ? Kind::kTraining : field == 25 ? Kind::kFunction : Kind::kLeaf;
    case Kind::kTraining: return field == 1 || field == 2 ? Kind::kGraph : Kind::kLeaf;
    case Kind::kFunction: return field == 7 ? Kind::kNode : Kind::kLeaf;
    case Kind::kGraph:
      switch (field) {
        case 1: return Kind::kNode;
        case 5: return Kind::kTensor;
        case 11:
        case 12:
        case 13: return Kind::kValue;
        case 14: return Kind::kAnnotation;
        case 15: return Kind::kSparseTensor;
        default: return Kind::kLeaf;
      }
    case Kind::kNode: return field == 5 ? Kind::kAttribute : Kind::kLeaf;
    case Kind::kAttribute:
      switch (field) {
        case 5:
        case 10: return Kind::kTensor;
        case 6:
        case 11: return Kind::kGraph;
        case 14:
        case 15: return Kind::kType;
        case 22:
        case 23: return Kind::kSparseTensor;
        default: return Kind::kLeaf;
      }
    case Kind::kSparseTensor: return field == 1 || field == 2 ? Kind::kTensor : Kind::kLeaf;
    case Kind::kValue: return field == 2 ? Kind::kType : Kind::kLeaf;
    case Kind::kType:
      return field == 1 || field == 8                 ? Kind::kTensorType
             : field == 4 || field == 5 || field == 9 ? Kind::kContainerType
                                                      : Kind::kLeaf;
    case Kind::kContainerType: return field == 1 || field == 2 ? Kind::kType : Kind::kLeaf;
    case Kind::kTensorType: return field == 2 ? Kind::kShape : Kind::kLeaf;
    // A tensor's strings and bytes, a shape's dimensions: counted as fields, nothing below them can multiply.
    case Kind::kTensor:
    case Kind::kShape:
    case Kind::kAnnotation:
    case Kind::kLeaf: return Kind::kLeaf;
  }
  return Kind::kLeaf;
}

class Walker {
 public:
  Walker(std::string_view bytes, std::size_t max_fields) : bytes_(bytes), max_fields_(max_fields) {}

  std::string run() {
    if (walk(Kind::kModel, 0, bytes_.size(), 0)) return {};
    return cause_;
  }

 private:
  bool fail(std::string cause) {
    cause_ = std::move(cause);
    return false;
  }

  bool varint(std::size_t& at, std::size_t end, std::uint64_t& value) {
    value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at >= end) return fail(cut_off(at, end, 1));
      const auto byte = static_cast<std::uint8_t>(bytes_[at++]);
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if ((byte & 0x80U) == 0) return true;
    }
    return fail(fmt::format("not an ONNX file: broken number at byte {}", at));
  }

  std::string cut_off(std::size_t at, std::size_t end, std::uint64_t need) const {
    if (end == bytes_.size()) {
      return fmt::format("truncated or damaged: {} bytes are needed at byte {}, the file ends at {}", need, at, end);
    }
    return fmt::format("damaged: a field at byte {} runs over the end of its message", at);
  }

  bool walk(Kind kind, std::size_t at, std::size_t end, int depth) {
    if (depth > 64) return fail("damaged: messages nested deeper than 64");
    while (at < end) {
      std::uint64_t tag = 0;
      if (!varint(at, end, tag)) return false;
      const std::uint64_t field = tag >> 3U;
      std::uint64_t length = 0;
      switch (tag & 7U) {
        case 0:
          if (!varint(at, end, length)) return false;
          continue;
        case 1: length = 8; break;
        case 5: length = 4; break;
        case 2:
          if (!varint(at, end, length)) return false;
          break;
        default: return fail(fmt::format("not an ONNX file: unknown wire type {} at byte {}", tag & 7U, at));
      }
      if (field == 0) return fail(fmt::format("not an ONNX file: field number 0 at byte {}", at));
      if (length > end - at) return fail(cut_off(at, end, length));
      if ((tag & 7U) == 2) {
        if (++fields_ > max_fields_) {
          return fail(fmt::format("too complex: more than {} messages and strings", max_fields_));
        }
        const Kind child = child_of(kind, field);
        if (child != Kind::kLeaf && !walk(child, at, at + length, depth + 1)) return false;
      }
      at += length;
    }
    return true;
  }

  std::string_view bytes_;
  std::size_t max_fields_;
  std::size_t fields_ = 0;
  std::string cause_;
};

}  // namespace

std::string check_onnx_wire(std::string_view bytes, std::size_t max_fields) { return Walker(bytes, max_fields).run(); }

}  // namespace camd::infer
