// Runs a model on the CPU engine, with one thread, on numbers from a file: for scripts/peers/parity_arm64.py.
//
//   run_model MODEL WIDTH HEIGHT INPUT OUTPUT [f16|bf16]
//
// INPUT: the network's input, f32 in C order and nothing else, or several, one behind the other: the engine is made
// once. OUTPUT: its outputs likewise, one behind the other, those of the first input first. WIDTH, HEIGHT: of the
// input, for models that leave them open. It calls getppid() before and after each run, for
// scripts/peers/count_instructions.c.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "device/host_device.hpp"
#include "infer/engine.hpp"

namespace {

using camd::base::Error;
using camd::base::ErrorKind;

void run(const char* model, int width, int height, const char* input, const char* output,
         std::optional<camd::infer::HalfType> half) {
  const auto device = camd::device::make_host_device(camd::base::system_clock());
  camd::infer::EngineOptions options;
  options.kind = camd::infer::EngineKind::kCpu;
  options.threads = 1;
  options.host_half = half;
  options.input.scale_by_type = true;
  options.input.width = width;
  options.input.height = height;
  const auto engine = camd::infer::make_engine(model, options, *device);
  const auto execution = engine->make_execution();
  const auto size = static_cast<std::streamsize>(engine->input().size_bytes());
  std::ifstream from(input, std::ios::binary);
  std::ofstream to(output, std::ios::binary);
  const auto stream = device->make_stream("compute");
  do {
    if (!from.read(static_cast<char*>(execution->input().data), size)) {
      throw Error(ErrorKind::kIo, fmt::format("{}: must hold {} bytes for each input of {}", input, size, model));
    }
    (void)getppid();
    camd::base::Status status = execution->enqueue_network(stream);
    if (status.ok()) status = device->synchronize(stream.ref());
    (void)getppid();
    if (status.ok()) status = execution->result();
    if (!status.ok()) throw Error(status.kind(), status.message());
    for (std::size_t i = 0; i < engine->outputs().size(); ++i) {
      to.write(static_cast<const char*>(execution->output(i).data),
               static_cast<std::streamsize>(engine->outputs()[i].size_bytes()));
    }
  } while (from.peek() != EOF);
  if (!to.flush()) throw Error(ErrorKind::kIo, fmt::format("{}: cannot be written", output));
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<camd::infer::HalfType> half;
  for (const auto type : {camd::infer::HalfType::kF16, camd::infer::HalfType::kBf16}) {
    if (argc == 7 && argv[6] == to_string(type)) half = type;
  }
  if (argc != 6 && !half) {
    std::fputs("usage: run_model MODEL WIDTH HEIGHT INPUT OUTPUT [f16|bf16]\n", stderr);
    return 2;
  }
  try {
    run(argv[1], std::stoi(argv[2]), std::stoi(argv[3]), argv[4], argv[5], half);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "run_model: %s\n", error.what());
    return 1;
  }
  return 0;
}
