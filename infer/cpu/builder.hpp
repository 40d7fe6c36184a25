// Builder: turns a graph into a Program. Chooses each operator's step and each value's storage, converts between
// blocked and plain where neighbours differ, and plans the arena.
//
// Threads: one thread, during build_program() only. Private to infer/cpu/.
// A value may have a blocked form, a plain form or both; each is made once, by the op itself or by a conversion.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "infer/cpu/steps.hpp"

namespace camd::infer::cpu {

class Builder {
 public:
  Builder(Graph graph, const Kernels& kernels, int threads, std::string model);
  [[nodiscard]] std::shared_ptr<const Program> build();

 private:
  struct Buffer {
    std::size_t floats = 0;
    int first = -1, last = -1;  // steps that use it
    std::size_t offset = 0;
  };
  struct Storage {
    bool has_plain = false, has_blocked = false;
    int blocked_buffer = -1;
  };

  // ---- Values
  [[nodiscard]] const Shape& shape(ValueId id) const { return graph_.shape(id); }
  [[nodiscard]] bool is_picture(ValueId id) const;       // [1,C,H,W]
  [[nodiscard]] bool prefers_blocked(ValueId id) const;  // a picture that has no plain form yet
  [[nodiscard]] BlockedPlace blocked_form(ValueId id);
  // Registers the use of the value's storage by the step that is added next.
  BlockedPlace read_blocked(ValueId id);
  BlockedPlace write_blocked(ValueId id);
  Place read_plain(ValueId id);
  Place write_plain(ValueId id);
  Place plain_place(ValueId id);
  int group_of(ValueId id) const;
  void join_reshapes();
  void plan_halos();
  int new_buffer(std::size_t floats);

  // ---- Steps
  void append(std::unique_ptr<Step> step, const Op* op);
  template <typename S>
  S& add(std::unique_ptr<S> step, const Op* op) {
    S& reference = *step;
    append(std::move(step), op);
    return reference;
  }
  void touch(Place& place);  // of the latest step: patched when the arena is planned
  void touch(BlockedPlace& place) { touch(place.place); }
  const float* keep(std::vector<float> weights);

  void build_op(const Op& op);
  void build_conv(const Op& op, const Conv& conv);
  void build_transposed(const Op& op, const ConvTranspose& conv);
  void add_conv(const Op& op, ConvForm form, ConvArguments arguments, int first_in, int first_out, int out_blocks);
  void build_pool(const Op& op, const Pool& pool);
  void build_resize(const Op& op, const Resize& resize);
  void build_unary(const Op& op, const Activation& function);
  void build_binary(const Op& op, const Binary& binary);
  void build_plain_binary(const Op& op, const Binary& binary);
  void build_concat(const Op& op, const Concat& concat);
  void build_slice(const Op& op, const Slice& slice);
  void build_gather(const Op& op, const Gather& gather);
  void build_transpose(const Op& op, const Transpose& transpose);
  void build_reshape(const Op& op);
  void build_softmax(const Op& op, const Softmax& softmax);
  void build_matmul(const Op& op);
  void build_reduce(const Op& op, const Reduce& reduce);
  void build_reference(const Op& op);
  void add_channels(const Op& op, const std::vector<ValueId>& sources, std::vector<ChannelsStep::From> from);
  void add_copy(const Op& op, const Place& in, std::int64_t in_base, std::vector<std::int64_t> in_strides,
                const Place& out, std::int64_t out_base, std::vector<std::int64_t> out_strides, Shape to);
  void finish_outputs();
  void plan_arena();
  [[noreturn]] void refuse(const Op& op, const std::string& why) const;

  Graph graph_;
  const Kernels& kernels_;
  int threads_;
  std::string model_;
  std::shared_ptr<Program> program_;
  std::vector<Storage> storage_;    // per value
  std::vector<Pads> halos_;         // per value
  std::vector<int> groups_;         // per value: the value whose plain storage it shares
  std::vector<int> plain_buffers_;  // per group; -1: not yet
  std::vector<int> group_output_;   // per group: a graph output in it, or -1
  std::vector<Buffer> buffers_;
  std::vector<std::pair<Place*, int>> patches_;  // arena places and their buffers
};

}  // namespace camd::infer::cpu
