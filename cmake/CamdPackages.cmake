# Debian packages by CPack: camd and camd-dev. scripts/package.sh builds them.
#
# What belongs to the service is installed by the packages alone (EXCLUDE_FROM_ALL): its paths are those of a system.

set(packaging "${PROJECT_SOURCE_DIR}/packaging")
install(FILES "${packaging}/camd.service" DESTINATION lib/systemd/system COMPONENT service EXCLUDE_FROM_ALL)
install(FILES "${packaging}/camd.sysusers" RENAME camd.conf DESTINATION lib/sysusers.d COMPONENT service EXCLUDE_FROM_ALL)
install(FILES "${packaging}/camd.yaml" DESTINATION /etc/camd COMPONENT service EXCLUDE_FROM_ALL)
install(FILES models/marker-640x360.onnx models/marker.yaml models/marker-1280x720.onnx models/marker-1280x720.yaml
  DESTINATION ${CMAKE_INSTALL_DATADIR}/camd/models COMPONENT runtime)
install(DIRECTORY examples/plugin DESTINATION share/doc/camd-dev/examples COMPONENT dev_files EXCLUDE_FROM_ALL)

# Both changelogs compressed, without a time in them, as Debian wants them.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH says otherwise
set(CAMD_MAINTAINER "The camd authors <camd@packages.invalid>" CACHE STRING "Who answers for packages that are built here")
set(CAMD_PACKAGE_REVISION 1 CACHE STRING "Counts the packages of one version")
set(made "${PROJECT_BINARY_DIR}/packaging")
file(WRITE "${made}/changelog.Debian" "camd (${PROJECT_VERSION}-${CAMD_PACKAGE_REVISION}) unstable; urgency=medium\n\n"
  "  * Built from its sources; what has changed stands in changelog.gz.\n\n -- ${CAMD_MAINTAINER}  ${date}\n")
add_custom_command(OUTPUT "${made}/changelog.gz" "${made}/changelog.Debian.gz"
  COMMAND ${CAMD_GZIP} -9nc "${PROJECT_SOURCE_DIR}/CHANGELOG.md" > "${made}/changelog.gz"
  COMMAND ${CAMD_GZIP} -9nc "${made}/changelog.Debian" > "${made}/changelog.Debian.gz"
  DEPENDS "${PROJECT_SOURCE_DIR}/CHANGELOG.md" "${made}/changelog.Debian" VERBATIM)
add_custom_target(camd_changelogs DEPENDS "${made}/changelog.gz")
foreach(pair camd:service camd-dev:dev_files)
  string(REPLACE ":" ";" pair "${pair}")
  list(GET pair 0 package)
  list(GET pair 1 component)
  install(FILES "${made}/changelog.gz" "${made}/changelog.Debian.gz" "${packaging}/debian/copyright"
    DESTINATION share/doc/${package} COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES "${packaging}/debian/lintian-overrides" RENAME ${package} DESTINATION share/lintian/overrides
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME camd)
set(CPACK_PACKAGE_VENDOR "The camd authors")
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL runtime service plugin_headers dev_files)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${CAMD_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_RELEASE "${CAMD_PACKAGE_REVISION}")
set(CPACK_DEBIAN_PACKAGE_SECTION video)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_MAIN_PACKAGE_NAME camd)
set(CPACK_DEBIAN_MAIN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_MAIN_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers | systemd-sysusers, \
gstreamer1.0-plugins-base, gstreamer1.0-plugins-good, gstreamer1.0-plugins-bad")
set(CPACK_DEBIAN_MAIN_PACKAGE_RECOMMENDS "gstreamer1.0-libav, gstreamer1.0-plugins-ugly, python3")
set(CPACK_DEBIAN_MAIN_PACKAGE_SUGGESTS "camd-dev, libvulkan1, mosquitto, python3-numpy")
set(CPACK_DEBIAN_MAIN_PACKAGE_CONTROL_EXTRA
  "${packaging}/debian/postinst;${packaging}/debian/prerm;${packaging}/debian/postrm;${packaging}/debian/conffiles")
set(CPACK_DEBIAN_MAIN_DESCRIPTION "real-time inference on live cameras
Takes pictures of live cameras to a detector, on the GPU or on the CPU, and
what it finds to plug-ins: files, MQTT and Home Assistant, or your own code.
Every frame is accounted for; latency counts from the true time of capture.

This package has the programs camd and camtop, the service, and a detector
that finds QR codes and ArUco markers.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME camd-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "libdlpack-dev")
set(CPACK_DEBIAN_DEV_DESCRIPTION "headers for plug-ins of camd
A plug-in of camd is a shared library with one C function. This package has the
header that declares it, its adaptor for C++, and examples.")

# For another machine: what packages depend on is asked of that machine's (scripts/arm64_sysroot.sh).
if(CMAKE_CROSSCOMPILING AND CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
    "${CMAKE_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE};${CMAKE_SYSROOT}/lib/${CMAKE_LIBRARY_ARCHITECTURE}")
  set(CPACK_PROJECT_CONFIG_FILE "${made}/cross.cmake")
  file(WRITE "${CPACK_PROJECT_CONFIG_FILE}"
    "set(ENV{DPKG_ADMINDIR} \"${CMAKE_SYSROOT}/var/lib/dpkg\")\nset(ENV{DEB_HOST_ARCH} arm64)\n")
endif()

include(CPack)
cpack_add_component_group(main)
cpack_add_component_group(dev)
cpack_add_component(runtime GROUP main)
cpack_add_component(service GROUP main)
cpack_add_component(plugin_headers GROUP dev)
cpack_add_component(dev_files GROUP dev)
