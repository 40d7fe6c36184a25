// Lanes and memory. Both rest on one relation: step b happens after step a when b waits for a, or b is behind a in a
// lane, or through others. `after[b]` holds all such a as bits.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <vector>

#include "infer/cuda/plan_builder.hpp"

namespace camd::infer::cuda {
namespace {

// A set of steps; 64 to a word, because models of a few bytes can ask for thousands of steps that need thousands.
class Bits {
 public:
  explicit Bits(std::size_t count) : words_((count + 63) / 64, 0) {}
  [[nodiscard]] bool operator[](std::size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  void set(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  void merge(const Bits& other) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }

 private:
  std::vector<std::uint64_t> words_;
};

class Scheduler {
 public:
  Scheduler(Plan& plan, int lanes) : plan_(plan), max_lanes_(std::max(lanes, 1)), count_(plan.steps.size()) {}

  void run() {
    find_needs();
    find_heights();
    give_lanes();
    const ArenaLayout arena = lay_out_arena(plan_);
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      if (plan_.buffers[b].kind == BufferKind::kArena) plan_.buffers[b].offset_bytes = arena.offsets[b];
    }
    plan_.arena_bytes = arena.size_bytes;
  }

 private:
  // needs_[i]: the steps whose results step i reads, or completes as an output of the network; those that others of
  // them come after are left out.
  void find_needs() {
    needs_.assign(count_, {});
    std::vector<Bits> all(count_, Bits(count_));
    std::vector<std::vector<std::size_t>> writers(plan_.buffers.size());  // of each buffer, among the steps so far
    for (std::size_t i = 0; i < count_; ++i) {
      std::vector<std::size_t> made_it;
      for (const int b : plan_.steps[i].reads) {
        const auto& of_buffer = writers[static_cast<std::size_t>(b)];
        made_it.insert(made_it.end(), of_buffer.begin(), of_buffer.end());
      }
      for (const PlannedOutput& output : plan_.outputs) {
        if (output.step != static_cast<int>(i)) continue;
        const auto& of_output = writers[static_cast<std::size_t>(output.buffer)];
        made_it.insert(made_it.end(), of_output.begin(), of_output.end());
      }
      // From the latest on: what an earlier one of them is needed for has then been merged already.
      std::sort(made_it.begin(), made_it.end(), std::greater<>());
      for (const std::size_t j : made_it) {
        if (all[i][j]) continue;
        needs_[i].push_back(j);
        all[i].set(j);
        all[i].merge(all[j]);
      }
      std::reverse(needs_[i].begin(), needs_[i].end());
      for (const int b : plan_.steps[i].writes) writers[static_cast<std::size_t>(b)].push_back(i);
    }
  }

  // Cycles from here to the end of the longest chain: the chain to keep in one lane, where launches overlap.
  void find_heights() {
    height_.assign(count_, 0.0);
    heir_.assign(count_, count_);
    for (std::size_t i = count_; i-- > 0;) {
      for (const std::size_t j : needs_[i]) {
        if (height_[i] + plan_.steps[i].cycles > height_[j]) {
          height_[j] = height_[i] + plan_.steps[i].cycles;
          heir_[j] = i;
        }
      }
    }
  }

  void give_lanes() {
    after_.assign(count_, Bits(count_));
    std::vector<std::size_t> tails;  // the last step of each lane
    for (std::size_t i = 0; i < count_; ++i) {
      Step& step = plan_.steps[i];
      const std::size_t lane = choose_lane(i, tails);
      if (lane == tails.size()) tails.push_back(count_);
      const std::size_t tail = tails[lane];
      if (tail != count_) follow(i, tail);
      for (const std::size_t j : needs_[i]) {
        if (after_[i][j]) continue;
        step.waits.push_back(static_cast<int>(j));
        plan_.steps[j].signals = true;
      }
      for (const int j : step.waits) follow(i, static_cast<std::size_t>(j));
      step.lane = static_cast<int>(lane);
      // A kernel that has started and waits holds a place that others could run in: outside of the longest chain it
      // starts early only behind what it would wait for anyway.
      step.overlap_previous = tail != count_ && (lane == 0 || step.waits.empty());
      tails[lane] = i;
    }
    plan_.lane_count = std::max<int>(1, static_cast<int>(tails.size()));
  }
  void follow(std::size_t i, std::size_t before) {
    after_[i].set(before);
    after_[i].merge(after_[before]);
  }
  std::size_t choose_lane(std::size_t i, const std::vector<std::size_t>& tails) const {
    for (std::size_t l = 0; l < tails.size(); ++l) {
      const bool needed = std::find(needs_[i].begin(), needs_[i].end(), tails[l]) != needs_[i].end();
      if (needed && heir_[tails[l]] == i) return l;
    }
    if (tails.size() < static_cast<std::size_t>(max_lanes_)) return tails.size();
    // A lane whose last step is done before this one anyway; else the one that ended longest ago.
    std::size_t oldest = 0;
    for (std::size_t l = 0; l < tails.size(); ++l) {
      for (const std::size_t j : needs_[i]) {
        if (tails[l] == j || after_[j][tails[l]]) return l;
      }
      if (tails[l] < tails[oldest]) oldest = l;
    }
    return oldest;
  }

