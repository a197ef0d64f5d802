# Each tests/fuzz/NAME_fuzz.cpp is a libFuzzer program, built by clang with AddressSanitizer, and
# tests/fuzz/NAME_fuzz/ its kept corpus. ctest runs it for a moment, .ci/run for a minute; longer:
# tests/fuzz/run.py 3600 build/asan/bin/NAME_fuzz
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp)

# The readers of files tell the fuzzer which of their branches an input took.
get_target_property(wick_all_sources wick_archive SOURCES)
get_target_property(wick_fast_sources wick_fast SOURCES)
list(APPEND wick_all_sources ${wick_fast_sources})
list(FILTER wick_all_sources INCLUDE REGEX
     "/data/|/core/serialize|/core/detail/safetensors|/core/graph/store")
set_property(SOURCE ${wick_all_sources} APPEND PROPERTY COMPILE_OPTIONS -fsanitize=fuzzer-no-link)

if(TARGET wick_onnx)
  target_compile_options(wick_onnx PRIVATE -fsanitize=fuzzer-no-link)
else()
  list(FILTER fuzz_sources EXCLUDE REGEX "/onnx_fuzz")
endif()

foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  wick_program(${name} ${source})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE ZLIB::ZLIB)
  if(name STREQUAL "onnx_fuzz")
    target_link_libraries(${name} PRIVATE wick_onnx)
  endif()
  add_test(NAME ${name} COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/fuzz/run.py 2
                                $<TARGET_FILE:${name}>)
endforeach()
