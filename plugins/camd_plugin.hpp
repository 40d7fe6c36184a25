// camd_plugin.hpp: the C++ side of camd_plugin.h. Header-only, C++17, needs the standard library and nothing else.
//
// Derive from camd::plugin::Postprocessor, name the class in CAMD_PLUGIN(), build a shared library:
//
//   class Count final : public camd::plugin::Postprocessor {
//    public:
//     Count(camd::plugin::Host host, std::string_view config_json);
//     void process(const camd_frame& frame, const camd::plugin::Tensors& tensors,
//                  camd::plugin::Results& results) override;
//   };
//   CAMD_PLUGIN(Count, "count", "1.0.0", "counts detections")
//
// Threads: constructor, outputs(), finish(), destructor [setup]; process(), sample(), reopen() [post], never two
//   calls of one instance at once; open_camera(), Camera::finish() [beside] process(); exchange_camera() [post];
//   Host::counter(), Host::gauge(), Check [setup]; the rest of Host, Counter, Gauge [any]; Events [post],
//   inside process(); set_error(), text helpers [any].
// Invariants: nothing is thrown across the C interface: an exception becomes a code and its what() the message.
//   Everything handed to process() is borrowed and valid until it returns.
#ifndef CAMD_PLUGIN_HPP_
#define CAMD_PLUGIN_HPP_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "camd_plugin.h"

namespace camd::plugin {

// Bytes of `text` (at most `limit`) that end at the end of a UTF-8 character.
[[nodiscard]] inline std::size_t utf8_prefix(std::string_view text, std::size_t limit) noexcept {
  if (text.size() <= limit) return text.size();
  std::size_t end = limit;
  // 10xxxxxx continues a character: step back to the byte that begins it, and leave that one out as well.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return end;
}

// Writes `text` into a fixed array, cut at a character, always ended by NUL. Returns the bytes without the NUL.
template <std::size_t N>
std::size_t copy_text(char (&to)[N], std::string_view text) noexcept {
  const std::size_t bytes = utf8_prefix(text, N - 1);
  if (bytes > 0) std::memcpy(to, text.data(), bytes);
  to[bytes] = '\0';
  return bytes;
}

// One line of at most CAMD_ERROR_BYTES - 1 bytes: control characters become spaces.
inline void set_error(camd_error* error, std::string_view message) noexcept {
  if (error == nullptr) return;
  const std::size_t bytes = copy_text(error->message, message);
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto byte = static_cast<unsigned char>(error->message[i]);
    if (byte < 0x20U || byte == 0x7FU) error->message[i] = ' ';
  }
}

