// Blobs: what set-up tells a worker, as bytes in a sealed file of memory. The worker reads them, the host writes them.
//
// Threads: functions and values, [any].
// Invariants: BlobReader never reads outside; what does not fit throws Error(kPlugin). Both processes come from one
// build, so numbers are written as they lie in memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.hpp"
#include "device/exported_memory.hpp"
#include "pipeline/plugin_process/protocol.hpp"
#include "plugins/camd_plugin.h"

namespace camd::pipeline::wire {

class BlobWriter {
 public:
  template <class T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* bytes = reinterpret_cast<const char*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(value));
  }
  void text(std::string_view value) {
    put(static_cast<std::uint64_t>(value.size()));
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }
  [[nodiscard]] const std::vector<char>& bytes() const noexcept { return bytes_; }

 private:
  std::vector<char> bytes_;
};

class BlobReader {
 public:
  explicit BlobReader(std::span<const char> bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    std::memcpy(&value, take(sizeof(value)), sizeof(value));
    return value;
  }
  std::string text() {
    const auto size = get<std::uint64_t>();
    return {take(size), static_cast<std::size_t>(size)};
  }

 private:
  const char* take(std::uint64_t size) {
    if (size > bytes_.size()) throw base::Error(base::ErrorKind::kPlugin, "a message of camd is too short");
    const char* at = bytes_.data();
    bytes_ = bytes_.subspan(static_cast<std::size_t>(size));
    return at;
  }
  std::span<const char> bytes_;
};

// What a worker may do, and what it is. The first thing that it is told.
struct WorkerOrder {
  std::uint32_t version = kVersion;
  std::int32_t parent = 0;  // camd's process
  std::string name;         // for its threads and messages
  std::string python;       // the interpreter; empty: libraries
  std::string python_code;  // the folder of the Python side
  bool confined = true;     // false: nothing of the system is taken away
  bool network = false;
  bool gpu = false;
  std::vector<std::string> files;  // folders and files that may be written
  std::uint64_t memory_bytes = 0;  // 0: no limit
  std::int32_t nice = 0;           // above the parent's

  [[nodiscard]] std::vector<char> bytes() const;
  [[nodiscard]] static WorkerOrder read(std::span<const char> bytes);
};

struct CreateOrder {
  std::string plugin;  // the library's or the script's path
  std::string config_json;
  std::uint32_t reloads = 0;

  [[nodiscard]] std::vector<char> bytes() const;
  [[nodiscard]] static CreateOrder read(std::span<const char> bytes);
};

struct CheckOrder {
  std::string plugin;  // as in CreateOrder
  std::string config_json, card_json;
  std::vector<std::string> cameras;

  [[nodiscard]] std::vector<char> bytes() const;
  [[nodiscard]] static CheckOrder read(std::span<const char> bytes);
};

// A model with all that it points at.
class ModelOrder {
 public:
  [[nodiscard]] static std::vector<char> bytes(const camd_model& model, const std::vector<std::string>& cameras);
  explicit ModelOrder(std::span<const char> bytes);
  ModelOrder(const ModelOrder&) = delete;
  ModelOrder& operator=(const ModelOrder&) = delete;
  [[nodiscard]] const camd_model& model() const noexcept { return model_; }

 private:
  struct Spec {
    std::string name;
    std::vector<std::int64_t> shape;
    DLDataType dtype{};
  };
  static Spec read_spec(BlobReader& reader);
  static camd_tensor_spec plain(const Spec& spec);
  std::string path_, card_json_;
  Spec input_;
  std::vector<Spec> outputs_;
  std::vector<camd_tensor_spec> plain_outputs_;
  std::vector<std::string> cameras_;
  std::vector<const char*> camera_names_;
  camd_model model_{};
};

using device::ExportHandle;

// A tensor as a plug-in sees it: nothing, its shape, or its values too.
struct TensorOrder {
  bool present = false;
  bool device = false;                   // among camd_tensors.device_outputs
  Place place;                           // of its values
  std::optional<ExportHandle> exported;  // or: of its values on a GPU
  DLDevice where{};
  DLDataType dtype{};
  std::vector<std::int64_t> shape;
};
// The outputs of a frame in flight, and behind them the input.
[[nodiscard]] std::vector<char> tensor_bytes(const std::vector<TensorOrder>& tensors);
[[nodiscard]] std::vector<TensorOrder> read_tensors(std::span<const char> bytes);

}  // namespace camd::pipeline::wire
