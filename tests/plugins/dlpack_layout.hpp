// DLPack's layout as its own header has it, measured in a source file that includes that header and not ours.
//
// Threads: [any].
#pragma once

#include <array>
#include <cstddef>

// Sizes, offsets and constants in the order in which abi_test.cpp lists them.
using DlpackLayout = std::array<std::size_t, 20>;

DlpackLayout dlpack_layout();
