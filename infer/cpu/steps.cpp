#include "infer/cpu/steps.hpp"

#include <cmath>
#include <cstring>

#include "infer/graph/reference.hpp"

namespace camd::infer::cpu {
namespace {

float* block_row(const Blocked& b, int block, int y) noexcept { return b.data + at(block) * b.block + at(y) * b.row; }

}  // namespace

void clear_halo(const Blocked& p, const Pads& halo, int block, int y0, int y1) noexcept {
  const auto left = at(halo.left) * kLanes;
  const auto right = at(halo.right) * kLanes;
  const auto inside = at(p.width) * kLanes;
  if (left + right > 0) {
    for (int y = y0; y < y1; ++y) {
      float* const row = block_row(p, block, y);
      std::fill_n(row - left, left, 0.0F);
      std::fill_n(row + inside, right, 0.0F);
    }
  }
  if (y0 == 0 && halo.top > 0) {
    std::fill_n(p.data + at(block) * p.block - at(halo.top) * p.row - left, at(halo.top) * p.row, 0.0F);
  }
  if (y1 == p.height && halo.bottom > 0) {
    std::fill_n(block_row(p, block, p.height) - left, at(halo.bottom) * p.row, 0.0F);
  }
}

void ConvStep::run(int item, const Memory& memory) const noexcept {
  ConvArguments a = arguments;
  a.out = out.in(memory);
  a.out.data += at(first_out_block) * a.out.block;
  if (form == ConvForm::kPlanar) {
    a.in.data = memory.at(plain_in);
  } else {
    const Blocked source = in.in(memory);
    a.in.data = source.data + at(first_in_block) * source.block;
    a.in.row = source.row;
    a.in.block = source.block;
  }
  if (residual.place.kind != Place::Kind::kNone) {
    const Blocked r = residual.in(memory);
    a.residual = r.data + at(first_out_block) * r.block;
    a.residual_row = r.row;
    a.residual_block = r.block;
  }
  if (form == ConvForm::kWinograd) {
    const int columns = (a.out.width + 3) / 4;
    const int first = item * tiles;
    const int last = std::min(first + tiles, (a.out.height + 3) / 4 * columns);
    kernels->winograd(a, first, last, memory.scratch);
    // An item that makes a row's first tile clears the halo beside the row.
    const int y0 = 4 * ((first + columns - 1) / columns);
    const int y1 = std::min(4 * ((last + columns - 1) / columns), a.out.height);
    if (y0 >= y1) return;
    for (int b = 0; b < out_blocks; ++b) clear_halo(a.out, out.halo, b, y0, y1);
    return;
  }
  const bool dense = form == ConvForm::kDense || form == ConvForm::kPlanar;
  const int groups = items / bands;
  const int first = item % groups * (dense ? kConvBlocks : 1);
  const int count = dense ? std::min(kConvBlocks, out_blocks - first) : 1;
  const Band rows = band(a.out.height, bands, item / groups);
  switch (form) {
    case ConvForm::kDense: kernels->conv(a, first, count, rows.begin, rows.end); break;
    case ConvForm::kWinograd: break;
    case ConvForm::kPlanar: kernels->conv_planar(a, first, count, rows.begin, rows.end, memory.scratch); break;
    case ConvForm::kDepthwise: kernels->depthwise(a, first, rows.begin, rows.end); break;
    case ConvForm::kTransposed: kernels->transposed(a, first, rows.begin, rows.end); break;
    case ConvForm::kTransposedDepthwise: kernels->transposed_depthwise(a, first, rows.begin, rows.end); break;
  }
  for (int b = first; b < first + count; ++b) clear_halo(a.out, out.halo, b, rows.begin, rows.end);
}

void PoolStep::run(int item, const Memory& memory) const noexcept {
  const PoolArguments a{in.in(memory), out.in(memory), pool};
  const int block = item % blocks(a.out.channels);
  const Band rows = band(a.out.height, bands, item / blocks(a.out.channels));
  kernels->pool(a, block, rows.begin, rows.end);
  clear_halo(a.out, out.halo, block, rows.begin, rows.end);
}

void ResizeStep::run(int item, const Memory& memory) const noexcept {
  const ResizeArguments a{in.in(memory), out.in(memory), &resize};
  const int block = item % blocks(a.out.channels);
  const Band rows = band(a.out.height, bands, item / blocks(a.out.channels));
  kernels->resize(a, block, rows.begin, rows.end);
  clear_halo(a.out, out.halo, block, rows.begin, rows.end);
}

void PadStep::run(int item, const Memory& memory) const noexcept {
  const Blocked from = in.in(memory), to = out.in(memory);
  const int block = item % blocks(to.channels);
  const Band rows = band(to.height, bands, item / blocks(to.channels));
  std::array<float, kLanes> pixel{};
  std::fill_n(pixel.begin(), std::min(kLanes, to.channels - block * kLanes), value);
  const auto fill = [&](float* row, int begin, int end) {
    for (int x = begin; x < end; ++x) std::copy(pixel.begin(), pixel.end(), row + at(x) * kLanes);
  };
  for (int y = rows.begin; y < rows.end; ++y) {
    float* const row = block_row(to, block, y);
    const bool inside = y >= top && y < top + from.height;
    fill(row, 0, inside ? left : to.width);
    if (!inside) continue;
    std::copy_n(block_row(from, block, y - top), at(from.width) * kLanes, row + at(left) * kLanes);
    fill(row, left + from.width, to.width);
  }
  clear_halo(to, out.halo, block, rows.begin, rows.end);
}

void NormalizeStep::run(int item, const Memory& memory) const noexcept {
  NormalizeArguments a = arguments;
  a.in = in.in(memory);
  a.out = out.in(memory);
  const int first = item * blocks_each;
  const int count = std::min(blocks_each, blocks(a.out.channels) - first);
  kernels->normalize(a, first, count, memory.scratch);
  for (int b = first; b < first + count; ++b) clear_halo(a.out, out.halo, b, 0, a.out.height);
}

void ToBlockedStep::run(int item, const Memory& memory) const noexcept {
  const Blocked to = out.in(memory);
  kernels->to_blocked(memory.at(in), to, item);
  clear_halo(to, out.halo, item, 0, to.height);
}

void ToPlainStep::run(int item, const Memory& memory) const noexcept {
  kernels->to_plain(in.in(memory), memory.at(out), item);
}

void ToPixelsStep::run(int item, const Memory& memory) const noexcept {
  const Blocked from = in.in(memory);
  const Band rows = band(from.height, items, item);
  const auto channels = at(from.channels);
  // Some pixels at a time, so that what is written of each lies together.
  constexpr int kPixels = 8;
  for (int y = rows.begin; y < rows.end; ++y) {
    float* const to = memory.at(out) + at(y) * at(from.width) * channels;
    for (int x0 = 0; x0 < from.width; x0 += kPixels) {
      const int x1 = std::min(x0 + kPixels, from.width);
      for (int b = 0; b < blocks(from.channels); ++b) {
        const int lanes = std::min(kLanes, from.channels - b * kLanes);
        const float* const row = block_row(from, b, y);
        for (int x = x0; x < x1; ++x) {
          float* const pixel = to + at(x) * channels + at(b) * kLanes;
          const float* const source = row + at(x) * kLanes;
          if (lanes == kLanes)
            std::memcpy(pixel, source, kLanes * sizeof(float));
          else
            std::copy_n(source, lanes, pixel);
        }
      }
    }
  }
}

void ChannelsStep::run(int item, const Memory& memory) const noexcept {
  const Blocked to = out.in(memory);
  const int first = item * kLanes;
  const int lanes = std::min(kLanes, to.channels - first);
  std::array<const float*, kLanes> pointers{};
  std::array<std::size_t, kLanes> rows{};
  bool whole = lanes == kLanes;
  for (int i = 0; i < kLanes; ++i) {
    // Lanes beyond the last channel repeat it: something finite.
    const From& f = from[at(first + std::min(i, lanes - 1))];
    const Blocked source = sources[at(f.source)].in(memory);
    pointers[at(i)] = source.data + at(f.channel / kLanes) * source.block + f.channel % kLanes;
    rows[at(i)] = source.row;
    whole = whole && pointers[at(i)] == pointers[0] + i && f.channel % kLanes == i;
  }
  for (int y = 0; y < to.height; ++y) {
    float* const row = block_row(to, item, y);
    if (whole) {
      std::memcpy(row, pointers[0] + at(y) * rows[0], at(to.width) * kLanes * sizeof(float));
      continue;
    }
    for (int i = 0; i < kLanes; ++i) {
      const float* const source = pointers[at(i)] + at(y) * rows[at(i)];
      for (std::size_t x = 0; x < at(to.width); ++x) row[x * kLanes + at(i)] = source[x * kLanes];
    }
  }
  clear_halo(to, out.halo, item, 0, to.height);
}

void BlockedElementwiseStep::run(int item, const Memory& memory) const noexcept {
  const Blocked x = a.in(memory);
  const Blocked to = out.in(memory);
  const auto pixels = at(to.width);
  const float* numbers = nullptr;
  if (kind == Kind::kPerChannel) {
    numbers = per_channel != nullptr ? per_channel + at(item) * kLanes : block_row(b.in(memory), item, 0);
  }
  for (int y = 0; y < to.height; ++y) {
    const float* const source = block_row(x, item, y);
    float* const row = block_row(to, item, y);
    switch (kind) {
      case Kind::kUnary:
        if (row != source) std::memcpy(row, source, pixels * kLanes * sizeof(float));
        kernels->activate(row, pixels * kLanes, function);
        break;
      case Kind::kBinary:
        kernels->binary(operation, source, 1, block_row(b.in(memory), item, y), 1, row, pixels * kLanes, function);
        break;
      case Kind::kPerChannel: kernels->binary_lanes(operation, source, numbers, swapped, row, pixels, function); break;
    }
    if (requantize.scale != 0) kernels->requantize(row, pixels * kLanes, requantize);
  }
  clear_halo(to, out.halo, item, 0, to.height);
}

void PlainBinaryStep::run(int item, const Memory& memory) const noexcept {
  const float* const x = memory.at(a);
  const float* const y = memory.at(b);
  float* const to = memory.at(out);
  Shape part = shape;
  const Band rows = band(static_cast<int>(shape[0]), items, item);
  part[0] = rows.end - rows.begin;
  if (part[0] <= 0) return;
  std::array<std::int64_t, 12> strides{};
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= shape[d];
  }
  const bool line = shape.size() == 1;
  const std::vector<std::int64_t>& sa = a_strides;
  const std::vector<std::int64_t>& sb = b_strides;
  const auto run_line = [&](std::int64_t ia, std::int64_t ib, std::int64_t io, std::int64_t count) {
    kernels->binary(operation, x + ia, static_cast<int>(sa.back()), y + ib, static_cast<int>(sb.back()), to + io,
                    at(count), function);
    if (requantize.scale != 0) kernels->requantize(to + io, at(count), requantize);
  };
  if (line) {
    run_line(rows.begin * sa[0], rows.begin * sb[0], rows.begin, part[0]);
    return;
  }
  // Outer dimensions by hand: no allocation while running.
  std::array<std::int64_t, 12> where{};
  std::int64_t ia = rows.begin * sa[0], ib = rows.begin * sb[0], io = rows.begin * strides[0];
  for (;;) {
    run_line(ia, ib, io, part.back());
    std::size_t d = part.size() - 1;
    for (;;) {
      if (d == 0) return;
      --d;
      ia += sa[d];
      ib += sb[d];
      io += strides[d];
      if (++where[d] < part[d]) break;
      ia -= sa[d] * part[d];
      ib -= sb[d] * part[d];
      io -= strides[d] * part[d];
      where[d] = 0;
    }
  }
}

