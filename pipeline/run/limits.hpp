// What cameras cost a process, and whether its limits allow it: descriptors, threads and memory.
//
// GLib aborts the process when it cannot open a descriptor, start a thread or allocate memory, so what cannot fit is
// refused before. Descriptors and threads are reckoned with the most that there may be, memory with the least that is
// certain: pictures whose size is configured, the model's file, what libraries need, the engine's weights and its
// frames in flight, of both engines while a reload has two. How large other pictures are only the camera knows.
// Threads: functions of their arguments and of the process's limits, [any].
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.hpp"
#include "device/device.hpp"
#include "infer/model_report.hpp"

namespace camd::pipeline {

struct Cost {
  std::uint64_t descriptors = 0;
  std::uint64_t threads = 0;
  std::uint64_t memory_bytes = 0;  // the least, without pictures
};

// Most that one camera of the kind takes, attempts to reconnect included (docs/configuration.md has the measurement).
[[nodiscard]] Cost cost_of(const config::Source& source) noexcept;
// Of a whole configuration, with what camd takes without cameras.
[[nodiscard]] Cost cost_of(const config::Config& config);

struct Limits {
  std::uint64_t descriptors = 0;
  std::uint64_t threads = 0;       // that this process may have
  std::uint64_t memory_bytes = 0;  // that it may have, with what it has
};
[[nodiscard]] Limits process_limits();

// What a lane takes: the engine's weights and its frames in flight.
struct LaneCost {
  std::uint64_t frames = 0;        // in flight
  std::uint64_t host_bytes = 0;    // on a GPU page-locked
  std::uint64_t device_bytes = 0;  // of a GPU; 0 on the host device
};
// What the engine that the configuration gets on this device will take; 0 where nobody knows (opencv).
[[nodiscard]] infer::EngineMemory engine_memory(const config::Model& model, const infer::ModelReport& report,
                                                const device::DeviceInfo& device);
[[nodiscard]] LaneCost lane_cost(const infer::EngineMemory& engine, std::size_t cameras,
                                 const device::DeviceInfo& device) noexcept;

// What a lane that is about to be made finds.
struct Room {
  Limits limits;
  std::optional<std::size_t> free_device_bytes{};  // of a GPU; empty: nobody knows
  LaneCost beside{};                               // what runs until the new lane has taken over
};
// Why the lane does not fit, with the numbers; empty when it does.
[[nodiscard]] std::string lane_problem(const config::Config& config, const LaneCost& lane, const Room& room);
// Throws Error(kConfig) for memory of the host, Error(kDevice) for that of a GPU.
void check_lane(const config::Config& config, const LaneCost& lane, const Room& room);

// Lifts the soft limit of descriptors to the hard one.
void raise_descriptor_limit() noexcept;

// What is wrong, with the numbers; empty when it fits.
[[nodiscard]] std::string limit_problem(const config::Config& config, const Limits& limits);
// Throws Error(kConfig) with that, for this process after raise_descriptor_limit().
void check_limits(const config::Config& config);

}  // namespace camd::pipeline
