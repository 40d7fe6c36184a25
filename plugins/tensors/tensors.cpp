// The built-in `tensors`: the network's input and outputs of chosen frames as .npy, to look into a model and to compare
// engines.
//
// Threads: as every plug-in (camd_plugin.h). process() writes files: a tool for looking, not for every frame.
// Invariants: a file appears whole or not at all.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "plugins/camd_plugin.hpp"
#include "plugins/json_object.hpp"
#include "plugins/paths.hpp"
#include "plugins/tables.hpp"
#include "plugins/tensors/npy.hpp"

namespace camd::plugins {
namespace {

// A tensor's name in a file's name: INTERFACE's rule, stricter than that for cameras.
std::string tensor_part(std::string_view name) {
  std::string part(name);
  for (char& c : part) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return part;
}

struct TensorOptions {
  std::string dir;
  std::uint64_t every = 30;
  bool input = true;
  std::vector<std::string> outputs;  // names; empty: all
};

TensorOptions read_options(JsonObject& config) {
  TensorOptions options;
  const auto dir = config.text("dir");
  if (!config.has("dir") || (dir && dir->empty()))
    config.fail("dir", "is needed: the folder to write, e.g. out/tensors");
  options.dir = dir.value_or("");
  while (options.dir.size() > 1 && options.dir.back() == '/') options.dir.pop_back();
  if (const std::string problem = time_problem(options.dir); !problem.empty()) config.fail("dir", problem);
  options.every = static_cast<std::uint64_t>(config.integer("every", 1, 1'000'000'000).value_or(30));
  options.input = config.boolean("input").value_or(true);
  options.outputs = config.texts("outputs").value_or(std::vector<std::string>{});
  return options;
}

// The folder of one camera. Where the path names none and there are several, each has its own below it.
std::string camera_folder(const std::string& dir, const std::string& camera_part, bool several) {
  std::filesystem::path folder = replaced(dir, "{camera}", camera_part);
  if (several && dir.find("{camera}") == std::string::npos) folder /= camera_part;
  return folder.string();
}

class TensorFiles final : public camd::plugin::Postprocessor {
 public:
  TensorFiles(camd::plugin::Host host, std::string_view config_json) : host_(host) {
    JsonObject config("config", config_json);
    TensorOptions options = read_options(config);
    config.finish();
    dir_ = std::move(options.dir);
    every_ = options.every;
    input_ = options.input;
    wanted_ = std::move(options.outputs);
  }

  static void check(const camd::plugin::Check& check) {
    JsonObject config("config", check.config_json());
    const std::string dir = read_options(config).dir;
    config.report(check);
    if (dir.empty() || !time_problem(dir).empty()) return;
    try {
      const std::vector<std::string> parts = camera_parts(check.camera_names());
      for (const std::string& part : parts) {
        const std::string folder = at_time(camera_folder(dir, part, parts.size() > 1), std::time(nullptr));
        const std::string problem = folder_problem(folder);
        if (!problem.empty()) {
          check.mistake("dir", problem);
          return;
        }
        check.claim("dir", folder);
      }
    } catch (const std::invalid_argument& same_names) {
      check.mistake("dir", same_names.what());
    }
  }

  void outputs(const camd_model& model, camd::plugin::Needs& needs) override {
    if (input_) needs.input(CAMD_NEED_HOST);
    channels_last_ = CAMD_HAS_MEMBER(camd_model, &model, channels_last) && model.channels_last != 0;
    names_.assign(static_cast<std::size_t>(model.output_count), "");
    input_name_ = model.input.name;
    std::vector<std::string> known;
    for (int i = 0; i < model.output_count; ++i) known.emplace_back(model.outputs[i].name);
    for (const std::string& name : wanted_) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const auto near = nearest(name, known);
      throw std::invalid_argument("config.outputs: undeclared output '" + name + "'" +
                                  (near ? " (did you mean '" + *near + "'?)" : "") + ": the model's outputs are " +
                                  joined(known));
    }
    for (int i = 0; i < model.output_count; ++i) {
      const std::string& name = known[static_cast<std::size_t>(i)];
      if (!wanted_.empty() && std::find(wanted_.begin(), wanted_.end(), name) == wanted_.end()) continue;
      needs.output(i, CAMD_NEED_HOST);
      names_[static_cast<std::size_t>(i)] = name;
    }
    check_files(input_ ? input_name_ : "");
    for (const std::string& part : camera_parts(model)) {
      // Nobody has a place without a name.
      folders_.push_back(part.empty() ? Folder() : folder_of(part, model.camera_count > 1));
    }
  }

  void process(const camd_frame& frame, const camd::plugin::Tensors& tensors, camd::plugin::Results& results) override {
    static_cast<void>(results);
    if (frame.sequence % every_ != 0) return;
    const std::string& folder = folders_.at(static_cast<std::size_t>(frame.camera_index)).path;
    if (input_) write(folder, frame, input_name_, tensors.input(), channels_last_);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!names_[i].empty()) write(folder, frame, names_[i], tensors.output(static_cast<int>(i)), false);
    }
  }

