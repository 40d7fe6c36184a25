#include "infer/lowering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "infer/half.hpp"
#include "infer/passes.hpp"
#include "infer/reference.hpp"

namespace camd::infer {
namespace {

using base::Error;
using base::ErrorKind;

const std::map<std::string_view, Handler>& handlers() {
  static const std::map<std::string_view, Handler> kHandlers = [] {
    std::map<std::string_view, Handler> table;
    for (const auto* family :
         {&network_handlers(), &resize_handlers(), &elementwise_handlers(), &movement_handlers()}) {
      for (const HandlerEntry& entry : *family) table.emplace(entry.type, entry.handler);
    }
    return table;
  }();
  return kHandlers;
}

// One raw little-endian element widened.
template <typename T>
std::vector<std::int64_t> widen(const std::string& raw) {
  std::vector<std::int64_t> values(raw.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T v;
    std::memcpy(&v, raw.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<std::int64_t>(v);
  }
  return values;
}

float bfloat16(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16U;
  float v;
  std::memcpy(&v, &wide, sizeof(v));
  return v;
}

}  // namespace

Lowering::Lowering(const OnnxFile& file, const TensorSpec& input) : file_(file), input_(input), opset_(file.opset()) {
  for (const auto& tensor : file.proto.graph().initializer()) initializers_.emplace(tensor.name(), &tensor);
}

// ---- Reading tensors

std::string Lowering::external_bytes(const onnx::TensorProto& tensor, std::size_t size) const {
  std::string location;
  std::uint64_t offset = 0;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = std::strtoull(entry.value().c_str(), nullptr, 10);
  }
  const auto fail = [&](const std::string& why) {
    return Error(ErrorKind::kModel, fmt::format("{}: weight '{}' is in the external file '{}', which {}", file_.path,
                                                printable(tensor.name()), printable(location), why));
  };
  const std::filesystem::path relative(location);
  // A model must not read files outside its own folder.
  const bool inside = !location.empty() && relative.is_relative() &&
                      std::none_of(relative.begin(), relative.end(), [](const auto& part) { return part == ".."; });
  if (!inside) throw fail("is not inside the model's folder");
  const std::filesystem::path path = std::filesystem::path(file_.path).parent_path() / relative;
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) throw fail("does not exist");
  const std::uintmax_t available = std::filesystem::file_size(path, error);
  if (error || offset > available || size > available - offset) throw fail("is too short");
  std::ifstream stream(path, std::ios::binary);
  std::string bytes(size, '\0');
  stream.seekg(static_cast<std::streamoff>(offset));
  stream.read(bytes.data(), static_cast<std::streamsize>(size));
  if (!stream) throw fail("cannot be read");
  return bytes;
}

Constant Lowering::read_tensor(const onnx::TensorProto& tensor) const {
  using T = onnx::TensorProto;
  Constant c;
  c.shape.assign(tensor.dims().begin(), tensor.dims().end());
  const auto count = static_cast<std::size_t>(element_count(c.shape));
  const bool external = tensor.data_location() == T::EXTERNAL;
  const std::string outside = external ? external_bytes(tensor, count * onnx_type_size(tensor.data_type())) : "";
  const bool raw = external || tensor.has_raw_data();
  const std::string& bytes = external ? outside : tensor.raw_data();
  const auto integers_from = [&](auto sample) {
    using Element = decltype(sample);
    if (raw)
      c.i64 = widen<Element>(bytes);
    else
      c.i64.assign(tensor.int32_data().begin(), tensor.int32_data().end());
    c.type = DataType::kI64;
  };
  switch (tensor.data_type()) {
    case T::FLOAT:
      if (raw) {
        c.f32.resize(count);
        if (count > 0) std::memcpy(c.f32.data(), bytes.data(), bytes.size());
      } else {
        c.f32.assign(tensor.float_data().begin(), tensor.float_data().end());
      }
      break;
    case T::DOUBLE:
      for (std::size_t i = 0; i < count; ++i) {
        double v;
        if (raw)
          std::memcpy(&v, bytes.data() + i * sizeof(v), sizeof(v));
        else
          v = tensor.double_data(static_cast<int>(i));
        c.f32.push_back(static_cast<float>(v));
      }
      break;
    case T::FLOAT16:
    case T::BFLOAT16: {
      integers_from(std::uint16_t{});
      c.type = DataType::kF32;
      for (const std::int64_t v : c.i64) {
        const auto bits = static_cast<std::uint16_t>(v);
        c.f32.push_back(tensor.data_type() == T::FLOAT16 ? half_to_float(bits) : bfloat16(bits));
      }
      c.i64.clear();
      break;
    }
    case T::INT64:
      c.type = DataType::kI64;
      if (raw)
        c.i64 = widen<std::int64_t>(bytes);
      else
        c.i64.assign(tensor.int64_data().begin(), tensor.int64_data().end());
      break;
    case T::UINT32:
    case T::UINT64:
      c.type = DataType::kI64;
      if (!raw)
        for (const auto v : tensor.uint64_data()) c.i64.push_back(static_cast<std::int64_t>(v));
      else
        c.i64 = tensor.data_type() == T::UINT32 ? widen<std::uint32_t>(bytes) : widen<std::int64_t>(bytes);
      break;
    case T::INT32: integers_from(std::int32_t{}); break;
    case T::INT16: integers_from(std::int16_t{}); break;
    case T::INT8: integers_from(std::int8_t{}); break;
    case T::UINT16: integers_from(std::uint16_t{}); break;
    case T::UINT8:
    case T::BOOL: integers_from(std::uint8_t{}); break;
    default: refuse(fmt::format("constants of type {} are not supported", onnx_type_name(tensor.data_type())));
  }
  if ((c.type == DataType::kF32 ? c.f32.size() : c.i64.size()) != count) {
    refuse(fmt::format("constant '{}' does not hold {} elements", printable(tensor.name()), count));
  }
  return c;
}

