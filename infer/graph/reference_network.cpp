// The operators of networks, as infer/graph/reference.hpp says.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "infer/graph/reference_parts.hpp"

namespace camd::infer::reference {

Constant run_float(const Conv& o, const Inputs& in, const Shape& shape) {
  const Constant& x = *in[0];
  const Constant& w = *in[1];
  Constant result = make_result<float>(shape);
  const Index channels = w.shape[1];
  const Index height = x.shape[2], width = x.shape[3];
  const Index per_group = shape[1] / o.groups;
  std::vector<double> row(at(shape[3]));
  for (Index n = 0; n < shape[0]; ++n) {
    for (Index m = 0; m < shape[1]; ++m) {
      for (Index y = 0; y < shape[2]; ++y) {
        std::fill(row.begin(), row.end(), static_cast<double>(in[2]->f32[at(m)]));
        for (Index c = 0; c < channels; ++c) {
          const Index plane = (n * x.shape[1] + m / per_group * channels + c) * height;
          for (Index ky = 0; ky < o.kernel.y; ++ky) {
            const Index iy = y * o.stride.y - o.pads.top + ky * o.dilation.y;
            if (iy < 0 || iy >= height) continue;
            const float* const source = x.f32.data() + (plane + iy) * width;
            for (Index kx = 0; kx < o.kernel.x; ++kx) {
              const auto weight =
                  static_cast<double>(w.f32[at(((m * channels + c) * o.kernel.y + ky) * o.kernel.x + kx)]);
              for (Index i = 0; i < shape[3]; ++i) {
                const Index ix = i * o.stride.x - o.pads.left + kx * o.dilation.x;
                if (ix >= 0 && ix < width) row[at(i)] += weight * static_cast<double>(source[ix]);
              }
            }
          }
        }
        for (Index i = 0; i < shape[3]; ++i) {
          result.f32[at(((n * shape[1] + m) * shape[2] + y) * shape[3] + i)] = static_cast<float>(row[at(i)]);
        }
      }
    }
  }
  return result;
}

Constant run_float(const ConvTranspose& o, const Inputs& in, const Shape& shape) {
  const Constant& x = *in[0];
  const Constant& w = *in[1];
  Constant result = make_result<float>(shape);
  const Index per_group = w.shape[1];
  const Index in_per_group = x.shape[1] / o.groups;
  for_each_index(shape, [&](Index flat, const std::vector<Index>& where) {
    const Index m = where[1];
    auto sum = static_cast<double>(in[2]->f32[at(m)]);
    for (Index c = m / per_group * in_per_group; c < (m / per_group + 1) * in_per_group; ++c) {
      for (Index ky = 0; ky < o.kernel.y; ++ky) {
        const Index ty = where[2] + o.pads.top - ky * o.dilation.y;
        if (ty < 0 || ty % o.stride.y != 0 || ty / o.stride.y >= x.shape[2]) continue;
        for (Index kx = 0; kx < o.kernel.x; ++kx) {
          const Index tx = where[3] + o.pads.left - kx * o.dilation.x;
          if (tx < 0 || tx % o.stride.x != 0 || tx / o.stride.x >= x.shape[3]) continue;
          const Index i = ((where[0] * x.shape[1] + c) * x.shape[2] + ty / o.stride.y) * x.shape[3] + tx / o.stride.x;
          const Index j = ((c * per_group + m % per_group) * o.kernel.y + ky) * o.kernel.x + kx;
          sum += static_cast<double>(x.f32[at(i)]) * static_cast<double>(w.f32[at(j)]);
        }
      }
    }
    result.f32[at(flat)] = static_cast<float>(sum);
  });
  return result;
}

// A row of the output at a time: all its sums go down the rows of b together, which is how b lies in memory.
Constant run_float(const MatMul&, const Inputs& in, const Shape& shape) {
  const Constant& a = *in[0];
  const Constant& b = *in[1];
  const Constant* bias = in.size() > 2 ? in[2] : nullptr;
  Constant result = make_result<float>(shape);
  const auto sa = strides_of(a.shape);
  const auto sb = strides_of(b.shape);
  const auto bias_strides = bias != nullptr ? strides_of(bias->shape) : std::vector<Index>{};
  const Index inner = a.shape.back();
  const std::size_t columns = at(shape.back());
  std::vector<double> sums(columns);
  std::vector<Index> from;
  Shape rows = shape;
  rows.back() = 1;
  for_each_index(rows, [&](Index row, const std::vector<Index>& where) {
    from = where;
    from[from.size() - 2] = 0;
    const float* const factors = a.f32.data() + broadcast_index(where, a.shape, sa);
    const float* line = b.f32.data() + broadcast_index(from, b.shape, sb);
    std::fill(sums.begin(), sums.end(), 0.0);
    Index k = 0;
    for (; k + 4 <= inner; k += 4, line += 4 * columns) {
      const std::array<double, 4> f{static_cast<double>(factors[k]), static_cast<double>(factors[k + 1]),
                                    static_cast<double>(factors[k + 2]), static_cast<double>(factors[k + 3])};
      for (std::size_t i = 0; i < columns; ++i) {
        double sum = sums[i] + f[0] * static_cast<double>(line[i]);
        sum += f[1] * static_cast<double>(line[columns + i]);
        sum += f[2] * static_cast<double>(line[2 * columns + i]);
        sums[i] = sum + f[3] * static_cast<double>(line[3 * columns + i]);
      }
    }
    for (; k < inner; ++k, line += columns) {
      const auto factor = static_cast<double>(factors[k]);
      for (std::size_t i = 0; i < columns; ++i) sums[i] += factor * static_cast<double>(line[i]);
    }
    from = where;
    for (std::size_t i = 0; i < columns; ++i) {
      double sum = sums[i];
      if (bias != nullptr) {
        from.back() = static_cast<Index>(i);
        sum += static_cast<double>(bias->f32[at(broadcast_index(from, bias->shape, bias_strides))]);
      }
      result.f32[at(row) * columns + i] = static_cast<float>(sum);
    }
  });
  return result;
}

Constant run_float(const Pool& o, const Inputs& in, const Shape& shape) {
  const Constant& x = *in[0];
  Constant result = make_result<float>(shape);
  const Index height = x.shape[2], width = x.shape[3];
  for_each_index(shape, [&](Index flat, const std::vector<Index>& where) {
    const float* const plane = x.f32.data() + (where[0] * x.shape[1] + where[1]) * height * width;
    double sum = 0;
    float largest = -std::numeric_limits<float>::infinity();
    Index inside = 0, padded = 0;
    for (Index ky = 0; ky < o.kernel.y; ++ky) {
      for (Index kx = 0; kx < o.kernel.x; ++kx) {
        const Index y = where[2] * o.stride.y - o.pads.top + ky * o.dilation.y;
        const Index i = where[3] * o.stride.x - o.pads.left + kx * o.dilation.x;
        if (y < height + o.pads.bottom && i < width + o.pads.right) ++padded;
        if (y < 0 || y >= height || i < 0 || i >= width) continue;
        ++inside;
        sum += static_cast<double>(plane[y * width + i]);
        largest = std::max(largest, plane[y * width + i]);
      }
    }
    const auto divisor = static_cast<double>(o.count_pads ? padded : inside);
    result.f32[at(flat)] = o.kind == Pool::Kind::kMax ? largest : static_cast<float>(sum / divisor);
  });
  return result;
}

Constant run_float(const Resize& o, const Inputs& in, const Shape& shape) {
  const Constant& x = *in[0];
  Constant result = make_result<float>(shape);
  for_each_index(shape, [&](Index flat, const std::vector<Index>& where) {
    const float* const plane = x.f32.data() + (where[0] * x.shape[1] + where[1]) * x.shape[2] * x.shape[3];
    double sum = 0;
    for (Index j = 0; j < o.y.taps; ++j) {
      const std::size_t ty = at(where[2] * o.y.taps + j);
      for (Index i = 0; i < o.x.taps; ++i) {
        const std::size_t tx = at(where[3] * o.x.taps + i);
        sum += static_cast<double>(o.y.weight[ty]) * static_cast<double>(o.x.weight[tx]) *
               static_cast<double>(plane[o.y.index[ty] * x.shape[3] + o.x.index[tx]]);
      }
    }
    result.f32[at(flat)] = static_cast<float>(sum);
  });
  return result;
}

Constant run_float(const Softmax& o, const Inputs& in, const Shape& shape) {
  const Constant& x = *in[0];
  Constant result = make_result<float>(shape);
  const auto strides = strides_of(shape);
  const Index step = strides[at(o.axis)];
  const Index size = shape[at(o.axis)];
  for_each_index(shape, [&](Index flat, const std::vector<Index>& where) {
    if (where[at(o.axis)] != 0) return;
    double largest = -std::numeric_limits<double>::infinity();
    for (Index i = 0; i < size; ++i) largest = std::max(largest, static_cast<double>(x.f32[at(flat + i * step)]));
    double sum = 0;
    for (Index i = 0; i < size; ++i) sum += std::exp(static_cast<double>(x.f32[at(flat + i * step)]) - largest);
    for (Index i = 0; i < size; ++i) {
      const double shifted = static_cast<double>(x.f32[at(flat + i * step)]) - largest;
      result.f32[at(flat + i * step)] = static_cast<float>(o.log ? shifted - std::log(sum) : std::exp(shifted) / sum);
    }
  });
  return result;
}

}  // namespace camd::infer::reference
