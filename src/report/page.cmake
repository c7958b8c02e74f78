# page_source.cpp: the files of report/page in one page, as a string. Written at build time (this file again, in script
# mode), so that a change of the page shows without configuring anew.
set(ei_page_parts page.html style.css data.js paint.js heads.js head.js cache.js main.js)
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "{{page.html}}")
  foreach(part ${ei_page_parts})
    file(READ ${FOLDER}/${part} content)
    string(REPLACE "{{${part}}}" "${content}" text "${text}")
  endforeach()
  file(WRITE ${OUTPUT} "#include \"report/page.h\"\n\nnamespace ei::report {\n\n"
    "std::string_view page_source() {\n  return R\"ei_page(${text})ei_page\";\n}\n\n}  // namespace ei::report\n")
  return()
endif()

set(ei_page_source ${CMAKE_BINARY_DIR}/generated/page_source.cpp)
set(ei_page_folder ${CMAKE_CURRENT_LIST_DIR}/page)
list(TRANSFORM ei_page_parts PREPEND ${ei_page_folder}/ OUTPUT_VARIABLE ei_page_files)
add_custom_command(OUTPUT ${ei_page_source}
  COMMAND ${CMAKE_COMMAND} -DFOLDER=${ei_page_folder} -DOUTPUT=${ei_page_source} -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${ei_page_files} ${CMAKE_CURRENT_LIST_FILE} VERBATIM)
target_sources(ei_report PRIVATE ${ei_page_source})
