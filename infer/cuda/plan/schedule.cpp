// Lanes and memory. Both use one relation: step b comes after step a if b waits for a, or is behind a in a lane, or
// comes after a step that comes after a. `after_[b]` has a bit for each such a.
#include "infer/cuda/plan/schedule.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace camd::infer::cuda {
namespace {

// A set of steps, a bit for each: a model of a few bytes can ask for thousands of steps, each after thousands.
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
    find_critical_path();
    give_lanes();
    give_memory();
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

  // For each step the cycles from its end to the network's end, and its critical successor: the next step of the
  // longest chain. The longest chain stays in one lane, where launches overlap.
  void find_critical_path() {
    cycles_to_end_.assign(count_, 0.0);
    critical_successor_.assign(count_, count_);
    for (std::size_t i = count_; i-- > 0;) {
      for (const std::size_t j : needs_[i]) {
        if (cycles_to_end_[i] + plan_.steps[i].cycles > cycles_to_end_[j]) {
          cycles_to_end_[j] = cycles_to_end_[i] + plan_.steps[i].cycles;
          critical_successor_[j] = i;
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
      // A kernel that has started and waits takes room that others could use. So outside of the longest chain it starts
      // early only where it waits for nothing but the step before it in its lane.
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
      if (needed && critical_successor_[tails[l]] == i) return l;
    }
    if (tails.size() < static_cast<std::size_t>(max_lanes_)) return tails.size();
    // A lane whose last step is done before this one anyway; else the one that ended longest ago. A lane that a step
    // from which it is farther to the end will go on with is left to that one, if there is another.
    const auto from_start = [&](std::size_t step) { return cycles_to_end_[step] + plan_.steps[step].cycles; };
    const auto left_alone = [&](std::size_t l) {
      const std::size_t next = critical_successor_[tails[l]];
      return next != count_ && next > i && from_start(next) > from_start(i);
    };
    for (const bool any : {false, true}) {
      std::size_t oldest = tails.size();
      for (std::size_t l = 0; l < tails.size(); ++l) {
        if (!any && left_alone(l)) continue;
        for (const std::size_t j : needs_[i]) {
          if (tails[l] == j || after_[j][tails[l]]) return l;
        }
        if (oldest == tails.size() || tails[l] < tails[oldest]) oldest = l;
      }
      if (oldest != tails.size()) return oldest;
    }
    return 0;
  }

  void give_memory() {
    struct Life {
      std::vector<std::size_t> users;  // steps that read or write it
      std::size_t first = 0;           // the first one
    };
    std::vector<Life> lives(plan_.buffers.size());
    for (std::size_t i = 0; i < count_; ++i) {
      for (const std::vector<int>* list : {&plan_.steps[i].writes, &plan_.steps[i].reads}) {
        for (const int b : *list) lives[static_cast<std::size_t>(b)].users.push_back(i);
      }
    }
    std::vector<std::size_t> order;
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      if (plan_.buffers[b].kind != BufferKind::kArena || lives[b].users.empty()) continue;
      lives[b].first = *std::min_element(lives[b].users.begin(), lives[b].users.end());
      order.push_back(b);
    }
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return plan_.buffers[a].size_bytes != plan_.buffers[b].size_bytes
                 ? plan_.buffers[a].size_bytes > plan_.buffers[b].size_bytes
                 : a < b;
    });
    // True when every user of `early` is done before any writer of `late` starts.
    const auto before = [&](const Life& early, const Life& late) {
      return std::all_of(late.users.begin(), late.users.end(), [&](std::size_t l) {
        return std::all_of(early.users.begin(), early.users.end(), [&](std::size_t e) { return after_[l][e]; });
      });
    };
    std::vector<std::size_t> placed;
    for (const std::size_t b : order) {
      Buffer& buffer = plan_.buffers[b];
      const std::size_t size = aligned(buffer.size_bytes);
      std::vector<std::size_t> others;
      for (const std::size_t o : placed) {
        const bool apart = !buffer.exclusive && !plan_.buffers[o].exclusive &&
                           (before(lives[o], lives[b]) || before(lives[b], lives[o]));
        if (!apart) others.push_back(o);
      }
      std::sort(others.begin(), others.end(), [&](std::size_t x, std::size_t y) {
        return plan_.buffers[x].offset_bytes < plan_.buffers[y].offset_bytes;
      });
      std::size_t at = 0;
      for (const std::size_t o : others) {
        if (at + size <= plan_.buffers[o].offset_bytes) break;
        at = std::max(at, plan_.buffers[o].offset_bytes + aligned(plan_.buffers[o].size_bytes));
      }
      buffer.offset_bytes = at;
      plan_.arena_bytes = std::max(plan_.arena_bytes, at + size);
      placed.push_back(b);
    }
  }

  Plan& plan_;
  const int max_lanes_;
  const std::size_t count_;
  std::vector<std::vector<std::size_t>> needs_;
  std::vector<double> cycles_to_end_;
  std::vector<std::size_t> critical_successor_;
  std::vector<Bits> after_;
};

}  // namespace

void schedule(Plan& plan, int lanes) { Scheduler(plan, lanes).run(); }

}  // namespace camd::infer::cuda
