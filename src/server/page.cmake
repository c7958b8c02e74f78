# The files of the page as strings in the program. Written at build time (this file again, in script mode), so that a change
# shows without configuring anew.
if(CMAKE_SCRIPT_MODE_FILE)
  string(REPLACE "," ";" parts "${PARTS}")
  set(text "#include \"server/page.h\"\n\nnamespace ei::server {\n\nstd::span<const PageFile> page_files() {\n")
  string(APPEND text "  static constexpr PageFile kFiles[] = {\n")
  foreach(part ${parts})
    file(READ ${FOLDER}/${part} content)
    string(APPEND text "      {\"${part}\", R\"ei_page(${content})ei_page\"},\n")
  endforeach()
  file(WRITE ${OUTPUT} "${text}  };\n  return kFiles;\n}\n\n}  // namespace ei::server\n")
  return()
endif()

set(page_parts page.html style.css main.js chat.js answer.js stream.js figures.js map.js)
set(page_folder ${CMAKE_CURRENT_LIST_DIR}/page)
set(page_output ${CMAKE_BINARY_DIR}/generated/server_page.cpp)
list(TRANSFORM page_parts PREPEND ${page_folder}/ OUTPUT_VARIABLE page_sources)
string(REPLACE ";" "," page_list "${page_parts}")
add_custom_command(OUTPUT ${page_output}
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${page_folder} -DOUTPUT=${page_output} -DPARTS=${page_list}
    -P ${CMAKE_CURRENT_LIST_DIR}/page.cmake
  DEPENDS ${page_sources} ${CMAKE_CURRENT_LIST_DIR}/page.cmake VERBATIM)
target_sources(ei_server PRIVATE ${page_output})