  void reopen() override {
    for (Folder& folder : folders_) {
      if (!folder.wanted.empty()) folder = choose(folder.wanted);
    }
  }

  // A camera that comes while others run has a folder of its own.
  std::unique_ptr<Camera> open_camera(int /*index*/, const char* name) override {
    auto opened = std::make_unique<OneFolder>();
    opened->folder = folder_of(file_part(name), true);
    return opened;
  }
  std::unique_ptr<Camera> exchange_camera(int index, std::unique_ptr<Camera> camera) noexcept override {
    const auto place = static_cast<std::size_t>(index);
    if (folders_.size() <= place) folders_.resize(place + 1);
    auto* const opened = static_cast<OneFolder*>(camera.get());
    if (opened != nullptr) {
      std::swap(opened->folder, folders_[place]);
    } else {
      folders_[place] = {};
    }
    return camera;
  }

 private:
  struct Folder {
    std::string wanted;  // as configured, with the camera
    std::string path;
  };
  struct OneFolder final : Camera {
    Folder folder;
  };

  [[nodiscard]] Folder folder_of(const std::string& camera_part, bool several) const {
    return choose(camera_folder(dir_, camera_part, several));
  }
  // A folder without tensors in it: sequence numbers begin at 0 with every start, and would meet those of before.
  [[nodiscard]] Folder choose(const std::string& wanted) const {
    const std::string now = at_time(wanted, std::time(nullptr));
    Folder folder{wanted, first_free(now, has_tensors)};
    create_parents(folder.path + "/x");
    if (folder.path != now) {
      host_.log(CAMD_LOG_INFO, fmt::format("tensors: files go into {}, because earlier ones keep theirs", folder.path));
    }
    return folder;
  }
  static bool has_tensors(const std::string& folder) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      if (entry.path().extension() == ".npy") return true;
    }
    return false;
  }

  // Two tensors must not write one file.
  void check_files(const std::string& input) const {
    std::map<std::string, std::string> taken;  // by the part of the file name
    if (!input.empty()) taken[tensor_part(input)] = input;
    for (const std::string& name : names_) {
      if (name.empty()) continue;
      const auto [at, fresh] = taken.emplace(tensor_part(name), name);
      if (!fresh) {
        throw std::invalid_argument("tensors '" + at->second + "' and '" + name + "' would both write SEQUENCE." +
                                    at->first + ".npy: name one of them in config.outputs, or set input: false");
      }
    }
  }

  void write(const std::string& folder, const camd_frame& frame, const std::string& name, const DLTensor* tensor,
             bool channels_last) {
    if (tensor == nullptr) throw std::runtime_error("tensor '" + name + "' that was asked for is not there");
    if (channels_last) {
      to_npy_channels_last(*tensor, name, file_);
    } else {
      to_npy(*tensor, name, file_);
    }
    write_whole_file(fmt::format("{}/{:06}.{}.npy", folder, frame.sequence, tensor_part(name)), file_.data(),
                     file_.size());
  }

  camd::plugin::Host host_;
  std::string dir_;
  std::uint64_t every_ = 30;
  bool input_ = true;
  bool channels_last_ = false;       // the model's own input is [1,H,W,3]
  std::vector<std::string> wanted_;  // output names; empty: all
  std::string input_name_;
  std::vector<std::string> names_;  // by the model's index; empty: not written
  std::vector<Folder> folders_;     // by camera
  std::vector<std::uint8_t> file_;
};

}  // namespace

const camd_plugin* tensors_table() noexcept {
  static constexpr camd_plugin kTable = camd::plugin::make_table<TensorFiles>(
      "tensors", "1.0.0", "writes the network's input and outputs of chosen frames as .npy files");
  return &kTable;
}

}  // namespace camd::plugins
