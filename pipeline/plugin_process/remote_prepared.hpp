// RemotePlugin::Prepared: where the tensors of one frame in flight lie for the worker.
//
// Threads: constructor, destructor [setup]; copy() [post].
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "pipeline/plugin_process/blob.hpp"
#include "pipeline/plugin_process/remote_plugin.hpp"

namespace camd::pipeline {

class RemotePlugin::Prepared final : public PreparedFrame {
 public:
  // A tensor that lies elsewhere, and its place in shared memory.
  struct Staged {
    const std::byte* from = nullptr;
    std::shared_ptr<std::byte> to;
    std::size_t size_bytes = 0;
  };
  explicit Prepared(RemotePlugin& owner) : plugin(owner) {}
  ~Prepared() override { plugin.forget(*this); }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  RemotePlugin& plugin;
  std::uint32_t id = 0;
  std::vector<wire::TensorOrder> tensors;  // the outputs, and the input
  std::vector<Staged> staged;
  std::vector<std::uint32_t> regions;  // each once
};

}  // namespace camd::pipeline
