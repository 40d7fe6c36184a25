// Looks at neighbours in the plan's order only: what is made later waits for later kernels.
#include "infer/cuda/plan/joined_steps.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace camd::infer::cuda {
namespace {

bool contains(const std::vector<int>& buffers, int buffer) {
  return std::find(buffers.begin(), buffers.end(), buffer) != buffers.end();
}
bool share(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int buffer) { return contains(b, buffer); });
}
bool contain(const std::vector<int>& all, const std::vector<int>& some) {
  return std::all_of(some.begin(), some.end(), [&](int buffer) { return contains(all, buffer); });
}

// The arguments of steps of one kind, alone and together.
struct Moves {
  using One = MoveArguments;
  using All = MovesArguments;
  static constexpr int kMost = kMostMoves;
  static auto& list(All& all) { return all.moves; }
  static bool takes(const One&) { return true; }
  static bool read_alike(const Step& before, const Step& step) { return contain(before.reads, step.reads); }
};
struct Programs {
  using One = ElementwiseArguments;
  using All = ElementwisesArguments;
  static constexpr int kMost = kMostElementwise;
  static auto& list(All& all) { return all.programs; }
  static bool takes(const One& a) {
    std::int64_t count = 1;
    for (int d = 0; d < a.rank; ++d) count *= a.shape[d];
    return count < kMostSmallElements && is_near(a);
  }
  static bool read_alike(const Step& before, const Step& step) { return share(before.reads, step.reads); }
};

class Joiner {
 public:
  explicit Joiner(Plan& plan) : plan_(plan) {}

  void run() {
    std::vector<Step> steps;
    for (Step& step : plan_.steps) {
      if (steps.empty() || (!join<Moves>(steps.back(), step) && !join<Programs>(steps.back(), step)))
        steps.push_back(std::move(step));
    }
    plan_.steps = std::move(steps);
  }

 private:
  [[nodiscard]] bool makes_outputs(const Step& step) const {
    return std::all_of(step.writes.begin(), step.writes.end(), [&](int buffer) {
      return plan_.buffers[static_cast<std::size_t>(buffer)].kind == BufferKind::kOutput;
    });
  }
  // Adds `step` to the one before it, if both are of this kind and fit.
  template <typename Kind>
  bool join(Step& before, const Step& step) const {
    const auto* own = std::get_if<typename Kind::One>(&step.arguments);
    const auto* first = std::get_if<typename Kind::One>(&before.arguments);
    const auto* joined = std::get_if<typename Kind::All>(&before.arguments);
    if (own == nullptr || !Kind::takes(*own) || (first == nullptr && joined == nullptr)) return false;
    if (first != nullptr ? !Kind::takes(*first) : joined->count >= Kind::kMost) return false;
    if (share(before.writes, step.reads)) return false;
    const bool together = share(before.writes, step.writes) || Kind::read_alike(before, step) ||
                          (makes_outputs(before) && makes_outputs(step));
    if (!together) return false;
    if (first != nullptr) {
      typename Kind::All all;
      Kind::list(all)[all.count++] = *first;
      before.arguments = all;
    }
    auto& all = std::get<typename Kind::All>(before.arguments);
    Kind::list(all)[all.count++] = *own;
    if (before.origin != step.origin) before.origin += " + " + step.origin;
    before.reads.insert(before.reads.end(), step.reads.begin(), step.reads.end());
    before.writes.insert(before.writes.end(), step.writes.begin(), step.writes.end());
    return true;
  }

  Plan& plan_;
};

}  // namespace

void join_steps(Plan& plan) { Joiner(plan).run(); }

}  // namespace camd::infer::cuda
