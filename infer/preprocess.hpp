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
  // What one tap of a component reads, for each network pixel: the position in the blended row of the first of two
  // samples, and the second one's weight. Pixels [regular_begin, regular_end) are `stride` apart and have one weight.
  struct Columns {
    std::vector<int> first;
    std::vector<float> weight;
    int regular_begin = 0, regular_end = 0, stride = 0;
    void find_regular();
  };
  void set_layout(const base::PictureLayout& layout);
  void blend_rows(const std::uint8_t* picture, int plane, const SampleAxis& axis, int y);
  void gather(int component, float* line) const;
  void gather_pixels();
  void finish_row(float* output, int y) const;

  InputOptions options_;
  base::PictureLayout layout_;
  bool ready_ = false;
  bool by_pixels_ = false;  // three components side by side, of which no run is regular
  SamplePlan plan_;
  std::vector<Columns> columns_[3];  // per component: one for each tap
  std::vector<float> rows_[3];       // per plane: the vertically blended row, and a sample of 0 or more behind the last
  std::vector<float> lines_[3];      // per component: (x1 - x0) values
};

}  // namespace camd::infer