  Plan& plan_;
  const int max_lanes_;
  const std::size_t count_;
  std::vector<std::vector<std::size_t>> needs_;
  std::vector<double> height_;
  std::vector<std::size_t> heir_;
  std::vector<Bits> after_;
};

// Of each step those that are done before it starts, as its lane and its waits have it.
std::vector<Bits> find_order(const Plan& plan) {
  const std::size_t count = plan.steps.size();
  std::vector<Bits> after(count, Bits(count));
  std::vector<std::size_t> tails(static_cast<std::size_t>(plan.lane_count), count);  // the last step of each lane
  for (std::size_t i = 0; i < count; ++i) {
    const auto follow = [&](std::size_t before) {
      after[i].set(before);
      after[i].merge(after[before]);
    };
    std::size_t& tail = tails[static_cast<std::size_t>(plan.steps[i].lane)];
    if (tail != count) follow(tail);
    for (const int j : plan.steps[i].waits) follow(static_cast<std::size_t>(j));
    tail = i;
  }
  return after;
}

}  // namespace

void schedule(Plan& plan, int lanes) { Scheduler(plan, lanes).run(); }

ArenaLayout lay_out_arena(const Plan& plan, const std::vector<int>& apart) {
  struct Life {
    std::vector<std::size_t> users;  // steps that read or write it
    bool apart = false;
  };
  const std::vector<Bits> after = find_order(plan);
  std::vector<Life> lives(plan.buffers.size());
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    for (const std::vector<int>* list : {&plan.steps[i].writes, &plan.steps[i].reads}) {
      for (const int b : *list) lives[static_cast<std::size_t>(b)].users.push_back(i);
    }
  }
  for (const int b : apart) lives[static_cast<std::size_t>(b)].apart = true;
  std::vector<std::size_t> order;
  for (std::size_t b = 0; b < plan.buffers.size(); ++b) {
    if (plan.buffers[b].kind == BufferKind::kArena && !lives[b].users.empty()) order.push_back(b);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return plan.buffers[a].size_bytes != plan.buffers[b].size_bytes
               ? plan.buffers[a].size_bytes > plan.buffers[b].size_bytes
               : a < b;
  });
  // True when every user of `early` is done before any writer of `late` starts.
  const auto before = [&](const Life& early, const Life& late) {
    return std::all_of(late.users.begin(), late.users.end(), [&](std::size_t l) {
      return std::all_of(early.users.begin(), early.users.end(), [&](std::size_t e) { return after[l][e]; });
    });
  };
  const auto may_share = [&](std::size_t a, std::size_t b) {
    if (plan.buffers[a].exclusive || plan.buffers[b].exclusive || (lives[a].apart && lives[b].apart)) return false;
    return before(lives[a], lives[b]) || before(lives[b], lives[a]);
  };
  ArenaLayout arena;
  arena.offsets.assign(plan.buffers.size(), 0);
  std::vector<std::size_t> placed;
  for (const std::size_t b : order) {
    const std::size_t size = aligned(plan.buffers[b].size_bytes);
    std::vector<std::size_t> others;
    std::copy_if(placed.begin(), placed.end(), std::back_inserter(others),
                 [&](std::size_t o) { return !may_share(o, b); });
    std::sort(others.begin(), others.end(),
              [&](std::size_t x, std::size_t y) { return arena.offsets[x] < arena.offsets[y]; });
    std::size_t at = 0;
    for (const std::size_t o : others) {
      if (at + size <= arena.offsets[o]) break;
      at = std::max(at, arena.offsets[o] + aligned(plan.buffers[o].size_bytes));
    }
    arena.offsets[b] = at;
    arena.size_bytes = std::max(arena.size_bytes, at + size);
    placed.push_back(b);
  }
  return arena;
}

}  // namespace camd::infer::cuda
