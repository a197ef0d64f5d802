# The command line as a library, wick::program, and the program wick of it. What the study's pages
# need is in the library.
wick_find_package(fmt libfmt-dev)
wick_find_package(nlohmann_json nlohmann-json3-dev)
wick_find_package(OpenSSL libssl-dev)
find_file(WICK_CHART_JS chart.min.js PATH_SUFFIXES ../share/javascript/chart.js)
mark_as_advanced(WICK_CHART_JS)
if(NOT WICK_CHART_JS)
  message(FATAL_ERROR "wick study needs Chart.js 3: install Debian's libjs-chart.js, or set "
                      "WICK_CHART_JS to chart.min.js.")
endif()

set(study_folder ${PROJECT_SOURCE_DIR}/tools/study)
set(definitions)
wick_embed_file(kPageCss ${study_folder}/page/page.css)
wick_embed_file(kPageJs ${study_folder}/page/page.js)
wick_embed_file(kChartJs ${WICK_CHART_JS})
wick_embed_file(kTraceCss ${study_folder}/page/trace.css)
wick_embed_file(kTraceHtml ${study_folder}/page/trace.html)
wick_embed_file(kTraceJs ${study_folder}/page/trace.js)
wick_embed_file(kTraceViewJs ${study_folder}/page/trace_view.js)
set(page_files ${PROJECT_BINARY_DIR}/study/page_files.cpp)
file(CONFIGURE OUTPUT ${page_files} @ONLY CONTENT
     "#include \"wick/tools/study/page_files.h\"\nnamespace wick::study {\n@definitions@}\n")

file(GLOB command_sources CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/tools/wick/*.cpp ${PROJECT_SOURCE_DIR}/tools/tune/*.cpp
     ${study_folder}/*.cpp)
list(FILTER command_sources EXCLUDE REGEX "/main\\.cpp$")
add_library(wick_command STATIC ${command_sources} ${page_files})
wick_options(wick_command)
# Quicker to build; what takes time when it runs is in the library.
target_compile_options(wick_command PRIVATE $<$<CONFIG:Release>:-O1>)
target_link_libraries(wick_command PUBLIC wick::wick
                      PRIVATE wick_tool_common fmt::fmt nlohmann_json::nlohmann_json CLI11::CLI11
                              OpenSSL::Crypto PNG::PNG)
wick_precompile(wick_command REUSE_FROM wick_tool_common)
set_target_properties(wick_command PROPERTIES EXPORT_NAME program)
add_library(wick::program ALIAS wick_command)
wick_program(wick_cli ${PROJECT_SOURCE_DIR}/tools/wick/main.cpp)
set_target_properties(wick_cli PROPERTIES OUTPUT_NAME wick)
target_link_libraries(wick_cli PRIVATE wick_command)
install(TARGETS wick_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT wick)
# The program itself writes its manual pages and what shells complete by.
install(CODE "
  set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
  function(wick_write)
    execute_process(COMMAND $<TARGET_FILE:wick_cli> \${ARGN} COMMAND_ERROR_IS_FATAL ANY)
  endfunction()
  wick_write(man --folder \${share}/man/man1)
  foreach(file bash:bash-completion/completions/wick zsh:zsh/site-functions/_wick
          fish:fish/vendor_completions.d/wick.fish)
    string(REGEX MATCH \"^[a-z]+\" shell \${file})
    string(REGEX REPLACE \"^[a-z]+:\" \"\${share}/\" path \${file})
    get_filename_component(folder \${path} DIRECTORY)
    file(MAKE_DIRECTORY \${folder})
    wick_write(completion \${shell} OUTPUT_FILE \${path})
  endforeach()" COMPONENT wick)
