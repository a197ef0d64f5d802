# wick-study, which `wick study` and `wick report` start from their own folder: a program of its
# own, so that `wick` alone is built quickly. What its pages need is in the program.
wick_find_package(fmt libfmt-dev)
wick_find_package(nlohmann_json nlohmann-json3-dev)
find_file(WICK_CHART_JS chart.min.js PATH_SUFFIXES ../share/javascript/chart.js)
mark_as_advanced(WICK_CHART_JS)
if(NOT WICK_CHART_JS)
  message(FATAL_ERROR "wick-study needs Chart.js 3: install Debian's libjs-chart.js, or set "
                      "WICK_CHART_JS to chart.min.js.")
endif()

# Adds the file `path` to `definitions` as the string `name`.
macro(wick_page_file name path)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
  file(READ ${path} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND definitions
         "static const unsigned char ${name}Bytes[] = {${bytes}};\n"
         "const std::string_view ${name}(reinterpret_cast<const char*>(${name}Bytes),\n"
         "                               sizeof ${name}Bytes);\n")
endmacro()
set(study_folder ${PROJECT_SOURCE_DIR}/tools/study)
set(definitions)
wick_page_file(kPageCss ${study_folder}/page/page.css)
wick_page_file(kPageJs ${study_folder}/page/page.js)
wick_page_file(kChartJs ${WICK_CHART_JS})
set(page_files ${PROJECT_BINARY_DIR}/study/page_files.cpp)
file(CONFIGURE OUTPUT ${page_files} @ONLY CONTENT
     "#include \"wick/tools/study/page_files.h\"\nnamespace wick::study {\n@definitions@}\n")

file(GLOB study_sources CONFIGURE_DEPENDS ${study_folder}/*.cpp)
wick_program(wick_study ${study_sources} ${page_files})
set_target_properties(wick_study PROPERTIES OUTPUT_NAME wick-study)
# What it times is in the library.
target_compile_options(wick_study PRIVATE $<$<CONFIG:Release>:-O1>)
target_link_libraries(wick_study PRIVATE
  wick_command fmt::fmt nlohmann_json::nlohmann_json CLI11::CLI11 OpenSSL::Crypto PNG::PNG)
if(WICK_INSTALL)
  install(TARGETS wick_study RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT wick OPTIONAL)
endif()
if(WICK_TESTS)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME program_study
           COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/program/study_test.py
                   $<TARGET_FILE:wick_study> $<TARGET_FILE:wick_cli>)
  add_test(NAME program_docs
           COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/program/docs_test.py
                   $<TARGET_FILE:wick_cli>)
endif()
