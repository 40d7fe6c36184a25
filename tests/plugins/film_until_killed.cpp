// Writes a film with the built-in `annotate` until some fragments of it are in the file, then kills itself.
//   film_until_killed FILM.mp4
#include <signal.h>
#include <unistd.h>

#include <string>

#include "harness.hpp"
#include "plugins/builtin.hpp"

int main(int argc, char** argv) {
  using namespace camd::plugins::testing;
  if (argc != 2) return 2;
  const std::string film = argv[1];
  const std::string partial = film.substr(0, film.size() - 4) + ".partial.mp4";
  FakeModel model(4, 4);
  Instance run(camd::plugins::find_builtin("annotate"));
  if (run.create(R"({"path":")" + film + "\"}") != CAMD_OK || run.outputs(model) != CAMD_OK) return 1;
  constexpr int kSide = 64;
  std::vector<std::uint8_t> grey(kSide * kSide, 100);
  camd_picture picture{};
  picture.format = CAMD_PIXEL_GRAY8;
  picture.plane_count = 1;
  picture.planes[0] = {grey.data(), kSide, kSide, kSide};
  run.frame.width = run.frame.height = kSide;
  run.frame.picture = &picture;
  for (int frame = 0; frame < 5000; ++frame) {
    run.frame.captured_mono_ns += 33'333'333;
    if (run.process(model) != CAMD_OK) return 1;
    ::usleep(2000);  // lets the encoder keep up
    if (frame % 30 != 0) continue;
    const std::string bytes = read_file(partial);
    int fragments = 0;
    for (std::size_t at = bytes.find("moof"); at != std::string::npos; at = bytes.find("moof", at + 1)) ++fragments;
    if (fragments >= 3) static_cast<void>(::kill(::getpid(), SIGKILL));
  }
  return 1;
}