void ChainStep::run(int item, const Memory& memory) const noexcept {
  // Two that each op reads and one that it writes.
  std::array<float*, 3 * kMostChainOps> operands{};
  std::array<int, 3 * kMostChainOps> steps{};
  steps.fill(1);
  for (std::size_t t = 0; t < tensors.size(); ++t) steps[t] = static_cast<int>(strides[t].back());
  for (std::size_t s = tensors.size(); s < operands.size(); ++s)
    operands[s] = memory.scratch + (s - tensors.size()) * kTogether;
  const auto line = at(shape.back());
  const std::size_t pieces = (line + kTogether - 1) / kTogether;
  const std::size_t all = at(element_count(shape)) / line * pieces;
  for (std::size_t p = all * at(item) / at(items); p < all * at(item + 1) / at(items); ++p) {
    const std::size_t first = p % pieces * kTogether, count = std::min(kTogether, line - first);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      std::int64_t offset = static_cast<std::int64_t>(first) * strides[t].back();
      std::size_t rest = p / pieces;
      for (std::size_t d = shape.size() - 1; d-- > 0; rest /= at(shape[d]))
        offset += static_cast<std::int64_t>(rest % at(shape[d])) * strides[t][d];
      operands[t] = memory.at(tensors[t]) + offset;
    }
    for (const Part& part : parts) {
      float* const out = operands[at(part.out)];
      const float* const a = operands[at(part.a)];
      if (!part.is_unary) {
        kernels->binary(part.kind, a, steps[at(part.a)], operands[at(part.b)], steps[at(part.b)], out, count,
                        part.function);
        continue;
      }
      if (out != a) std::memcpy(out, a, count * sizeof(float));
      kernels->activate(out, count, part.function);
    }
  }
}

