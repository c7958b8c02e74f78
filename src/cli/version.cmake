# ei_build.h: version and commit. Written at build time (this file again, in script mode), so that a commit shows without
# configuring anew; touched only when it changes.
if(CMAKE_SCRIPT_MODE_FILE)
  execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse --short HEAD
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit unknown)
  else()
    execute_process(COMMAND git -C ${SOURCE_DIR} diff --quiet HEAD -- src RESULT_VARIABLE dirty ERROR_QUIET)
    if(dirty)
      string(APPEND commit -dirty)
    endif()
  endif()
  set(text "#pragma once\n#define EI_BUILD_VERSION \"${VERSION}\"\n#define EI_BUILD_COMMIT \"${commit}\"\n")
  set(old "")
  if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} old)
  endif()
  if(NOT old STREQUAL text)
    file(WRITE ${OUTPUT} "${text}")
  endif()
  return()
endif()

set(ei_build_dir ${CMAKE_BINARY_DIR}/generated)
add_custom_target(ei_build_header
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${CMAKE_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
    -DOUTPUT=${ei_build_dir}/ei_build.h -P ${CMAKE_CURRENT_LIST_FILE}
  BYPRODUCTS ${ei_build_dir}/ei_build.h VERBATIM)
add_dependencies(ei_cli ei_build_header)
target_include_directories(ei_cli PRIVATE ${ei_build_dir})
