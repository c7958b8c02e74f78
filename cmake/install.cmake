# What `cmake --install` installs: the program with its model, and libentropyinfer with headers, a CMake package and a
# pkg-config file. The library is the same objects as the program, ggml and libllama inside, and shows the functions of
# entropyinfer/c_api.h alone.
include(GNUInstallDirs)
if(TARGET entropyinfer)
  install(TARGETS entropyinfer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  install(FILES ${CMAKE_SOURCE_DIR}/assets/needle-14m-128k-q8_0.gguf
    DESTINATION ${CMAKE_INSTALL_DATADIR}/entropyinfer COMPONENT program OPTIONAL)
endif()

if(EI_LIBRARY AND (EI_PORTABLE OR EI_SANITIZE))
  # ggml looks for its CPU variants beside the program, which is somebody else's.
  message(STATUS "no libentropyinfer.so in this build: it is for one CPU (EI_CPU_TARGET names another than this one)")
  set(EI_LIBRARY OFF)
endif()
if(NOT EI_LIBRARY)
  return()
endif()

file(STRINGS ${CMAKE_SOURCE_DIR}/include/entropyinfer/c_api.h api_version REGEX "^#define EI_API_VERSION ")
string(REGEX REPLACE ".* " "" api_version "${api_version}")
add_library(entropyinfer_library SHARED $<TARGET_OBJECTS:ei_api>)
set_target_properties(entropyinfer_library PROPERTIES OUTPUT_NAME entropyinfer EXPORT_NAME entropyinfer
  VERSION ${PROJECT_VERSION} SOVERSION ${api_version} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
target_link_libraries(entropyinfer_library PRIVATE ei_engine ei_report)
target_link_options(entropyinfer_library PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/library.map -Wl,-z,defs
  -Wl,--as-needed)
set_target_properties(entropyinfer_library PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/library.map)
target_include_directories(entropyinfer_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/entropyinfer)
install(TARGETS entropyinfer_library EXPORT entropyinferTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  COMPONENT library NAMELINK_COMPONENT library)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/entropyinfer DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
install(EXPORT entropyinferTargets NAMESPACE entropyinfer:: FILE entropyinferConfig.cmake DESTINATION ${package}
  COMPONENT library)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/entropyinferConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${CMAKE_SOURCE_DIR}/cmake/entropyinfer.pc.in ${CMAKE_BINARY_DIR}/entropyinfer.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/entropyinferConfigVersion.cmake DESTINATION ${package} COMPONENT library)
install(FILES ${CMAKE_BINARY_DIR}/entropyinfer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
