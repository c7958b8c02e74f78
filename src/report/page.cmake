# Pages as strings: the parts of a folder in one text, returned by a function of the report room. Written at build time (this
# file again, in script mode), so that a change of a page shows without configuring anew.
if(CMAKE_SCRIPT_MODE_FILE)
  string(REPLACE "," ";" parts "${PARTS}")
  set(text "{{page.html}}")
  foreach(part ${parts})
    file(READ ${FOLDER}/${part} content)
    get_filename_component(name ${part} NAME)
    string(REPLACE "{{${name}}}" "${content}" text "${text}")
  endforeach()
  file(WRITE ${OUTPUT} "#include \"report/page.h\"\n\nnamespace ei::report {\n\n"
    "std::string_view ${FUNCTION}() {\n  return R\"ei_page(${text})ei_page\";\n}\n\n}  // namespace ei::report\n")
  return()
endif()

# ei_page(FUNCTION FOLDER part...): page.html is the part that names the others, {{style.css}}.
function(ei_page function folder)
  set(output ${CMAKE_BINARY_DIR}/generated/${function}.cpp)
  set(from ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${folder})
  list(TRANSFORM ARGN PREPEND ${from}/ OUTPUT_VARIABLE files)
  string(REPLACE ";" "," parts "${ARGN}")
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DFOLDER=${from} -DOUTPUT=${output} -DFUNCTION=${function} -DPARTS=${parts}
      -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/page.cmake
    DEPENDS ${files} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/page.cmake VERBATIM)
  target_sources(ei_report PRIVATE ${output})
endfunction()
ei_page(page_source page page.html style.css data.js paint.js heads.js head.js cache.js main.js)
ei_page(eval_page_source eval_page page.html ../page/style.css tables.css tables.js charts.js needles.js main.js)