void PlainUnaryStep::run(int item, const Memory& memory) const noexcept {
  const std::size_t begin = count * at(item) / at(items);
  const std::size_t end = count * at(item + 1) / at(items);
  float* const to = memory.at(out) + begin;
  const float* const from = memory.at(in) + begin;
  // Some numbers at a time, so that a copy is still in the cache.
  constexpr std::size_t kTogether = 2048;
  for (std::size_t i = 0; i < end - begin; i += kTogether) {
    const std::size_t some = std::min(kTogether, end - begin - i);
    if (to != from) std::memcpy(to + i, from + i, some * sizeof(float));
    kernels->activate(to + i, some, function);
    if (requantize.scale != 0) kernels->requantize(to + i, some, requantize);
  }
}

void CopyStep::run(int item, const Memory& memory) const noexcept {
  const Band part = band(static_cast<int>(shape[0]), items, item);
  if (part.begin == part.end) return;
  const float* const from = memory.at(in) + in_base + part.begin * in_strides[0];
  float* const to = memory.at(out) + out_base + part.begin * out_strides[0];
  const std::size_t rank = shape.size();
  const std::size_t last = rank - 1;
  std::array<std::int64_t, kMostDimensions> sizes{};
  std::copy(shape.begin(), shape.end(), sizes.begin());
  sizes[0] = part.end - part.begin;
  const bool lines = in_strides[last] == 1 && out_strides[last] == 1;
  // A transposition: what lies side by side in the input is another dimension than in the output.
  std::size_t across = rank;
  for (std::size_t d = 0; d < last && in_strides[last] != 1 && out_strides[last] == 1; ++d) {
    if (in_strides[d] == 1) across = d;
  }
  std::array<std::int64_t, kMostDimensions> where{};
  std::int64_t i = 0, o = 0;
  for (;;) {
    if (lines) {
      std::memcpy(to + o, from + i, at(sizes[last]) * sizeof(float));
    } else if (across < rank) {
      kernels->transpose(from + i, at(in_strides[last]), to + o, at(out_strides[across]), number(sizes[last]),
                         number(sizes[across]));
    } else {
      for (std::int64_t k = 0; k < sizes[last]; ++k) to[o + k * out_strides[last]] = from[i + k * in_strides[last]];
    }
    // The next place of the dimensions that one call did not copy.
    std::size_t d = last;
    for (;;) {
      if (d == 0) return;
      --d;
      if (d == across) continue;
      i += in_strides[d];
      o += out_strides[d];
      if (++where[d] < sizes[d]) break;
      i -= in_strides[d] * sizes[d];
      o -= out_strides[d] * sizes[d];
      where[d] = 0;
    }
  }
}

