# OpenCV's modules by header and library, one imported target each (opencv_core, ...), under the names that OpenCV's own
# CMake package uses. Debian ships that package only in libopencv-dev, which pulls in every module, VTK and MPI (160
# packages and 114 MB more than core, imgproc and dnn need), so the parts are looked up here.
#
# Another OpenCV (built from source, another prefix): pass -DOpenCV_DIR=... and its own CMake package is used.
if(OpenCV_DIR)
  find_package(OpenCV ${OpenCV_FIND_VERSION} CONFIG COMPONENTS ${OpenCV_FIND_COMPONENTS})
  return()
endif()

find_path(OpenCV_INCLUDE_DIR NAMES opencv2/core/version.hpp PATH_SUFFIXES opencv4)
set(OpenCV_VERSION "")
if(OpenCV_INCLUDE_DIR)
  file(STRINGS "${OpenCV_INCLUDE_DIR}/opencv2/core/version.hpp" lines REGEX "#define CV_VERSION_(MAJOR|MINOR|REVISION) ")
  string(REGEX REPLACE ".*MAJOR +([0-9]+).*MINOR +([0-9]+).*REVISION +([0-9]+).*" "\\1.\\2.\\3" OpenCV_VERSION "${lines}")
endif()

set(OpenCV_LIBS "")
foreach(module IN LISTS OpenCV_FIND_COMPONENTS)
  find_library(OpenCV_${module}_LIBRARY NAMES opencv_${module})
  if(OpenCV_INCLUDE_DIR AND OpenCV_${module}_LIBRARY AND EXISTS "${OpenCV_INCLUDE_DIR}/opencv2/${module}.hpp")
    set(OpenCV_${module}_FOUND TRUE)
    list(APPEND OpenCV_LIBS opencv_${module})
    if(NOT TARGET opencv_${module})
      add_library(opencv_${module} UNKNOWN IMPORTED)
      set_target_properties(opencv_${module} PROPERTIES
        IMPORTED_LOCATION "${OpenCV_${module}_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${OpenCV_INCLUDE_DIR}")
    endif()
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenCV
  REQUIRED_VARS OpenCV_INCLUDE_DIR VERSION_VAR OpenCV_VERSION HANDLE_COMPONENTS
  REASON_FAILURE_MESSAGE "install them with scripts/install_deps.sh, or pass -DOpenCV_DIR=...")
