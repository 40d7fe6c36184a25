// What the plug-in host and a worker process share of one plug-in's instance: two pieces of memory, and a socket that
// carries descriptors to the worker.
//
//   Orders    the host writes, the worker can only read: which call is wanted, and its arguments
//   Answers   both write: what came of the call, the frame's list of detections and its events, the counters
//
// One call at a time. The host fills in Orders, raises Orders::number and wakes the worker with a futex. The worker
// does the call and sets Answers::number to the same value. Tensors and pictures are not in here: they lie in shared
// memory that the worker can only read (shared_memory.hpp), and an order says where.
//
// Threads: plain memory. Orders::number and Answers::number order everything else.
// Invariants: fixed sizes, no pointers. The host believes nothing in Answers: it copies once and checks the copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pipeline/plugin/plugin_counters.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline::wire {

inline constexpr std::uint32_t kVersion = 1;
inline constexpr int kControlFd = 3;                // of a worker when it begins
inline constexpr std::uint32_t kDead = ~0U;         // Answers::number: the host writes it when the process has ended
inline constexpr std::int32_t kMostOutputs = 1024;  // of a model
inline constexpr std::size_t kNameBytes = 80;
inline constexpr std::size_t kMostPlaces = 8;  // of a crash
inline constexpr std::size_t kPlaceBytes = 192;
inline constexpr std::size_t kReportBytes = std::size_t{6} << 20;  // the longest outlet there can be
inline constexpr std::size_t kMessageBytes = 2048;                 // set-up says more than a camd_error holds

enum class Op : std::uint32_t {
  kNone = 0,
  kCreate,   // a blob: what to load (blob.hpp, CreateBlob)
  kOutputs,  // a blob: the model
  kProcess,  // `prepared`, `frame`, `count`, `capacity`
  kReopen,
  kSample,          // `report` has the rows of its outlet
  kOpenCamera,      // `index`, `frame.camera`
  kExchangeCamera,  // `index`, `argument`
  kCloseCamera,     // `argument`
  kDestroy,         // as kSample
  kMapRegion,       // `region`, a descriptor, `argument`: its size
  kUnmapRegion,     // `region`
  kPrepare,         // `prepared`, a blob: where the tensors lie
  kForget,          // `prepared`
  kCheck,           // a blob: what to ask (blob.hpp, CheckOrder); `report` has the answers
};

// Where a tensor or a plane lies.
struct Place {
  std::uint32_t region = 0;  // 0: nowhere
  std::uint32_t reserved = 0;
  std::uint64_t offset = 0;
};

struct Plane {
  Place place;
  std::int32_t stride_bytes = 0, width = 0, height = 0;
};

struct Picture {
  std::int32_t present = 0;
  std::int32_t format = 0, bt709 = 0, full_range = 0, plane_count = 0;
  Plane planes[3];
};

struct Frame {
  char camera[kNameBytes] = {};
  std::int32_t camera_index = 0, width = 0, height = 0;
  std::uint32_t flags = 0;
  std::uint64_t sequence = 0;
  std::int64_t captured_mono_ns = 0, arrived_mono_ns = 0, captured_unix_ns = 0, captured_uncertainty_ns = 0;
  float scale_x = 1, scale_y = 1, offset_x = 0, offset_y = 0;
  Picture picture;
};

struct Orders {
  alignas(64) std::atomic<std::uint32_t> number{0};  // counts calls; 0: none yet
  std::uint32_t op = 0;
  std::uint32_t prepared = 0;
  std::uint32_t region = 0;
  std::uint64_t argument = 0;
  std::int32_t index = 0;
  std::int32_t count = 0;        // detections in Answers on entry
  std::int32_t event_count = 0;  // events in Answers on entry
  std::int32_t capacity = 0;
  std::int32_t reserved = 0;
  Frame frame;
};

// What a plug-in's table offers, as bits of Answers::extensions.
inline constexpr std::uint32_t kOffersSample = 1, kOffersCameras = 2, kOffersReopen = 4;

// What the process was doing when a signal ended it. Its own words: for the log alone.
struct Crash {
  std::atomic<std::int32_t> signal{0};
  std::int32_t count = 0;
  std::uint64_t address = 0;
  char places[kMostPlaces][kPlaceBytes] = {};  // from the inside out
};

struct Answers {
  alignas(64) std::atomic<std::uint32_t> number{0};  // of the call that was done last
  std::int32_t code = 0;
  std::int32_t count = 0;  // detections
  std::int32_t moved = 0;  // the plug-in wrote another place or length for the list
  std::int32_t event_count = 0;
  std::uint32_t extensions = 0;
  std::uint64_t handle = 0;  // of a camera
  char message[kMessageBytes] = {};
  char name[kNameBytes] = {};
  char version[kNameBytes] = {};
  char confinement[kPlaceBytes] = {};  // what was taken from the process, in words
  // kOutputs
  std::int32_t need_input = 0, need_picture = 0, detections = 0;
  std::int32_t need_outputs[kMostOutputs] = {};
  CounterTable counters;
  Crash crash;
  std::uint32_t report_bytes = 0;
  camd_event events[CAMD_MAX_EVENTS];
  camd_detection items[CAMD_MAX_DETECTIONS];  // only what is written takes memory
  char report[kReportBytes];                  // the same (report.hpp)
};

}  // namespace camd::pipeline::wire