// "[1,4,45,80]"
[[nodiscard]] inline std::string shape_text(const std::int64_t* shape, int ndim) {
  std::string text = "[";
  for (int i = 0; i < ndim; ++i) {
    if (i > 0) text += ',';
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

// Something that only grows: how often it has happened since the start. A copyable view, valid as long as the instance.
class Counter {
 public:
  Counter() noexcept = default;  // counts nothing
  Counter(const camd_counters* counters, camd_counter* counter) noexcept : counters_(counters), counter_(counter) {}
  void add(std::uint64_t amount = 1) const noexcept {
    if (counter_ != nullptr) counters_->add(counter_, amount);
  }

 private:
  const camd_counters* counters_ = nullptr;
  camd_counter* counter_ = nullptr;
};

// Something that goes up and down: how much there is of it now. A copyable view, valid as long as the instance.
class Gauge {
 public:
  Gauge() noexcept = default;  // shows nothing
  Gauge(const camd_counters* counters, camd_counter* gauge) noexcept : counters_(counters), gauge_(gauge) {}
  // A value that is not finite changes nothing.
  void set(double value) const noexcept {
    if (gauge_ != nullptr) counters_->set(gauge_, value);
  }

 private:
  const camd_counters* counters_ = nullptr;
  camd_counter* gauge_ = nullptr;
};

// An event to be added to a frame: Event("line_crossed").zone("gate").track(7).number("speed", 1.4). Texts that are too
// long are cut at a character.
class Event {
 public:
  explicit Event(std::string_view name) noexcept {
    event_.struct_size = sizeof(event_);
    copy_text(event_.name, name);
  }
  Event& zone(std::string_view name) noexcept {
    copy_text(event_.zone, name);
    return *this;
  }
  Event& track(std::uint64_t id) noexcept {
    event_.track_id = id;
    return *this;
  }
  // Throws std::length_error for more than CAMD_EVENT_NUMBERS of them.
  Event& number(std::string_view name, double value) {
    if (event_.number_count == CAMD_EVENT_NUMBERS) {
      throw std::length_error("event '" + std::string(event_.name) + "': an event has at most " +
                              std::to_string(CAMD_EVENT_NUMBERS) + " numbers");
    }
    camd_number& added = event_.numbers[event_.number_count++];
    copy_text(added.name, name);
    added.value = value;
    return *this;
  }
  [[nodiscard]] const camd_event& get() const noexcept { return event_; }

 private:
  camd_event event_{};
};

// The events of the frame that process() is working on: those of earlier plug-ins and of this one. A copyable view,
// valid as long as the instance; outside of process() there are none.
class Events {
 public:
  Events() noexcept = default;  // none, and there is no room for any
  Events(const camd_host* host, const camd_events* events) noexcept : host_(host), events_(events) {}
  [[nodiscard]] int size() const noexcept { return events_ != nullptr ? events_->count(host_) : 0; }
  [[nodiscard]] const camd_event& operator[](int i) const noexcept { return *events_->get(host_, i); }
  // Copies the event. False when the frame has as many as it can have. Throws std::invalid_argument for an event
  // without a name, or with a number that is not finite.
  bool add(const Event& event) const {  // NOLINT(modernize-use-nodiscard): a frame that is full may not matter
    const std::int32_t code = events_ != nullptr ? events_->add(host_, &event.get()) : std::int32_t{CAMD_ERROR_FULL};
    if (code == CAMD_OK) return true;
    if (code == CAMD_ERROR_FULL) return false;
    throw std::invalid_argument("event '" + std::string(event.get().name) +
                                "' was refused: it needs a name and finite numbers, and a process() to be added in");
  }

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = camd_event;
    using difference_type = std::ptrdiff_t;
    using pointer = const camd_event*;
    using reference = const camd_event&;
    Iterator(const Events* events, int index) noexcept : events_(events), index_(index) {}
    reference operator*() const noexcept { return (*events_)[index_]; }
    pointer operator->() const noexcept { return &(*events_)[index_]; }
    Iterator& operator++() noexcept {
      ++index_;
      return *this;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) noexcept { return a.index_ == b.index_; }
    friend bool operator!=(const Iterator& a, const Iterator& b) noexcept { return a.index_ != b.index_; }

   private:
    const Events* events_;
    int index_;
  };
  [[nodiscard]] Iterator begin() const noexcept { return {this, 0}; }
  [[nodiscard]] Iterator end() const noexcept { return {this, size()}; }

 private:
  const camd_host* host_ = nullptr;
  const camd_events* events_ = nullptr;
};

// What camd offers. A copyable view, valid as long as the instance.
class Host {
 public:
  explicit Host(const camd_host* host) noexcept : host_(host) {}
  void log(camd_log_level level, const char* message) const noexcept { host_->log(host_, level, message); }
  void log(camd_log_level level, const std::string& message) const noexcept { log(level, message.c_str()); }
  [[nodiscard]] std::int64_t now_mono_ns() const noexcept { return host_->now_mono_ns(host_); }
  [[nodiscard]] const char* camd_version() const noexcept { return host_->camd_version; }
  // How often this process had reloaded its configuration before this instance was made: 0 at the first start.
  [[nodiscard]] std::uint32_t reloads() const noexcept { return host_->reloads; }

  // A number of this plug-in in the metrics lines. `name`: a lower case letter, then lower case letters, digits and
  // `_`. Throws std::invalid_argument when camd refuses it: a wrong name, one that is there already, or too many. Where
  // camd knows no counters, what is returned does nothing.
  [[nodiscard]] Counter counter(const std::string& name) const {
    const auto* counters = extension<camd_counters>(CAMD_EXTENSION_COUNTERS);
    return {counters, made(counters, CAMD_COUNTER, name)};
  }
  [[nodiscard]] Gauge gauge(const std::string& name) const {
    const auto* counters = extension<camd_counters>(CAMD_EXTENSION_COUNTERS);
    return {counters, made(counters, CAMD_GAUGE, name)};
  }
  // To be kept by the plug-in. Where camd knows no events, there are none.
  [[nodiscard]] Events events() const noexcept { return {host_, extension<camd_events>(CAMD_EXTENSION_EVENTS)}; }
  // Where an outlet tells what became of its messages ("camd.outlet/1"), or nullptr where camd does not ask.
  [[nodiscard]] const camd_outlet* outlet() const noexcept { return extension<camd_outlet>(CAMD_EXTENSION_OUTLET); }
  [[nodiscard]] const camd_host* get() const noexcept { return host_; }
  // An extension by its name; T is the struct that goes with the name. nullptr where camd does not have it.
  template <class T>
  [[nodiscard]] const T* extension(const char* id) const noexcept {
    return static_cast<const T*>(host_->get_extension(host_, id));
  }

 private:
  [[nodiscard]] camd_counter* made(const camd_counters* counters, camd_counter_kind kind,
                                   const std::string& name) const {
    if (counters == nullptr) return nullptr;
    camd_counter* counter = nullptr;
    camd_error error{};
    error.struct_size = sizeof(error);
    if (counters->make(host_, kind, name.c_str(), &counter, &error) != CAMD_OK) {
      throw std::invalid_argument(error.message);
    }
    return counter;
  }

  const camd_host* host_;
};

// A configuration that is to be looked at ("camd.check/1"). A plug-in that has
//   static void check(const camd::plugin::Check& check);
// is asked before its constructor, without an instance, and tells all that is wrong. Valid until that returns.
class Check {
 public:
  explicit Check(const camd_check* check) noexcept : check_(check) {}
  [[nodiscard]] std::string_view config_json() const noexcept { return check_->config_json; }
  [[nodiscard]] std::string_view card_json() const noexcept { return check_->card_json; }
  [[nodiscard]] std::vector<std::string> camera_names() const {
    return {check_->camera_names, check_->camera_names + check_->camera_count};
  }
  // `key` is below `config:`, with dots; "" for all of it.
  void mistake(const std::string& key, const std::string& message) const {
    check_->mistake(check_, key.c_str(), message.c_str());
  }
  // A key that is not read; `known` are those that are, in the same map.
  void unknown_key(const std::string& key, const std::vector<std::string>& known) const {
    std::vector<const char*> words;
    words.reserve(known.size());
    for (const std::string& word : known) words.push_back(word.c_str());
    check_->unknown_key(check_, key.c_str(), words.data(), static_cast<std::int32_t>(words.size()));
  }
  // A path that this instance alone may write.
  void claim(const std::string& key, const std::string& path) const {
    check_->claim(check_, key.c_str(), path.c_str());
  }

 private:
  const camd_check* check_;
};

// The answer to outputs(): what process() will read. Nothing is asked for at first.
class Needs {
 public:
  Needs(const camd_model& model, camd_needs* needs) noexcept : model_(model), needs_(needs) {}
  // Throws std::out_of_range for an output that the model does not declare.
  void output(int index, camd_need need) {
    if (index < 0 || index >= model_.output_count) {
      throw std::out_of_range("undeclared output " + std::to_string(index) + ": the model has " +
                              std::to_string(model_.output_count));
    }
    needs_->outputs[index] = need;
  }
  void input(camd_need need) noexcept { needs_->input = need; }
  void picture(camd_need need) noexcept { needs_->picture = need; }
  // Detections that a frame's list shall have room for, at most CAMD_MAX_DETECTIONS. Asking for fewer than somebody
  // else changes nothing.
  void detections(int count) noexcept { needs_->detections = count; }
  // What is read of the outputs that they name. They are the plug-in's, and stay where they are until it is destroyed.
  void filters(const std::vector<camd_filter>& filters) noexcept {
    if (!CAMD_HAS_MEMBER(camd_needs, needs_, filter_count)) return;  // an older camd delivers outputs as a whole
    needs_->filter_count = static_cast<std::int32_t>(filters.size());
    needs_->filters = filters.data();
  }

 private:
  const camd_model& model_;
  camd_needs* needs_;
};

// A compact tensor of T that the CPU can read. Valid until process() returns.
template <class T>
class TensorView {
 public:
  TensorView() noexcept = default;
  TensorView(const T* data, const std::int64_t* shape, int ndim, std::int64_t size) noexcept
      : data_(data), shape_(shape), ndim_(ndim), size_(size) {}
  [[nodiscard]] const T* data() const noexcept { return data_; }
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }  // elements
  [[nodiscard]] int ndim() const noexcept { return ndim_; }
  [[nodiscard]] std::int64_t dim(int axis) const noexcept { return shape_[axis]; }
  [[nodiscard]] const T& operator[](std::int64_t i) const noexcept { return data_[i]; }
  [[nodiscard]] const T* begin() const noexcept { return data_; }
  [[nodiscard]] const T* end() const noexcept { return data_ + size_; }

 private:
  const T* data_ = nullptr;
  const std::int64_t* shape_ = nullptr;
  int ndim_ = 0;
  std::int64_t size_ = 0;
};

