# The tests of kernels, cuts and parity run a second time for the lowest CPU of this architecture that they are promised
# for. The objects are the same; another are only ggml's CPU code, which tools/deps.sh lowest has compiled for that
# target, and the one file that caps our kernels. So neither libllama nor the engine is built twice.
set(EI_LOWEST_TARGET "" CACHE STRING "the EI_CPU_TARGET that these tests run for as well; empty: none")

if(EI_LOWEST_TARGET)
  set(lowest_cpu ${EI_DEPS_DIR}/build-llama-${CMAKE_SYSTEM_PROCESSOR}-${EI_LOWEST_TARGET}/llama.cpp/ggml/src/libggml-cpu.a)
  if(NOT EXISTS ${lowest_cpu})
    message(FATAL_ERROR "ggml is not built yet for ${EI_LOWEST_TARGET}: run tools/deps.sh lowest (or make check)")
  endif()
  add_library(ggml-cpu-lowest STATIC IMPORTED)
  set_target_properties(ggml-cpu-lowest PROPERTIES IMPORTED_LOCATION ${lowest_cpu} INTERFACE_LINK_LIBRARIES ggml-base)
  # The program that is linked decides which of the two it gets.
  get_target_property(parts ggml INTERFACE_LINK_LIBRARIES)
  string(REPLACE "ggml-cpu" "$<IF:$<BOOL:$<TARGET_PROPERTY:EI_LOWEST>>,ggml-cpu-lowest,ggml-cpu>" parts "${parts}")
  set_target_properties(ggml PROPERTIES INTERFACE_LINK_LIBRARIES "${parts}")
  set(lowest_cap ${CMAKE_BINARY_DIR}/lowest_target.cpp)
  file(CONFIGURE OUTPUT ${lowest_cap} CONTENT "#define EI_CPU_TARGET \"@EI_LOWEST_TARGET@\"\n#include \"kernels/simd/cpu_target.cpp\"\n" @ONLY)
endif()

# ei_lowest_test(NAME FILTER): the test program NAME as NAME_lowest, for the tests that match.
function(ei_lowest_test name filter)
  if(NOT EI_LOWEST_TARGET)
    return()
  endif()
  add_executable(${name}_lowest $<TARGET_OBJECTS:${name}> ${lowest_cap})
  get_target_property(libraries ${name} LINK_LIBRARIES)
  target_link_libraries(${name}_lowest PRIVATE ${libraries})
  set_target_properties(${name}_lowest PROPERTIES EI_LOWEST ON)
  add_test(NAME ${name}_lowest COMMAND ${CMAKE_SOURCE_DIR}/tests/on_cores.sh 1 $<TARGET_FILE:${name}_lowest>)
  set_tests_properties(${name}_lowest PROPERTIES LABELS "parity;lowest" TIMEOUT ${EI_TEST_TIMEOUT} ENVIRONMENT "GTEST_FILTER=${filter}" FAIL_REGULAR_EXPRESSION "Running 0 tests")
endfunction()
