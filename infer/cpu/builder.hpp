// Builder: what the families of operators (build_*.hpp) share while a graph becomes a Program. It decides where each
// value lies, converts between blocked, plain and byte storage where neighbours differ, and plans the arena.
//
// Threads: one thread, during build_program() only. Private to infer/cpu/.
// A value may have a blocked form, a plain form and one of bytes. Each is made once: by the value's own step or by a
// conversion. A family makes a step like this: read_*() for each input, write_*() for the output, then add() with all
// their places.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "infer/cpu/byte_plan.hpp"
#include "infer/cpu/byte_steps.hpp"
#include "infer/cpu/fusion.hpp"
#include "infer/cpu/steps.hpp"

namespace camd::infer::cpu {

class Builder {
 public:
  // `fusions` and `bytes` belong to `graph`, see fuse() and plan_bytes(); `bytes` is empty where kernels have none.
  Builder(Graph graph, Fusions fusions, BytePlan bytes, const Kernels& kernels, int threads, std::string model);

  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }
  [[nodiscard]] const Shape& shape(ValueId id) const { return graph_.shape(id); }
  [[nodiscard]] const Constant& constant(ValueId id) const { return *graph_.value(id).constant; }
  [[nodiscard]] const Kernels& kernels() const noexcept { return kernels_; }
  [[nodiscard]] int threads() const noexcept { return threads_; }
  // What the op does beside its operator; null: it is no normalisation.
  [[nodiscard]] const Normalization* normalization_of(const Op& op) const;
  [[nodiscard]] const Attention* attention_of(const Op& op) const;
  [[nodiscard]] Requantize requantize_of(const Op& op) const;
  [[nodiscard]] const BytePlan& bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool makes_bytes(const Op& op) const { return !bytes_.made.empty() && bytes_.made[at(op.output)]; }

  // ---- Values
  [[nodiscard]] bool is_picture(ValueId id) const;       // [1,C,H,W]
  [[nodiscard]] bool prefers_blocked(ValueId id) const;  // a picture that has a blocked form already
  // The value's storage in one form. read_*() adds a conversion when the value has only the other form.
  [[nodiscard]] BlockedPlace read_blocked(ValueId id);
  [[nodiscard]] BlockedPlace write_blocked(ValueId id);
  [[nodiscard]] BytePlace read_bytes(ValueId id);
  [[nodiscard]] BytePlace write_bytes(ValueId id);
  // How numbers of the grid lie in bytes.
  [[nodiscard]] ByteScale byte_scale(const ByteGrid& grid) const;
  [[nodiscard]] Place read_plain(ValueId id);
  [[nodiscard]] Place write_plain(ValueId id);
  // Whether both values lie in the same plain storage.
  [[nodiscard]] bool share_storage(ValueId a, ValueId b) const { return group_of(a) == group_of(b); }

  // ---- Steps
  // Adds the step. `used`: all places of the step that it reads or writes (Place, BlockedPlace or vectors of them).
  // `op`: for the step's name; null for a conversion.
  template <typename S, typename... Used>
  void add(std::unique_ptr<S>&& step, const Op* op, Used&... used) {
    append(std::move(step), op);
    (touch(used), ...);
  }
  // Adds a step that copies a box of the shape `to` from one plain storage to another, by strides in floats.
  void add_copy(const Op& op, const Place& in, std::int64_t in_base, const std::vector<std::int64_t>& in_strides,
                const Place& out, std::int64_t out_base, const std::vector<std::int64_t>& out_strides, const Shape& to);
  // Stores weights in the Program.
  template <typename T>
  [[nodiscard]] const T* keep(std::vector<T> weights) {
    auto kept = std::make_shared<const std::vector<T>>(std::move(weights));
    program_->weights.push_back(kept);
    program_->weight_bytes += kept->size() * sizeof(T);
    return kept->data();
  }
  // The same for what `pack` makes of a constant of the graph, once for all layers that have this constant. `packing`
  // names what it makes.
  template <typename Pack>
  [[nodiscard]] const void* keep_packed(ValueId constant, std::string_view packing, const Pack& pack) {
    const void*& kept = packed_[{graph_.value(constant).constant.get(), packing}];
    if (kept == nullptr) kept = pack(*graph_.value(constant).constant);
    return kept;
  }

  // After the last op: writes the graph's outputs, plans the arena and hands the Program out.
  [[nodiscard]] std::shared_ptr<const Program> finish();

  // Throws Error(kModel): "MODEL: engine cpu cannot run Conv (node 'x'): why".
  [[noreturn]] void refuse(const Op& op, const std::string& why) const;

 private:
  struct Buffer {
    std::size_t floats = 0;
    int first = -1, last = -1;  // steps that use it
    std::size_t offset = 0;
  };
  struct Storage {
    bool has_plain = false, has_blocked = false, has_bytes = false;
    int blocked_buffer = -1, byte_buffer = -1;
  };

  [[nodiscard]] BlockedPlace blocked_layout(ValueId id) const;  // but where it lies
  [[nodiscard]] BlockedPlace blocked_form(ValueId id);
  [[nodiscard]] BytePlace byte_form(ValueId id);
  [[nodiscard]] Place plain_place(ValueId id);
  [[nodiscard]] int group_of(ValueId id) const;
  void join_reshapes();
  void plan_halos();
  [[nodiscard]] int new_buffer(std::size_t floats);
  template <typename S, typename K, typename Used, typename Written>
  void add_conversion(ValueId id, const K& kernels, const Used& in, const Written& out);
  void append(std::unique_ptr<Step> step, const Op* op);
  // The latest step uses the place: notes its buffer's life, and where to write the offset in the end.
  void touch(Place& place);
  void touch(BlockedPlace& place) { touch(place.place); }
  void touch(BytePlace& place) { touch(place.place); }
  template <typename P>
  void touch(std::vector<P>& places) {
    for (P& place : places) touch(place);
  }
  void write_outputs();
  void plan_arena();

  Graph graph_;
  Fusions fusions_;
  BytePlan bytes_;
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
  std::map<std::pair<const Constant*, std::string_view>, const void*> packed_;
};

// Strides in floats of a plain tensor.
[[nodiscard]] std::vector<std::int64_t> strides_of(const Shape& shape);
// Strides with which a tensor of shape `from` is read as `to`: 0 where it repeats.
[[nodiscard]] std::vector<std::int64_t> broadcast_strides(const Shape& from, const Shape& to);
// Into how many parts a step over `elements` is cut; `limit`: how many there can be.
[[nodiscard]] int parts_for(std::int64_t elements, std::int64_t limit, int threads);

}  // namespace camd::infer::cpu