namespace detail {

template <class T>
[[nodiscard]] constexpr DLDataType data_type() noexcept {
  static_assert(std::is_arithmetic_v<T>, "tensors hold numbers");
  return DLDataType{static_cast<std::uint8_t>(std::is_floating_point_v<T> ? kDLFloat
                                              : std::is_signed_v<T>       ? kDLInt
                                                                          : kDLUInt),
                    static_cast<std::uint8_t>(sizeof(T) * 8), 1};
}

[[nodiscard]] inline bool is_compact(const DLTensor& tensor) noexcept {
  if (tensor.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

[[noreturn]] inline void bad_tensor(std::string_view name, const std::string& why) {
  throw std::runtime_error("tensor '" + std::string(name) + "': " + why);
}

}  // namespace detail

// The elements of `tensor`. Throws when it is missing (not asked for with CAMD_NEED_HOST), lies in memory that the CPU
// cannot read, holds another type or is not compact. Allocates only to throw.
template <class T>
[[nodiscard]] TensorView<T> host_tensor(const DLTensor* tensor, std::string_view name) {
  if (tensor == nullptr) detail::bad_tensor(name, "not there: ask for it with CAMD_NEED_HOST in outputs()");
  if (tensor->data == nullptr) detail::bad_tensor(name, "has no data: ask for it with CAMD_NEED_HOST in outputs()");
  if (tensor->device.device_type != kDLCPU && tensor->device.device_type != kDLCUDAHost) {
    detail::bad_tensor(name, "is in memory that the CPU cannot read (DLPack device type " +
                                 std::to_string(static_cast<int>(tensor->device.device_type)) + ")");
  }
  const DLDataType want = detail::data_type<T>();
  if (tensor->dtype.code != want.code || tensor->dtype.bits != want.bits || tensor->dtype.lanes != 1) {
    detail::bad_tensor(name, "holds DLPack type " + std::to_string(tensor->dtype.code) + " of " +
                                 std::to_string(tensor->dtype.bits) + " bits, wanted " + std::to_string(want.code) +
                                 " of " + std::to_string(want.bits));
  }
  if (!detail::is_compact(*tensor)) detail::bad_tensor(name, "is not compact and row-major");
  std::int64_t size = 1;
  for (int i = 0; i < tensor->ndim; ++i) size *= tensor->shape[i];
  const auto* bytes = static_cast<const std::byte*>(tensor->data) + tensor->byte_offset;
  return TensorView<T>(reinterpret_cast<const T*>(bytes), tensor->shape, tensor->ndim, size);
}

// The same with a check of the shape, e.g. the one that outputs() saw: declared shapes are not to be trusted.
template <class T>
[[nodiscard]] TensorView<T> host_tensor(const DLTensor* tensor, std::string_view name, const std::int64_t* shape,
                                        int ndim) {
  const TensorView<T> view = host_tensor<T>(tensor, name);
  bool same = view.ndim() == ndim;
  for (int i = 0; same && i < ndim; ++i) same = view.dim(i) == shape[i];
  if (!same) {
    detail::bad_tensor(name, "is " + shape_text(tensor->shape, tensor->ndim) + ", wanted " + shape_text(shape, ndim));
  }
  return view;
}

// The tensors of one frame.
class Tensors {
 public:
  explicit Tensors(const camd_tensors& tensors) noexcept : tensors_(tensors) {}
  [[nodiscard]] int output_count() const noexcept { return tensors_.output_count; }
  // nullptr where nothing was asked for.
  [[nodiscard]] const DLTensor* output(int i) const noexcept {
    return i >= 0 && i < tensors_.output_count ? tensors_.outputs[i] : nullptr;
  }
  [[nodiscard]] const DLTensor* device_output(int i) const noexcept {
    return i >= 0 && i < tensors_.output_count && tensors_.device_outputs != nullptr ? tensors_.device_outputs[i]
                                                                                     : nullptr;
  }
  [[nodiscard]] const DLTensor* input() const noexcept { return tensors_.input; }
  [[nodiscard]] void* stream() const noexcept { return tensors_.stream; }
  // The places that passed a filter: first their number, then each of them. nullptr: outputs are there as a whole.
  [[nodiscard]] const std::int32_t* passed(int filter) const noexcept {
    const bool has = CAMD_HAS_MEMBER(camd_tensors, &tensors_, passed) && tensors_.passed != nullptr;
    return has ? tensors_.passed[filter] : nullptr;
  }

 private:
  const camd_tensors& tensors_;
};

// The frame's list of detections.
class Results {
 public:
  explicit Results(camd_results* results) noexcept : results_(results) {}
  [[nodiscard]] int size() const noexcept { return results_->count; }
  [[nodiscard]] int capacity() const noexcept { return results_->capacity; }
  [[nodiscard]] camd_detection* begin() const noexcept { return results_->items; }
  [[nodiscard]] camd_detection* end() const noexcept { return results_->items + results_->count; }
  [[nodiscard]] camd_detection& operator[](int i) const noexcept { return results_->items[i]; }
  // A new detection at the end, all of it 0, or nullptr when the list is full. copy_text() writes its texts.
  [[nodiscard]] camd_detection* add() noexcept {
    if (results_->count >= results_->capacity) return nullptr;
    camd_detection* added = &results_->items[results_->count++];
    *added = camd_detection{};
    return added;
  }
  // Removes the detections for which `predicate` holds; the others keep their order.
  template <class Predicate>
  void remove_if(Predicate predicate) {
    std::int32_t kept = 0;
    for (std::int32_t i = 0; i < results_->count; ++i) {
      if (predicate(static_cast<const camd_detection&>(results_->items[i]))) continue;
      if (kept != i) results_->items[kept] = results_->items[i];
      ++kept;
    }
    results_->count = kept;
  }

 private:
  camd_results* results_;
};

// Network pixels back to source pixels.
[[nodiscard]] inline float source_x(const camd_frame& frame, float network_x) noexcept {
  return (network_x - frame.offset_x) / frame.scale_x;
}
[[nodiscard]] inline float source_y(const camd_frame& frame, float network_y) noexcept {
  return (network_y - frame.offset_y) / frame.scale_y;
}

// Base of plug-ins. A derived class is constructed with (Host host, std::string_view config_json). One that keeps
// nothing from frame to frame has `static constexpr bool kStateless = true`, so that cameras do not wait for one
// another
// ("camd.stateless/1").
class Postprocessor {
 public:
  virtual ~Postprocessor() = default;
  Postprocessor(const Postprocessor&) = delete;
  Postprocessor& operator=(const Postprocessor&) = delete;

  // [setup] Declare what process() reads; throw to refuse the model. Default: nothing but `results`.
  virtual void outputs(const camd_model& model, Needs& needs) {
    static_cast<void>(model);
    static_cast<void>(needs);
  }
  // [post] One frame; throw to fail it (the next one is tried).
  virtual void process(const camd_frame& frame, const Tensors& tensors, Results& results) = 0;
  // [post] Once a period, for gauges: never beside process(), left out where that runs. Returns at once. A class that
  // has one of its own, a public one, is asked.
  virtual void sample() {}
  // [post] SIGUSR1: open anew what is open for writing, because somebody may have renamed or removed it. Never beside
  // process(), and frames wait for it. Throw to tell what could not be opened; go on with what was open then. A class
  // that has one of its own, a public one, is asked ("camd.reopen/1").
  virtual void reopen() {}
  // [setup] After the last frame: finish files. Throw to report what could not be finished.
  virtual void finish() {}

  // What a plug-in has of one camera. Derive from it.
  class Camera {
   public:
    virtual ~Camera() = default;
    Camera(const Camera&) = delete;
    Camera& operator=(const Camera&) = delete;
    // Finish its files. Throw to report what could not be finished.
    virtual void finish() {}

   protected:
    Camera() = default;
  };
  // Cameras that come and go ("camd.cameras/1"). A class that has a public open_camera() of its own stays when they do.
  // [beside] Makes what one more camera needs, or nullptr for nothing; throw to refuse it. Beside process(): touches
  // nothing that process() does.
  virtual std::unique_ptr<Camera> open_camera(int index, const char* name) {
    static_cast<void>(index);
    static_cast<void>(name);
    return nullptr;
  }
  // [post] Puts `camera` (nullptr: nothing) into its place and returns what was there. Returns at once.
  virtual std::unique_ptr<Camera> exchange_camera(int index, std::unique_ptr<Camera> camera) noexcept {
    static_cast<void>(index);
    return camera;
  }

 protected:
  Postprocessor() = default;
};

namespace detail {

template <class Function>
std::int32_t guarded(std::int32_t code, camd_error* error, Function&& function) noexcept {
  try {
    function();
    return CAMD_OK;
  } catch (const std::exception& e) {
    set_error(error, e.what());
  } catch (...) {
    set_error(error, "an exception that is not a std::exception was thrown");
  }
  return code;
}

// Whether T has a static check() of its own.
template <class T, class = void>
struct Checks : std::false_type {};
template <class T>
struct Checks<T, std::void_t<decltype(T::check(std::declval<const Check&>()))>> : std::true_type {};

// Whether T has `static constexpr bool kStateless = true`.
template <class T, class = void>
struct Stateless : std::false_type {};
template <class T>
struct Stateless<T, std::void_t<decltype(T::kStateless)>> : std::bool_constant<T::kStateless> {};

template <class T>
struct Adaptor {
  static_assert(std::is_base_of_v<Postprocessor, T>, "a plug-in derives from camd::plugin::Postprocessor");
  static_assert(std::is_constructible_v<T, Host, std::string_view>,
                "a plug-in has a constructor (camd::plugin::Host host, std::string_view config_json)");

  static std::int32_t create(const camd_host* host, const char* config_json, void** instance, camd_error* error) {
    return guarded(CAMD_ERROR_CONFIG, error, [&] {
      *instance = nullptr;
      std::unique_ptr<Postprocessor> made = std::make_unique<T>(Host(host), std::string_view(config_json));
      *instance = made.release();
    });
  }
  static std::int32_t outputs(void* instance, const camd_model* model, camd_needs* needs, camd_error* error) {
    return guarded(CAMD_ERROR_CONFIG, error, [&] {
      Needs wrapped(*model, needs);
      static_cast<Postprocessor*>(instance)->outputs(*model, wrapped);
    });
  }
  static std::int32_t process(void* instance, const camd_frame* frame, const camd_tensors* tensors,
                              camd_results* results, camd_error* error) {
    return guarded(CAMD_ERROR_FAILED, error, [&] {
      Results wrapped(results);
      static_cast<Postprocessor*>(instance)->process(*frame, Tensors(*tensors), wrapped);
    });
  }
  static std::int32_t sample(void* instance, camd_error* error) {
    return guarded(CAMD_ERROR_FAILED, error, [&] { static_cast<Postprocessor*>(instance)->sample(); });
  }
  static std::int32_t reopen(void* instance, camd_error* error) {
    return guarded(CAMD_ERROR_FAILED, error, [&] { static_cast<Postprocessor*>(instance)->reopen(); });
  }
  static std::int32_t open_camera(void* instance, std::int32_t index, const char* name, void** camera,
                                  camd_error* error) {
    return guarded(CAMD_ERROR_CONFIG, error,
                   [&] { *camera = static_cast<Postprocessor*>(instance)->open_camera(index, name).release(); });
  }
  static void* exchange_camera(void* instance, std::int32_t index, void* camera) {
    std::unique_ptr<Postprocessor::Camera> owned(static_cast<Postprocessor::Camera*>(camera));
    return static_cast<Postprocessor*>(instance)->exchange_camera(index, std::move(owned)).release();
  }
  static std::int32_t close_camera(void* instance, void* camera, camd_error* error) {
    static_cast<void>(instance);
    const std::unique_ptr<Postprocessor::Camera> owned(static_cast<Postprocessor::Camera*>(camera));
    if (owned == nullptr) return CAMD_OK;
    return guarded(CAMD_ERROR_FAILED, error, [&] { owned->finish(); });
  }
  static std::int32_t check(const camd_check* check, camd_error* error) {
    return guarded(CAMD_ERROR_FAILED, error, [&] {
      if constexpr (Checks<T>::value) T::check(Check(check));
    });
  }
  static const void* get_extension(const char* id) {
    static constexpr camd_plugin_check kCheck{sizeof(camd_plugin_check), &Adaptor::check};
    static constexpr camd_plugin_counters kCounters{sizeof(camd_plugin_counters), &Adaptor::sample};
    static constexpr camd_plugin_cameras kCameras{sizeof(camd_plugin_cameras), &Adaptor::open_camera,
                                                  &Adaptor::exchange_camera, &Adaptor::close_camera};
    static constexpr camd_plugin_reopen kReopen{sizeof(camd_plugin_reopen), &Adaptor::reopen};
    static constexpr camd_plugin_stateless kStateless{sizeof(camd_plugin_stateless)};
    // Of a class without a member of its own this is a member of Postprocessor.
    constexpr bool kSamples = !std::is_same_v<decltype(&T::sample), void (Postprocessor::*)()>;
    constexpr bool kReopens = !std::is_same_v<decltype(&T::reopen), void (Postprocessor::*)()>;
    constexpr bool kHasCameras = !std::is_same_v<decltype(&T::open_camera), decltype(&Postprocessor::open_camera)>;
    const std::string_view name(id);
    if (Checks<T>::value && name == CAMD_EXTENSION_CHECK) return &kCheck;
    if (kSamples && name == CAMD_EXTENSION_COUNTERS) return &kCounters;
    if (kReopens && name == CAMD_EXTENSION_REOPEN) return &kReopen;
    if (kHasCameras && name == CAMD_EXTENSION_CAMERAS) return &kCameras;
    if (Stateless<T>::value && name == CAMD_EXTENSION_STATELESS) return &kStateless;
    return nullptr;
  }
  static std::int32_t destroy(void* instance, camd_error* error) {
    const std::unique_ptr<Postprocessor> owned(static_cast<Postprocessor*>(instance));
    if (owned == nullptr) return CAMD_OK;
    return guarded(CAMD_ERROR_FAILED, error, [&] { owned->finish(); });
  }
};

}  // namespace detail

// The table of plug-in class T; the strings must be literals.
template <class T>
[[nodiscard]] constexpr camd_plugin make_table(const char* name, const char* version,
                                               const char* description) noexcept {
  return camd_plugin{CAMD_PLUGIN_ABI_VERSION,
                     static_cast<std::uint32_t>(sizeof(camd_plugin)),
                     name,
                     version,
                     description,
                     &detail::Adaptor<T>::create,
                     &detail::Adaptor<T>::outputs,
                     &detail::Adaptor<T>::process,
                     &detail::Adaptor<T>::destroy,
                     &detail::Adaptor<T>::get_extension};
}

}  // namespace camd::plugin

// Exports class `Type` as the plug-in of this shared library. Once a library, outside of any namespace.
#define CAMD_PLUGIN(Type, name, version, description)                                                   \
  extern "C" CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void);                                \
  extern "C" CAMD_PLUGIN_EXPORT const camd_plugin* camd_plugin_v1(void) {                               \
    static constexpr camd_plugin kTable = ::camd::plugin::make_table<Type>(name, version, description); \
    return &kTable;                                                                                     \
  }

#endif  // CAMD_PLUGIN_HPP_
