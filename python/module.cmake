# EI_PYTHON: the module entropyinfer._core, which calls libentropyinfer, and the library beside it. pip asks for it
# (pyproject.toml).
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(nanobind CONFIG REQUIRED)

if(EI_INSTALLED)
  find_package(entropyinfer 0.1 CONFIG REQUIRED PATHS ${EI_INSTALLED} NO_DEFAULT_PATH)
  set(ei_library entropyinfer::entropyinfer)
  get_target_property(ei_include entropyinfer::entropyinfer INTERFACE_INCLUDE_DIRECTORIES)
else()
  set(ei_library entropyinfer_library)
  set(ei_include ${CMAKE_SOURCE_DIR}/include)
endif()

nanobind_add_module(entropyinfer_core NB_STATIC ${CMAKE_SOURCE_DIR}/python/core.cpp ${CMAKE_SOURCE_DIR}/python/core_plans.cpp)
target_include_directories(entropyinfer_core PRIVATE ${ei_include})
target_link_libraries(entropyinfer_core PRIVATE ${ei_library})
set_target_properties(entropyinfer_core PROPERTIES OUTPUT_NAME _core INSTALL_RPATH "$ORIGIN"
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python)
nanobind_add_stub(entropyinfer_stub MODULE _core OUTPUT ${CMAKE_BINARY_DIR}/python/_core.pyi
  PYTHON_PATH ${CMAKE_BINARY_DIR}/python DEPENDS entropyinfer_core)
add_custom_target(entropyinfer_python DEPENDS entropyinfer_core entropyinfer_stub)

install(TARGETS entropyinfer_core LIBRARY DESTINATION entropyinfer COMPONENT python)
install(FILES $<TARGET_FILE:${ei_library}> DESTINATION entropyinfer RENAME $<TARGET_SONAME_FILE_NAME:${ei_library}>
  COMPONENT python)
install(FILES ${CMAKE_BINARY_DIR}/python/_core.pyi DESTINATION entropyinfer COMPONENT python)