// ---- Names and values

ValueId Lowering::add_value(Value value) {
  graph_.values.push_back(std::move(value));
  return static_cast<ValueId>(graph_.values.size()) - 1;
}

ValueId Lowering::find(const std::string& name) {
  if (const auto known = names_.find(name); known != names_.end()) return known->second;
  if (const auto weight = initializers_.find(name); weight != initializers_.end()) {
    const ValueId id = constant(read_tensor(*weight->second));
    graph_.values[static_cast<std::size_t>(id)].name = name;
    names_.emplace(name, id);
    return id;
  }
  refuse(fmt::format("'{}' is not made before it is read", printable(name)));
}

bool Lowering::has_input(std::size_t i) const noexcept {
  return i < input_count() && !node_->input(static_cast<int>(i)).empty();
}

ValueId Lowering::input(std::size_t i) {
  if (!has_input(i)) refuse(fmt::format("its input {} is missing", i));
  return find(node_->input(static_cast<int>(i)));
}

const Constant* Lowering::constant_input(std::size_t i) { return graph_.value(input(i)).constant.get(); }

const std::vector<std::int64_t>& Lowering::integers_input(std::size_t i, std::string_view what) {
  const Constant* c = constant_input(i);
  if (c == nullptr) refuse(fmt::format("its {} depends on the picture, camd needs it beforehand", what));
  if (c->type != DataType::kI64) refuse(fmt::format("its {} is not of an integer type", what));
  return c->i64;
}

const Constant& Lowering::weights_input(std::size_t i, std::string_view what) {
  const Constant* c = constant_input(i);
  if (c == nullptr) refuse(fmt::format("its {} depends on the picture, camd needs it beforehand", what));
  if (c->type != DataType::kF32) refuse(fmt::format("its {} is not of a floating type", what));
  return *c;
}

bool Lowering::output_wanted(std::size_t i) const {
  if (i >= output_count()) return false;
  const auto read = reads_.find(node_->output(static_cast<int>(i)));
  return read != reads_.end() && read->second > 0;
}

void Lowering::set_output(std::size_t i, ValueId value) {
  if (i >= output_count() || node_->output(static_cast<int>(i)).empty()) return;
  const std::string& name = node_->output(static_cast<int>(i));
  names_[name] = value;
  Value& v = graph_.values[static_cast<std::size_t>(value)];
  if (v.name.empty()) v.name = name;
}

// ---- Attributes

const onnx::AttributeProto* Lowering::attribute(std::string_view name) const {
  for (const auto& a : node_->attribute()) {
    if (a.name() == name) return &a;
  }
  return nullptr;
}

std::int64_t Lowering::integer(std::string_view name, std::int64_t otherwise) const {
  const auto* a = attribute(name);
  return a != nullptr && a->has_i() ? a->i() : otherwise;
}

float Lowering::number(std::string_view name, float otherwise) const {
  const auto* a = attribute(name);
  return a != nullptr && a->has_f() ? a->f() : otherwise;
}

std::string Lowering::text(std::string_view name, std::string_view otherwise) const {
  const auto* a = attribute(name);
  return a != nullptr && a->has_s() ? a->s() : std::string(otherwise);
}

std::optional<std::vector<std::int64_t>> Lowering::integers(std::string_view name) const {
  const auto* a = attribute(name);
  if (a == nullptr) return std::nullopt;
  return std::vector<std::int64_t>(a->ints().begin(), a->ints().end());
}

