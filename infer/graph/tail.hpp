// Splitting a model whose last part has sizes that the picture decides (a choice of boxes): a head, all of whose sizes
// are known, for an engine, and a tail, which computes the rest from the head's outputs on the host.
//
// Threads: split_model() [setup]; Tail::run() [any], it changes nothing.
// Invariants: the head's outputs are what the tail reads, and those of the model's outputs that need no tail. Memory
// and time of a run are bounded as folding is (infer/graph/graph.hpp). run() allocates.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/graph/graph.hpp"
#include "infer/graph/lower_model.hpp"
#include "infer/onnx/file.hpp"

namespace camd::infer {

class Tail {
 public:
  // The head's outputs, by name, that the tail reads.
  [[nodiscard]] const std::vector<std::string>& reads() const noexcept { return reads_; }
  // The model's outputs that the tail makes, by name.
  [[nodiscard]] const std::vector<std::string>& makes() const noexcept { return makes_; }
  // `values[i]` holds the f32 elements of reads()[i], of the shape that the head's engine gives it. Returns the values
  // of makes(): f32, or i64 for whole numbers and truths. Throws Error(kModel).
  [[nodiscard]] std::vector<std::shared_ptr<const Constant>> run(const std::vector<Constant>& values,
                                                                 const FoldOptions& options = {}) const;

 private:
  friend struct SplitModel;
  friend std::optional<struct SplitModel> split_model(const OnnxFile& file, const TensorSpec& input);
  OnnxFile file_;
  std::vector<std::string> reads_, makes_;
  std::vector<bool> whole_;  // of reads_
  std::map<std::string, std::shared_ptr<const Constant>> constants_;
};

struct SplitModel {
  OnnxFile head;
  Tail tail;
  std::string because;  // "NonMaxSuppression (node 'x'): how much it puts out depends on the picture"
};

// Nothing where the model has no such tail, or one with operators that camd does not have, or one that needs more of
// the model than its head's outputs. Throws Error(kModel) where there are too many nodes.
[[nodiscard]] std::optional<SplitModel> split_model(const OnnxFile& file, const TensorSpec& input);

}  // namespace camd::infer
