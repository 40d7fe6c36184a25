// Program: a graph prepared for the CPU: steps with packed weights, and a place in one arena for each value.
//
// Threads: a Program is constant once it is built and shared by all Executions; Step::run() as it says.
// Memory: packed weights once per Program. Values share space in the arena when no step needs both.
// Invariants: running does not allocate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "infer/cpu/kernels.hpp"
#include "infer/graph/graph.hpp"

namespace camd::infer::cpu {

// Where a tensor lies while the program runs.
struct Place {
  enum class Kind : std::uint8_t { kNone, kArena, kInput, kOutput, kConstant } kind = Kind::kNone;
  std::size_t offset = 0;           // floats into the arena
  int output = 0;                   // index of the graph output
  const float* constant = nullptr;  // owned by the Program
};

// One run's memory.
struct Memory {
  float* arena = nullptr;
  const float* input = nullptr;
  const std::vector<float*>* outputs = nullptr;
  float* scratch = nullptr;  // of this thread

  // Null for Place::Kind::kNone.
  [[nodiscard]] float* at(const Place& place) const noexcept {
    switch (place.kind) {
      case Place::Kind::kNone: return nullptr;
      case Place::Kind::kArena: return arena + place.offset;
      // Steps only read the input and constants.
      case Place::Kind::kInput: return const_cast<float*>(input);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
      case Place::Kind::kOutput: return (*outputs)[static_cast<std::size_t>(place.output)];
      case Place::Kind::kConstant:
        return const_cast<float*>(place.constant);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    }
    return nullptr;
  }
};

// A blocked picture whose memory is known only when running.
struct BlockedPlace {
  Place place;             // of the whole storage, halo included
  Blocked form;            // data unset
  std::size_t origin = 0;  // floats from the storage's beginning to pixel (0, 0)
  Pads halo;

  [[nodiscard]] Blocked in(const Memory& memory) const noexcept {
    Blocked b = form;
    b.data = memory.at(place) + origin;
    return b;
  }
};

// One operator, ready to run. Its items are independent parts, where possible from the top of the picture to its
// bottom (see ThreadPool).
class Step {
 public:
  virtual ~Step() = default;
  // [any] [no-alloc] Runs item `item` of [0, items). Items may run at the same time, each with scratch memory of its
  // own.
  virtual void run(int item, const Memory& memory) const noexcept = 0;
  int items = 1;
  std::size_t scratch = 0;  // floats that each thread needs
  std::string name;         // for profiles
};

struct Program {
  std::vector<std::unique_ptr<Step>> steps;
  std::vector<std::shared_ptr<const void>> weights;
  std::size_t weight_bytes = 0;
  std::vector<std::shared_ptr<const Constant>> constants;
  std::vector<int> items;  // per step
  std::size_t arena_floats = 0;
  std::size_t scratch_floats = 0;  // per thread
  Graph graph;                     // shapes of inputs and outputs; resize tables live here
};

}  // namespace camd::infer::cpu
