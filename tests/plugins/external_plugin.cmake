# Builds examples/plugin against nothing but the installed headers, in a folder of its own, and runs the results.
#   cmake -DBUILD_DIR=... -DSOURCE_DIR=... -DRUNNER=... -DWORK_DIR=... -DC_COMPILER=... -DCXX_COMPILER=...
#         -DGENERATOR=... -P this
function(must)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "failed (${code}): ${ARGV}\n${out}${err}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK_DIR}")
must("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --component plugin_headers --prefix "${WORK_DIR}/installed")
file(GLOB_RECURSE installed RELATIVE "${WORK_DIR}/installed" "${WORK_DIR}/installed/*")
if(NOT "${installed}" STREQUAL "include/camd/camd_plugin.h;include/camd/camd_plugin.hpp")
  message(FATAL_ERROR "the component plugin_headers installs: ${installed}")
endif()

# The generator of this build: a machine that has Ninja need not have make.
must("${CMAKE_COMMAND}" -G "${GENERATOR}" -S "${SOURCE_DIR}/examples/plugin" -B "${WORK_DIR}/build"
  "-DCMAKE_PREFIX_PATH=${WORK_DIR}/installed" "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
  -DCMAKE_C_FLAGS=-Werror -DCMAKE_CXX_FLAGS=-Werror)
must("${CMAKE_COMMAND}" --build "${WORK_DIR}/build")

function(expect name text)
  must("${RUNNER}" "${WORK_DIR}/build/${name}.so")
  if(NOT "${output}" STREQUAL "${text}")
    message(FATAL_ERROR "${name}.so printed\n${output}\nwanted\n${text}")
  endif()
endfunction()
set(removed " 3 smaller_removed count=2\n")
expect(largest "largest 1.0.0 abi 1\nframe 0:${removed}frame 1:${removed}frame 2:${removed}log 2 largest: one detection a frame\n")
expect(count "count 1.0.0 abi 1\nframe 0: 1 2 3\nframe 1: 2 3 1\nframe 2: 3 1 2\ncounter detections 9\nlog 2 count: 9 detections in 3 frames\n")
