// libFuzzer's target for recordings. Any end but frames that keep their bounds, or a message, is a bug.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>

#include "plugins/record/recording.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace camd::plugins;
  static const std::string path = "/tmp/camd_recording_fuzz_" + std::to_string(getpid());
  {
    // What would be refused at once is left to the tests.
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << "camdrec\n";
    file.write(reinterpret_cast<const char*>(&kRecordingVersion), sizeof(kRecordingVersion));
    file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  }
  try {
    RecordingReader reader(path);
    while (const std::optional<RecordedFrame> frame = reader.next()) {
      if (frame->tensors.size() != reader.model().outputs.size() + 1) std::abort();
      if (static_cast<std::size_t>(frame->camera) >= reader.model().cameras.size()) std::abort();
      if (frame->detections.size() > CAMD_MAX_DETECTIONS || frame->events.size() > CAMD_MAX_EVENTS) std::abort();
    }
  } catch (const std::runtime_error&) {
  }
  (void)unlink(path.c_str());
  return 0;
}
