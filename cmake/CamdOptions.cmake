# Compiler settings shared by every target, and the one function that makes a room's library.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(CAMD_CCACHE ccache)
if(CAMD_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${CAMD_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CAMD_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CAMD_CCACHE}")
endif()

add_library(camd_options INTERFACE)
# Warnings are for C and C++ only: nvcc hands host warnings through -Xcompiler, set where CUDA is compiled.
set(camd_warnings -Wall -Wextra -Wconversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlaps and uninitialised members inside its own std::string at -O2 and above (GCC bugs 105329, 105562,
  # 105651); valgrind and the sanitizers look for the real ones.
  list(APPEND camd_warnings -Wno-restrict -Wno-maybe-uninitialized)
  # In a unity build every source is included, and GCC takes its anonymous namespaces for those of a header.
  if(CMAKE_UNITY_BUILD)
    list(APPEND camd_warnings -Wno-subobject-linkage)
  endif()
endif()
if(CAMD_WERROR)
  list(APPEND camd_warnings -Werror)
endif()
foreach(flag IN LISTS camd_warnings)
  target_compile_options(camd_options INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${flag}>")
endforeach()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # GCC's -Wconversion leaves sign conversions of C++ out; clang's does too with this, so both ask for the same.
  target_compile_options(camd_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety>" "$<$<COMPILE_LANGUAGE:C,CXX>:-Wno-sign-conversion>")
endif()

# Relocations are done before main() and read-only from then on (scripts/check_hardening.py looks at the files).
target_link_options(camd_options INTERFACE "LINKER:-z,relro,-z,noexecstack")
if("now" IN_LIST CAMD_HARDENING)
  target_link_options(camd_options INTERFACE "LINKER:-z,now")
endif()

if(CAMD_SANITIZE)
  target_compile_definitions(camd_options INTERFACE CAMD_SANITIZED)
  # libFuzzer's counters are for the product: tests compile in two thirds of the time without them.
  string(REPLACE "fuzzer-no-link," "" in_tests "${CAMD_SANITIZE}")
  set(checks "$<IF:$<BOOL:$<TARGET_PROPERTY:CAMD_IS_TEST>>|${in_tests}|${CAMD_SANITIZE}>")
  string(REPLACE "," "$<COMMA>" checks "${checks}")
  string(REPLACE "|" "," checks "${checks}")
  target_compile_options(camd_options INTERFACE
    "$<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${checks};-fno-omit-frame-pointer;-fno-sanitize-recover=all>")
  target_link_options(camd_options INTERFACE "-fsanitize=${CAMD_SANITIZE}")
  # Run-time options and suppressions travel inside each executable, so that they hold however it is started.
  target_sources(camd_options INTERFACE
    "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:${PROJECT_SOURCE_DIR}/tests/sanitizers/default_options.cpp>")
endif()
if(CAMD_SANITIZE MATCHES "thread")
  # The thread sanitizer of clang 14 and GCC 12 cannot map its shadow when the kernel moves mappings by more than 28 bits.
  set(random_bits 0)
  if(EXISTS /proc/sys/vm/mmap_rnd_bits)
    file(STRINGS /proc/sys/vm/mmap_rnd_bits random_bits LIMIT_COUNT 1)
  endif()
  find_program(CAMD_SETARCH setarch)
  if(random_bits GREATER 28 AND CAMD_SETARCH)
    set(CMAKE_CROSSCOMPILING_EMULATOR "${CAMD_SETARCH};-R")
  endif()
endif()
if(CAMD_COVERAGE)
  target_compile_options(camd_options INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:--coverage;-fprofile-update=atomic>")
  target_link_options(camd_options INTERFACE --coverage)
endif()
if(CAMD_TIDY)
  find_program(CAMD_CLANG_TIDY clang-tidy REQUIRED)
  # clang-tidy reads clang's flags; what GCC alone understands must not fail the check.
  set(CMAKE_CXX_CLANG_TIDY "${CAMD_CLANG_TIDY};--quiet;--warnings-as-errors=*;--extra-arg=-Wno-unknown-warning-option")
endif()

# Between two frames of a camera others empty the caches, so that a frame's path costs what fetching its code costs
# (docs/experiments.md): calls that leave out the PLT, and functions that are put together when linking, need less of it.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(camd_options INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:-fno-plt>")
  include(CheckIPOSupported)
  check_ipo_supported(RESULT CAMD_HAVE_LTO OUTPUT camd_lto_problem LANGUAGES CXX)
  if(NOT CAMD_HAVE_LTO)
    message(STATUS "camd: no optimisation when linking: ${camd_lto_problem}")
  endif()
endif()
# What is shipped stops at a written-over stack, at a call of libc that would write past its array, and, where processor
# and kernel see to it, at a jump to the middle of a function (docs/security.md says what that costs a frame).
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT CAMD_SANITIZE)
  include(CheckCXXCompilerFlag)
  set(camd_hardening "")
  if("stack" IN_LIST CAMD_HARDENING)
    list(APPEND camd_hardening -fstack-protector-strong)
  endif()
  if("fortify" IN_LIST CAMD_HARDENING)
    list(APPEND camd_hardening -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  endif()
  foreach(flag -fcf-protection -mbranch-protection=standard)  # x86-64, 64-bit Arm
    string(MAKE_C_IDENTIFIER "CAMD_HAVE${flag}" known)
    check_cxx_compiler_flag(${flag} ${known})
    if(${known} AND "jumps" IN_LIST CAMD_HARDENING)
      list(APPEND camd_hardening ${flag})
    endif()
  endforeach()
  foreach(flag IN LISTS camd_hardening)
    target_compile_options(camd_options INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${flag}>")
  endforeach()
endif()
# camd_link_optimised(TARGET...): rooms on the frame's path and what they are linked into.
function(camd_link_optimised)
  if(CAMD_HAVE_LTO)
    set_property(TARGET ${ARGV} PROPERTY INTERPROCEDURAL_OPTIMIZATION_RELEASE ON)
  endif()
endfunction()

# camd_room(NAME SOURCES ... LINK ... [SYSTEM_LINK ...]): the static library of one top-level folder.
# Headers are included from the repository root ("base/error.hpp"), so an include shows the room it enters.
function(camd_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  add_library(camd_${name} STATIC ${ARG_SOURCES})
  target_include_directories(camd_${name} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(camd_${name} PUBLIC ${ARG_LINK} PRIVATE camd_options ${ARG_PRIVATE_LINK})
endfunction()