void SoftmaxStep::run(int item, const Memory& memory) const noexcept {
  const float* const from = memory.at(in);
  float* const to = memory.at(out);
  const Band rows = by_columns ? Band{0, number(outer)} : band(number(outer), items, item);
  const Band columns = by_columns ? band(number(inner), items, item) : Band{0, number(inner)};
  for (std::int64_t o = rows.begin; o < rows.end; ++o) {
    kernels->softmax(from + o * size * inner, to + o * size * inner, at(size), at(inner), at(columns.begin),
                     at(columns.end), log);
  }
}

void ReduceStep::run(int item, const Memory& memory) const noexcept {
  const Band rows = band(number(outer), items, item);
  for (std::int64_t o = rows.begin; o < rows.end; ++o) {
    kernels->reduce(kind, memory.at(in) + o * size * inner, memory.at(out) + o * inner, at(size), at(inner));
  }
}

void MatMulStep::run(int item, const Memory& memory) const noexcept {
  const int which = item / bands;
  const Band tiles = band((m + kProductTile - 1) / kProductTile, bands, item % bands);
  const Band rows{tiles.begin * kProductTile, std::min(tiles.end * kProductTile, m)};
  kernels->matmul(memory.at(a) + which * a_batch, memory.at(b) + which * b_batch, memory.at(bias), bias_row, bias_step,
                  memory.at(out) + at(which) * at(m) * at(n), rows.begin, rows.end, k, n, function,
                  scratch > 0 ? memory.scratch : nullptr);
  if (requantize.scale == 0) return;
  kernels->requantize(memory.at(out) + (at(which) * at(m) + at(rows.begin)) * at(n), at(rows.end - rows.begin) * at(n),
                      requantize);
}

