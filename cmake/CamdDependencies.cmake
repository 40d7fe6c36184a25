# Everything camd needs comes from the system (Debian packages: scripts/install_deps.sh). Nothing is downloaded.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(OpenCV 4 REQUIRED COMPONENTS core imgproc dnn calib3d aruco)
find_package(Protobuf REQUIRED)
pkg_check_modules(GST REQUIRED IMPORTED_TARGET
  gstreamer-1.0>=1.22 gstreamer-app-1.0 gstreamer-video-1.0 gstreamer-allocators-1.0 gstreamer-net-1.0
  gstreamer-sdp-1.0 gio-2.0)
pkg_check_modules(ZXING REQUIRED IMPORTED_TARGET zxing)
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd)
pkg_check_modules(TURBOJPEG REQUIRED IMPORTED_TARGET libturbojpeg)
pkg_check_modules(MOSQUITTO REQUIRED IMPORTED_TARGET libmosquitto)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.85)
pkg_check_modules(RDKAFKA REQUIRED IMPORTED_TARGET rdkafka>=2.0)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(GLIB REQUIRED IMPORTED_TARGET glib-2.0)

# moodycamel installs headers under different prefixes; both spellings are in the field.
find_path(CAMD_CONCURRENTQUEUE_DIR NAMES concurrentqueue.h
  PATH_SUFFIXES concurrentqueue/moodycamel concurrentqueue moodycamel REQUIRED)
add_library(camd_concurrentqueue INTERFACE)
target_include_directories(camd_concurrentqueue SYSTEM INTERFACE "${CAMD_CONCURRENTQUEUE_DIR}")

find_path(CAMD_DLPACK_DIR NAMES dlpack/dlpack.h REQUIRED)
add_library(camd_dlpack INTERFACE)
target_include_directories(camd_dlpack SYSTEM INTERFACE "${CAMD_DLPACK_DIR}")

# NVIDIA's decoder interface: headers alone, the library comes with the driver and is loaded at run time.
find_path(CAMD_FFNVCODEC_DIR NAMES ffnvcodec/dynlink_nvcuvid.h REQUIRED)
add_library(camd_ffnvcodec INTERFACE)
target_include_directories(camd_ffnvcodec SYSTEM INTERFACE "${CAMD_FFNVCODEC_DIR}")

# Vulkan, which decodes as well: headers alone, its loader is loaded at run time.
find_path(CAMD_VULKAN_DIR NAMES vk_video/vulkan_video_codec_h265std_decode.h REQUIRED)
add_library(camd_vulkan INTERFACE)
target_include_directories(camd_vulkan SYSTEM INTERFACE "${CAMD_VULKAN_DIR}")
target_compile_definitions(camd_vulkan INTERFACE VK_NO_PROTOTYPES)

# ONNX's protobuf types. Debian's libonnx-dev ships no CMake package.
find_path(CAMD_ONNX_DIR NAMES onnx/onnx_pb.h REQUIRED)
find_library(CAMD_ONNX_PROTO NAMES onnx_proto REQUIRED)
add_library(camd_onnx INTERFACE)
target_include_directories(camd_onnx SYSTEM INTERFACE "${CAMD_ONNX_DIR}")
target_link_libraries(camd_onnx INTERFACE "${CAMD_ONNX_PROTO}" protobuf::libprotobuf)

# CUDA: toolkit 12 or later when present, and the build works without it.
set(CAMD_HAVE_CUDA OFF)
if(NOT CAMD_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 90)
    endif()
    # Products of warpgroups (infer/cuda/kernels/warpgroup_conv.cu) are in sm_90a only. All GPUs of compute capability 9.0
    # run it, and no others.
    list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "^90(-real)?$" "90a-real")
    enable_language(CUDA)
    find_package(CUDAToolkit 12)
    if(CUDAToolkit_FOUND)
      set(CAMD_HAVE_CUDA ON)
      set(CMAKE_CUDA_STANDARD 20)
      # CMake 3.25 does not know that nvcc 12 and later have C++20.
      if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
        set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
        set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
      endif()
      set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    endif()
  endif()
  if(CAMD_CUDA STREQUAL "ON" AND NOT CAMD_HAVE_CUDA)
    message(FATAL_ERROR "CAMD_CUDA=ON, but no CUDA toolkit 12 or later was found: "
      "put nvcc on PATH or pass -DCMAKE_CUDA_COMPILER=/usr/local/cuda/bin/nvcc")
  endif()
endif()
message(STATUS "camd: CUDA device and engine: ${CAMD_HAVE_CUDA}")
