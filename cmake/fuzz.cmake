# Each tests/fuzz/NAME_fuzz.cpp is a libFuzzer program, built by clang with AddressSanitizer. ctest
# gives it a short run; a long one: build/asan/bin/NAME_fuzz -max_total_time=3600 CORPUS_FOLDER
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp)

# The readers of files tell the fuzzer which of their branches an input took.
get_target_property(wick_all_sources wick_archive SOURCES)
list(FILTER wick_all_sources INCLUDE REGEX "/data/|/core/serialize|/core/safetensors")
set_property(SOURCE ${wick_all_sources} APPEND PROPERTY COMPILE_OPTIONS -fsanitize=fuzzer-no-link)

foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  wick_program(${name} ${source})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set(corpus)
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/tests/fuzz/${name})
    set(corpus ${PROJECT_SOURCE_DIR}/tests/fuzz/${name})
  endif()
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz/${name})
  add_test(NAME ${name}
           COMMAND ${name} -seed=1 -max_total_time=10 -timeout=10 -rss_limit_mb=2048
                   ${PROJECT_BINARY_DIR}/fuzz/${name} ${corpus}
           WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
endforeach()
