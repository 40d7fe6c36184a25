// Replacing a plan's handles by addresses.
#include "infer/cuda/plan/handles.hpp"

#include <type_traits>
#include <variant>

namespace camd::infer::cuda {

void bind(Arguments& arguments, const std::vector<std::byte*>& bases) {
  const auto replace = [&](auto& pointer) {
    using Pointer = std::remove_reference_t<decltype(pointer)>;
    std::byte* const address = bases[static_cast<std::size_t>(handle_buffer(pointer))] + handle_offset(pointer);
    pointer = reinterpret_cast<Pointer>(address);
  };
  std::visit(PointerVisitor(replace, replace), arguments);
}

}  // namespace camd::infer::cuda
