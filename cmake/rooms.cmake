# ei_room(NAME DEPS room... LIBS target... LABELS label...): the static library ei_NAME from src/NAME, plus its unit
# tests (*_test.cpp beside the code) as ei_NAME_test. Rooms include headers of their DEPS only; tests/style checks it.
# Tests that a sanitizer run must choose apart are programs of their own, with a label more: *_LABEL_test.cpp of a room
# becomes ei_NAME_LABEL_test.
set(EI_TEST_KINDS
  clock    # watches the clock or the resident memory: tells nothing under a sanitizer
  long     # minutes under a sanitizer
  threads) # several threads of our own: what ThreadSanitizer runs
add_library(ei_flags INTERFACE)
target_include_directories(ei_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(ei_flags INTERFACE
  $<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-ffp-contract=off>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>  # as g++ understands -Wconversion
  # What __FILE__ says does not depend on where the checkout lies: nor, then, what a compiler cache holds.
  $<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=>)
if(EI_SANITIZE)
  string(REPLACE ";" "," sanitizers "${EI_SANITIZE}")
  # Null pointers and the sizes of objects are AddressSanitizer's to find; checked twice they cost a tenth of the build.
  add_compile_options(-fsanitize=${sanitizers} -fno-sanitize=null,object-size -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${sanitizers})
  add_compile_definitions(EI_SANITIZED)  # for tests that watch the clock or the memory
endif()

# ei_asks(NAME): it asks others to compute, so a quick build will do; a test asks, too. ei_busy_test(NAME): a test where that
# is not so, because it computes much itself (slow references, thousands of random runs); ei_busy_tests(ROOM): all of a room.
function(ei_asks name)
  target_compile_options(${name} PRIVATE $<IF:$<BOOL:${EI_SANITIZE}>,-O0,-O1>)
endfunction()
function(ei_busy_test name)
  if(TARGET ${name})
    target_compile_options(${name} PRIVATE $<IF:$<BOOL:${EI_SANITIZE}>,-O1,-O3>)
  endif()
endfunction()
function(ei_busy_tests room)
  ei_busy_test(ei_${room}_test)
  foreach(kind ${EI_TEST_KINDS})
    ei_busy_test(ei_${room}_${kind}_test)
  endforeach()
endfunction()

# ei_tests_LABEL builds every test of a label, so that a sanitizer run compiles only what it runs: ei_tests_unit leaves
# those out that are labelled clock or long as well.
foreach(label unit fuzz threads clock long)
  add_custom_target(ei_tests_${label})
endforeach()

# A limit is there for what hangs, not for what is slow: ten times what the longest program takes on a core of a Neoverse-V1.
set(EI_TEST_TIMEOUT 2400)

# ei_test(NAME LABELS label... SOURCES file... LIBS target... [TIMEOUT seconds] [SERIAL]): runs on a core of its own, or with
# SERIAL on two while no other test runs.
function(ei_test name)
  cmake_parse_arguments(arg "SERIAL" "TIMEOUT" "LABELS;SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ei_flags ${arg_LIBS} GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)  # what tests share: tests/support
  target_compile_definitions(${name} PRIVATE EI_SOURCE_DIR="${CMAKE_SOURCE_DIR}" EI_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_compile_options(${name} PRIVATE -O0)
  # Most of a test's compile time is other people's headers: a few files at a time, in every build.
  # Those for a GPU are not compiled everywhere, so a name that two of them use would show too late.
  if(NOT "gpu" IN_LIST arg_LABELS)
    set_target_properties(${name} PROPERTIES UNITY_BUILD ON)
    if(NOT CMAKE_UNITY_BUILD)
      set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 6)
    endif()
  endif()
  add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/tests/on_cores.sh $<IF:$<BOOL:${arg_SERIAL}>,2,1> $<TARGET_FILE:${name}>)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT ${EI_TEST_TIMEOUT})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} RUN_SERIAL ${arg_SERIAL})
  foreach(label ${arg_LABELS})
    if(label STREQUAL unit AND arg_LABELS MATCHES "clock|long")
      continue()
    endif()
    if(TARGET ei_tests_${label})
      add_dependencies(ei_tests_${label} ${name})
    endif()
  endforeach()
endfunction()

function(ei_room name)
  cmake_parse_arguments(arg "" "" "DEPS;LIBS;LABELS" ${ARGN})
  set(folder ${CMAKE_SOURCE_DIR}/src/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  if(NOT sources)
    add_library(ei_${name} INTERFACE)
    set(scope INTERFACE)
  else()
    add_library(ei_${name} STATIC ${sources})
    target_link_libraries(ei_${name} PRIVATE ei_flags)
    # Headers cost more than our own lines; kernels are compiled one by one, each for its instruction set.
    if(EI_UNITY AND NOT CMAKE_UNITY_BUILD AND NOT name STREQUAL kernels)
      set_target_properties(ei_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
      # A type hidden in its file is no longer in the main one, which is what that warning is about.
      target_compile_options(ei_${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
    endif()
    set(scope PUBLIC)
  endif()
  foreach(dep ${arg_DEPS})
    if(TARGET ei_${dep})  # the server's room is left out where its headers are not installed
      target_link_libraries(ei_${name} ${scope} ei_${dep})
    endif()
  endforeach()
  target_link_libraries(ei_${name} ${scope} ${arg_LIBS})
  if(NOT EI_TESTS)
    return()
  endif()
  foreach(kind ${EI_TEST_KINDS})
    set(of_kind ${tests})
    list(FILTER of_kind INCLUDE REGEX "_${kind}_test\\.cpp$")
    list(FILTER tests EXCLUDE REGEX "_${kind}_test\\.cpp$")
    if(of_kind)
      ei_test(ei_${name}_${kind}_test LABELS unit ${kind} SOURCES ${of_kind} LIBS ei_${name})
    endif()
  endforeach()
  if(tests)
    ei_test(ei_${name}_test LABELS unit ${arg_LABELS} SOURCES ${tests} LIBS ei_${name})
  endif()
endfunction()
