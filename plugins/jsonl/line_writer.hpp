// LineWriter: a built-in that writes each frame as lines of text into a file, or a file for each camera. What
// distinguishes one format from another is one function.
//
// Threads: as every plug-in (camd_plugin.h).
// Invariants: a frame's lines are there whole or not at all; after warm-up a frame costs no allocation and one
// write(2).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/frame_json.hpp"
#include "plugins/jsonl/line_file.hpp"

namespace camd::plugins {

class LineWriter : public camd::plugin::Postprocessor {
 public:
  // Appends a frame's lines, each with its end; none is fine. [no-alloc] where `out` has room.
  using PutLines = void (*)(JsonBuffer& out, const camd_frame& frame, const camd::plugin::Results& results,
                            const camd::plugin::Events& events, std::int64_t now_ns);

  // `name` is the built-in's, for messages; a literal.
  LineWriter(camd::plugin::Host host, std::string_view config_json, std::string_view name, PutLines put_lines);

  static void check(const camd::plugin::Check& check);

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override;
  void process(const camd_frame& frame, const camd::plugin::Tensors& tensors, camd::plugin::Results& results) override;
  void reopen() override;
  void finish() override;
  std::unique_ptr<Camera> open_camera(int index, const char* name) override;
  std::unique_ptr<Camera> exchange_camera(int index, std::unique_ptr<Camera> camera) noexcept override;

 private:
  struct OneFile final : Camera {
    void finish() override {
      if (file) file->close();
    }
    std::unique_ptr<LineFile> file;
  };

  camd::plugin::Host host_;
  camd::plugin::Events events_;
  const std::string_view name_;
  const PutLines put_lines_;
  std::string path_;
  bool append_ = true;
  bool per_camera_ = false;
  std::vector<std::unique_ptr<LineFile>> files_;  // one, or one per camera
  JsonBuffer lines_;
};

}  // namespace camd::plugins
