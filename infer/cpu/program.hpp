// Program: a graph prepared for the CPU: operators with packed weights, storage planned in one arena.
//
// Threads: build_program() [setup]; a Program is constant afterwards and shared by all Executions. A Run belongs to one
// Execution and is used by one thread at a time.
// Memory: packed weights once per Program; one arena per Run, in which values share space when their lives do not meet.
// Invariants: running does not allocate.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "infer/cpu/kernels.hpp"
#include "infer/cpu/team.hpp"
#include "infer/graph.hpp"

namespace camd::infer::cpu {

// Where a tensor lies while the program runs.
struct Place {
  enum class Kind : std::uint8_t { kArena, kInput, kOutput, kConstant } kind = Kind::kArena;
  std::size_t offset = 0;           // floats into the arena
  int output = 0;                   // index of the graph output
  const float* constant = nullptr;  // owned by the Program
};

// One run's memory.
struct Memory {
  float* arena = nullptr;
  const float* input = nullptr;
  const std::vector<float*>* outputs = nullptr;
  float* scratch = nullptr;  // of this worker

  [[nodiscard]] float* at(const Place& place) const noexcept {
    switch (place.kind) {
      case Place::Kind::kArena: return arena + place.offset;
      // Of these two, steps read only.
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

// One operator, ready to run. Items are independent parts of it, from the top of the picture to its bottom where they
// can be: Team.
class Step {
 public:
  virtual ~Step() = default;
  virtual void run(int item, const Memory& memory) const noexcept = 0;
  int items = 1;
  std::size_t scratch = 0;  // floats each worker needs
  std::string name;         // for profiles
};

struct Program {
  std::vector<std::unique_ptr<Step>> steps;
  std::vector<std::shared_ptr<const std::vector<float>>> weights;
  std::vector<std::shared_ptr<const Constant>> constants;
  std::vector<int> items;  // per step
  std::size_t arena_floats = 0;
  std::size_t scratch_floats = 0;  // per worker
  Graph graph;                     // shapes of inputs and outputs; resize tables live here
};

// `threads` decides into how many parts operators are cut. Throws Error(kModel) naming what cannot run here.
[[nodiscard]] std::shared_ptr<const Program> build_program(Graph graph, const Kernels& kernels, int threads,
                                                           const std::string& model);

class Run : private StageRunner {
 public:
  Run(std::shared_ptr<const Program> program, Team& team);
  ~Run() override;
  // input: the graph's input, plain; outputs[i]: room for graph output i, plain.
  void operator()(const float* input, const std::vector<float*>& outputs);

 private:
  void run_item(int stage, int item, int worker) noexcept override;

  std::shared_ptr<const Program> program_;
  Team& team_;
  struct AlignedFree {
    void operator()(float* p) const noexcept;
  };
  std::unique_ptr<float, AlignedFree> arena_, scratch_;
  std::vector<std::atomic<int>> done_;
  Memory memory_;
};

}  // namespace camd::infer::cpu
