// Preprocessing on the host: one pass over the picture converts its colours, resizes it (letterbox or stretch), applies
// mean and scale, and writes planes of f32 (NCHW). sample_pixel() of infer/sample.hpp defines each value; this computes
// the same faster.
//
// Threads: a Preprocessor is used by one thread at a time.
// Invariants: after the first picture of a layout, run() does not allocate.
#pragma once

#include <vector>

#include "infer/engine.hpp"
#include "infer/sample.hpp"

namespace camd::infer {

class Preprocessor {
 public:
  // options.width and .height must be resolved (positive).
  explicit Preprocessor(const InputOptions& options);

  // Writes [3, height, width] f32 to `output`. Allocates when the layout differs from the last picture's.
  void run(const PictureView& picture, float* output);

 private:
  // What one tap of one network pixel reads: two positions in the blended row, and the second one's weight.
  struct Column {
    int first = 0;
    int second = 0;
    float weight = 0.0F;
  };
  void set_layout(const base::PictureLayout& layout);
  void blend_rows(const std::uint8_t* picture, int plane, const SampleAxis& axis, int y);
  void gather(int component, float* line) const;
  void finish_row(float* output, int y) const;

  InputOptions options_;
  base::PictureLayout layout_;
  bool ready_ = false;
  SamplePlan plan_;
  std::vector<Column> columns_[3];  // per component: taps x (x1 - x0)
  std::vector<float> rows_[3];      // per plane: the vertically blended row
  std::vector<float> lines_[3];     // per component: (x1 - x0) values
};

}  // namespace camd::infer
