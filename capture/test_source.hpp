// The `test` source: deterministic pictures at an exact pace, with sequence number and birth time in the pixels
// (capture/test_pattern.hpp).
//
// realtime: frame k is due at start + k / fps on the injected clock, an absolute schedule that does not drift. A source
// that is late makes up for it, frame after frame; more than one second late (a stopped process), it moves the schedule
// and says so once. Otherwise frames come as fast as the ring takes them and none is lost.
// `captured` is the birth time in the pixels, read from the clock just before they are drawn.
//
// Threads: one of its own, "test:NAME". Invariants: as FrameSource.
#pragma once

#include <memory>

#include "capture/frame_source.hpp"

namespace camd::capture {

[[nodiscard]] std::unique_ptr<FrameSource> make_test_source(const config::TestSource& settings, const std::string& name,
                                                            CameraIndex index, FrameRing& ring,
                                                            SourceListener& listener, const base::Clock& clock);

}  // namespace camd::capture
