// Loads a plug-in as camd does and runs three frames through it; prints what it logged, counted and left.
//   run_plugin FILE.so
#include <dlfcn.h>

#include <cstdio>

#include "harness.hpp"

int main(int argc, char** argv) {
  using namespace camd::plugins::testing;
  if (argc != 2) return 2;
  void* library = ::dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  const auto entry =
      library != nullptr ? reinterpret_cast<camd_plugin_entry>(::dlsym(library, CAMD_PLUGIN_SYMBOL)) : nullptr;
  if (entry == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    return 1;
  }
  FakeModel model(4, 4);
  Instance run(entry());
  std::printf("%s %s abi %u\n", run.table->name, run.table->version, run.table->abi_version);
  bool good = run.create("{}") == CAMD_OK && run.outputs(model) == CAMD_OK;
  for (int frame = 0; good && frame < 3; ++frame) {
    std::vector<camd_detection> found(3);
    for (int i = 0; i < 3; ++i)
      found[static_cast<std::size_t>(i)].box[2] = found[static_cast<std::size_t>(i)].box[3] =
          static_cast<float>(1 + (i + frame) % 3);
    good = run.process(model, found) == CAMD_OK;
    std::printf("frame %d:", frame);
    for (const camd_detection& d : run.found()) std::printf(" %g", static_cast<double>(d.box[2]));
    for (const camd_event& e : run.host.events) std::printf(" %s %s=%g", e.name, e.numbers[0].name, e.numbers[0].value);
    run.host.events.clear();
    std::printf("\n");
  }
  good = run.destroy() == CAMD_OK && good;
  for (const std::string& line : run.host.number_lines()) std::printf("counter %s\n", line.c_str());
  for (const std::string& line : run.host.lines) std::printf("log %s\n", line.c_str());
  if (!good) std::printf("error: %s\n", run.error().c_str());
  return good ? 0 : 1;
}