int Lowering::axis(std::int64_t given, int rank) const {
  const std::int64_t positive = given < 0 ? given + rank : given;
  if (positive < 0 || positive >= rank) refuse(fmt::format("axis {} is outside a tensor of rank {}", given, rank));
  return static_cast<int>(positive);
}

std::vector<int> Lowering::axes(const std::vector<std::int64_t>& given, int rank) const {
  std::vector<int> result;
  for (const std::int64_t a : given) result.push_back(axis(a, rank));
  std::sort(result.begin(), result.end());
  require(std::adjacent_find(result.begin(), result.end()) == result.end(), "an axis is given twice");
  return result;
}

// ---- Making ops

ValueId Lowering::emit(Operation operation, std::vector<ValueId> inputs, Shape shape, Activation activation) {
  std::int64_t count = 1;
  for (const std::int64_t d : shape) {
    require(d >= 0, fmt::format("its output would be {}", to_string(shape)));
    require(d == 0 || count <= kMaxValueElements / d,
            fmt::format("its output {} has more than {} elements", to_string(shape), kMaxValueElements));
    count *= d;
  }
  bool folds = true;
  for (const ValueId id : inputs) {
    if (id == kNoValue) continue;
    require(element_count(graph_.shape(id)) > 0, "one of its inputs has no elements");
    folds = folds && graph_.is_constant(id);
  }
  Op op{std::move(operation), std::move(inputs), kNoValue, activation, node_ != nullptr ? node_text(*node_) : ""};
  if (folds) {
    folded_elements_ += count;
    if (std::holds_alternative<Conv>(op.operation) || std::holds_alternative<ConvTranspose>(op.operation) ||
        std::holds_alternative<MatMul>(op.operation)) {
      require(element_count(graph_.shape(op.inputs[0])) * element_count(graph_.shape(op.inputs[1])) <=
                  4 * kMaxFoldedElements,
              "folding it would take too long");
    }
    require(count <= kMaxFoldedElements && folded_elements_ <= 8 * kMaxFoldedElements,
            fmt::format("folding it would make a constant of {} elements", count));
    std::vector<const Constant*> constants;
    for (const ValueId id : op.inputs) constants.push_back(id == kNoValue ? nullptr : graph_.value(id).constant.get());
    try {
      return constant(evaluate(op, constants, shape));
    } catch (const Error& error) {
      throw Error(ErrorKind::kModel, fmt::format("{}: {}", file_.path, error.what()));
    }
  }
  require(count > 0, fmt::format("its output {} has no elements", to_string(shape)));
  for (const ValueId id : op.inputs) {
    if (id != kNoValue && graph_.is_constant(id)) {
      require(graph_.value(id).constant->type == DataType::kF32,
              "integers that depend on the picture are not supported");
    }
  }
  op.output = add_value({"", std::move(shape), nullptr});
  graph_.ops.push_back(std::move(op));
  return graph_.ops.back().output;
}

ValueId Lowering::constant(Constant c) {
  Shape shape = c.shape;
  return add_value({"", std::move(shape), std::make_shared<const Constant>(std::move(c))});
}

ValueId Lowering::constant(float value) { return constant(Constant{DataType::kF32, {}, {value}, {}}); }

ValueId Lowering::reshape(ValueId x, Shape to) {
  if (to == shape(x)) return x;
  std::int64_t count = 1;
  for (const std::int64_t d : to) {
    require(d >= 0 && (d == 0 || count <= kMaxValueElements / d), "the new shape is out of bounds");
    count *= d;
  }
  require(count == element_count(shape(x)),
          fmt::format("{} cannot take the shape {}", to_string(shape(x)), to_string(to)));
  return emit(Reshape{}, {x}, std::move(to));
}

ValueId Lowering::transpose(ValueId x, std::vector<int> permutation) {
  Shape to;
  std::vector<bool> seen(shape(x).size(), false);
  require(permutation.size() == seen.size(), "its permutation does not fit its input");
  for (const int p : permutation) {
    require(p >= 0 && p < rank(x) && !seen[static_cast<std::size_t>(p)], "its permutation is none");
    seen[static_cast<std::size_t>(p)] = true;
    to.push_back(shape(x)[static_cast<std::size_t>(p)]);
  }
  return emit(Transpose{std::move(permutation)}, {x}, std::move(to));
}

ValueId Lowering::slice(ValueId x, std::vector<std::int64_t> start, std::vector<std::int64_t> step, Shape to) {
  return emit(Slice{std::move(start), std::move(step)}, {x}, std::move(to));
}

ValueId Lowering::unary(ValueId x, Activation function) { return emit(Unary{function}, {x}, shape(x)); }

ValueId Lowering::binary(Binary::Kind kind, ValueId a, ValueId b) {
  return emit(Binary{kind}, {a, b}, broadcast(*this, shape(a), shape(b)));
}