void AttentionStep::run(int item, const Memory& memory) const noexcept {
  const int which = item / bands;
  const Band tiles = band((queries + kProductTile - 1) / kProductTile, bands, item % bands);
  const int end = std::min(tiles.end * kProductTile, queries);
  const float* const from = memory.at(q) + at(which) * at(queries) * at(inner);
  float* const to = memory.at(out) + at(which) * at(queries) * at(columns);
  float* const scores = memory.scratch;
  const float* values = memory.at(v) + which * v_batch;
  float* const values_turned = scores + at(together) * at(keys);
  float* const results_turned = values_turned + at(keys) * at(columns);
  if (turned) {
    kernels->transpose(values, at(keys), values_turned, at(columns), columns, keys);
    values = values_turned;
  }
  for (int first = tiles.begin * kProductTile; first < end; first += together) {
    const int rows = std::min(together, end - first);
    const std::size_t count = at(rows) * at(keys);
    kernels->matmul(from + at(first) * at(inner), memory.at(k) + which * k_batch, nullptr, 0, 1, scores, 0, rows, inner,
                    keys, {}, nullptr);
    if (scale != 1.0F) kernels->binary(Binary::Kind::kMul, scores, 1, &scale, 0, scores, count, {});
    // Results are divided by the sums, as they are fewer than the scores.
    std::array<float, kMostQueries> shares{};
    for (int r = 0; r < rows; ++r) {
      float* const row = scores + at(r) * at(keys);
      shares[at(r)] = 1.0F / kernels->exponentials(row, row, at(keys));
    }
    float* const results = turned ? results_turned : to + at(first) * at(columns);
    kernels->matmul(scores, values, nullptr, 0, 1, results, 0, rows, keys, columns, {}, nullptr);
    for (int r = 0; r < rows; ++r) {
      float* const row = results + at(r) * at(columns);
      kernels->binary(Binary::Kind::kMul, row, 1, &shares[at(r)], 0, row, at(columns), {});
    }
    if (turned) kernels->transpose(results, at(columns), to + first, at(queries), rows, columns);
  }
}

void SelectionStep::work(const TopK& o, const Band& part, const Memory& memory) const noexcept {
  auto* const order = reinterpret_cast<std::int32_t*>(memory.scratch);
  for (std::int64_t line = part.begin; line < part.end; ++line) {
    const std::int64_t outer = line / stride, inner = line % stride;
    top_k(o, memory.at(in[0]) + outer * length * stride + inner, length, stride,
          memory.at(out) + outer * o.count * stride + inner, stride, order);
  }
}

void SelectionStep::work(const CumSum& o, const Band& part, const Memory& memory) const noexcept {
  for (std::int64_t line = part.begin; line < part.end; ++line) {
    const std::int64_t first = line / stride * length * stride + line % stride;
    cumulative_sum(o, memory.at(in[0]) + first, memory.at(out) + first, length, stride);
  }
}

void SelectionStep::work(const Pick&, const Band& part, const Memory& memory) const noexcept {
  if (picks.inner == 1 && picks.count_stride == 1 && picks.size <= kMostPickedFrom) {
    for (std::int64_t o = part.begin; o < part.end; ++o) {
      kernels->pick(memory.at(in[0]) + o * picks.size, number(picks.size), memory.at(in[1]) + o * picks.outer_stride,
                    memory.at(out) + o * picks.count, at(picks.count));
    }
    return;
  }
  pick(picks, memory.at(in[0]), memory.at(in[1]), memory.at(out), part.begin, part.end);
}

void SelectionStep::work(const Scatter& o, const Band& part, const Memory& memory) const noexcept {
  scatter(o, picks, memory.at(in[0]), memory.at(in[1]), memory.at(in[2]), memory.at(out), part.begin, part.end);
}

void SelectionStep::work(const GridSample& o, const Band& part, const Memory& memory) const noexcept {
  const GridPlane plane{shape[2], shape[3], out_shape[2] * out_shape[3]};
  // The planes of a picture together: they share its grid.
  for (std::int64_t p = part.begin; p < part.end;) {
    const std::int64_t picture = p / shape[1];
    const std::int64_t count = std::min<std::int64_t>(part.end, (picture + 1) * shape[1]) - p;
    grid_sample(o, plane, memory.at(in[0]) + p * plane.height * plane.width, count,
                memory.at(in[1]) + picture * plane.points * 2, memory.at(out) + p * plane.points);
    p += count;
  }
}

void SelectionStep::work(const Select&, const Band&, const Memory& memory) const noexcept {
  select(selects, memory.at(in[0]), memory.at(in[1]), memory.at(in[2]), memory.at(out));
}

void SelectionStep::run(int item, const Memory& memory) const noexcept {
  const Band part = band(parts, items, item);
  std::visit(
      [&](const auto& o) {
        if constexpr (requires { this->work(o, part, memory); }) work(o, part, memory);
      },
      operation);
}

void ReferenceStep::run(int, const Memory& memory) const noexcept {
  std::vector<Constant> values(in.size());
  std::vector<const Constant*> pointers(in.size(), nullptr);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const float* const from = memory.at(in[i]);
    if (from == nullptr) continue;
    values[i].shape = in_shapes[i];
    values[i].f32.assign(from, from + element_count(in_shapes[i]));
    pointers[i] = &values[i];
  }
  const Constant result = evaluate(op, pointers, out_shape, Folded::kFloats);
  std::copy(result.f32.begin(), result.f32.end(), memory.at(out));
  if (requantize.scale != 0) kernels->requantize(memory.at(out), result.f32.size(), requantize);
}

}  // namespace camd::infer::cpu