ValueId Lowering::reduce(Reduce::Kind kind, ValueId x, std::vector<int> over) {
  Shape to = shape(x);
  for (const int a : over) to[static_cast<std::size_t>(a)] = 1;
  return emit(Reduce{kind, std::move(over)}, {x}, std::move(to));
}

ValueId Lowering::concat(const std::vector<ValueId>& parts, int along) {
  Shape to = shape(parts[0]);
  const auto i = static_cast<std::size_t>(along);
  for (std::size_t p = 1; p < parts.size(); ++p) {
    Shape other = shape(parts[p]);
    require(other.size() == to.size(), "its inputs differ in rank");
    const std::int64_t size = other[i];
    other[i] = to[i];
    require(other == to, fmt::format("{} and {} differ beside axis {}", to_string(shape(parts[0])),
                                     to_string(shape(parts[p])), along));
    require(size <= kMaxValueElements, "its output is too large");
    to[i] += size;
  }
  return parts.size() == 1 ? parts[0] : emit(Concat{along}, parts, std::move(to));
}

void Lowering::refuse(const std::string& why) const {
  throw Error(ErrorKind::kModel, node_ == nullptr ? fmt::format("{}: {}", file_.path, why)
                                                  : fmt::format("{}: {}: {}", file_.path, node_text(*node_), why));
}

// ---- The whole graph

// Nodes that some output needs: exporters leave dead ends, and an operator nobody needs must not refuse a model.
std::vector<bool> Lowering::needed_nodes() const {
  const onnx::GraphProto& graph = file_.proto.graph();
  std::unordered_map<std::string, bool> wanted;
  for (const auto& output : graph.output()) wanted[output.name()] = true;
  std::vector<bool> needed(static_cast<std::size_t>(graph.node_size()), false);
  for (int i = graph.node_size() - 1; i >= 0; --i) {
    const auto& node = graph.node(i);
    const bool need = std::any_of(node.output().begin(), node.output().end(),
                                  [&](const std::string& name) { return wanted.count(name) > 0; });
    needed[static_cast<std::size_t>(i)] = need;
    if (!need) continue;
    for (const auto& name : node.input()) wanted[name] = true;
  }
  return needed;
}

Graph Lowering::run() {
  const onnx::GraphProto& graph = file_.proto.graph();
  graph_.input = add_value({input_.name, input_.shape, nullptr});
  names_.emplace(input_.name, graph_.input);
  const std::vector<bool> needed = needed_nodes();
  for (const auto& output : graph.output()) ++reads_[output.name()];
  for (int i = 0; i < graph.node_size(); ++i) {
    if (!needed[static_cast<std::size_t>(i)]) continue;
    for (const auto& name : graph.node(i).input()) ++reads_[name];
  }
  for (int i = 0; i < graph.node_size(); ++i) {
    if (!needed[static_cast<std::size_t>(i)]) continue;
    node_ = &graph.node(i);
    const auto handler = handlers().find(node_->op_type());
    if (handler == handlers().end()) refuse("camd's own engines do not have this operator");
    handler->second(*this);
    for (std::size_t o = 0; o < output_count(); ++o) {
      if (output_wanted(o) && names_.count(node_->output(static_cast<int>(o))) == 0) {
        refuse(fmt::format("its output {} is not supported", o));
      }
    }
  }
  node_ = nullptr;
  for (const auto& output : graph.output()) {
    ValueId id = find(output.name());
    if (id == graph_.input || graph_.is_constant(id)) {
      if (graph_.is_constant(id))
        refuse(fmt::format("output '{}' does not depend on the picture", printable(output.name())));
      graph_.ops.push_back({Reshape{}, {id}, add_value({output.name(), shape(id), nullptr}), {}, "output"});
      id = graph_.ops.back().output;
    }
    graph_.outputs.push_back(id);
  }
  return std::move(graph_);
}

Graph lower_model(const OnnxFile& file, const TensorSpec& input, const LowerOptions& options) {
  Graph graph = Lowering(file, input).run();
  run_passes(graph, options);
  return graph;
}

std::vector<std::string_view> supported_operators() {
  std::vector<std::string_view> names;
  for (const auto& [name, handler] : handlers()) names.push_back(name);
  return names;
}

Shape broadcast(const Lowering& l, const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t da = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t db = i < b.size() ? b[b.size() - 1 - i] : 1;
    l.require(da == db || da == 1 || db == 1,
              fmt::format("{} and {} do not broadcast to one shape", to_string(a), to_string(b)));
    result[result.size() - 1 - i] = da == 1 ? db : da;
  }
  return result;
}

}  // namespace camd::infer
