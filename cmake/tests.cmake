# Each folder under tests/ that holds *_test.cpp files becomes one program (and one ctest entry),
# named after its path: tests/core/ops is core_ops_test. Other .cpp files of the folder are linked
# in, and those of tests/harness into every program.
wick_find_package(GTest libgtest-dev)
wick_find_package(nlohmann_json nlohmann-json3-dev)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(WICK_TEST_ROOT ${PROJECT_SOURCE_DIR}/tests)

# Tests are compiled without optimisation: three quarters of the time to build.
set(WICK_TEST_FLAGS $<$<CONFIG:Release>:-O0>)

file(GLOB harness_sources CONFIGURE_DEPENDS ${WICK_TEST_ROOT}/harness/*.cpp)
list(FILTER harness_sources EXCLUDE REGEX "_test\\.cpp$")
if(harness_sources)
  add_library(wick_harness OBJECT ${harness_sources})
  wick_options(wick_harness)
  target_compile_options(wick_harness PRIVATE ${WICK_TEST_FLAGS})
  target_link_libraries(wick_harness PRIVATE GTest::gtest wick::wick)
  wick_precompile(wick_harness <gtest/gtest.h> <wick/wick.h>)
  # The one source that knows where the tree is: the others are the same in each clone.
  set(definitions WICK_SOURCE_DIR="${PROJECT_SOURCE_DIR}" WICK_BIN_DIR="${PROJECT_BINARY_DIR}/bin")
  set_source_files_properties(${WICK_TEST_ROOT}/harness/paths.cpp PROPERTIES
                              COMPILE_DEFINITIONS "${definitions}")
endif()

function(wick_test_program target)
  wick_program(${target} ${ARGN})
  target_compile_options(${target} PRIVATE ${WICK_TEST_FLAGS})
  target_link_libraries(${target} PRIVATE GTest::gtest nlohmann_json::nlohmann_json)
  if(TARGET wick_harness)
    target_link_libraries(${target} PRIVATE wick_harness)
    wick_precompile(${target} REUSE_FROM wick_harness)
  endif()
endfunction()

# With sanitizers the slowest tests are cut into four parts. One of them runs, another one for each
# commit; or all, which can run side by side. ThreadSanitizer's sample has no tests of single ops,
# rules and pages: they take long to build, and other tests have their threads. Their programs are
# built by name, as tools/mutate_barriers.py does.
set(not_in_sample)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
  set(not_in_sample "^(core/functions|core/ops|errors|golden_runner|onnx|optim)$")
endif()
set(WICK_TEST_PARTS "sample" CACHE STRING "Parts of slow tests with sanitizers: sample or all")
set_property(CACHE WICK_TEST_PARTS PROPERTY STRINGS sample all)
file(GLOB_RECURSE test_files CONFIGURE_DEPENDS RELATIVE ${WICK_TEST_ROOT}
     ${WICK_TEST_ROOT}/*_test.cpp)
list(FILTER test_files EXCLUDE REGEX "^(embed|fuzz|golden)/")
if(NOT TARGET wick_onnx)
  list(FILTER test_files EXCLUDE REGEX "^onnx/")
endif()
if(WICK_GPU STREQUAL "off")
  list(FILTER test_files EXCLUDE REGEX "^kernels/cuda/")
endif()
if(NOT WICK_GPU STREQUAL "sim")
  list(FILTER test_files EXCLUDE REGEX "^kernels/(sim|boundary|races)/")
elseif(CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
  list(FILTER test_files EXCLUDE REGEX "^kernels/boundary/")  # about indices, not about order
else()
  list(FILTER test_files EXCLUDE REGEX "^kernels/races/")
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  set_source_files_properties(${WICK_TEST_ROOT}/kernels/sim/count_test.cpp PROPERTIES
                              COMPILE_OPTIONS "${WICK_SIM_COUNT_OPTIONS}")
endif()
execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} log -1 --format=%ct
                OUTPUT_VARIABLE commit_time OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit_time MATCHES "^[0-9]+$")
  set(commit_time 0)
endif()
math(EXPR WICK_TEST_PART "${commit_time} % 4 + 1")
set(folders)
foreach(file ${test_files})
  get_filename_component(folder ${file} DIRECTORY)
  list(APPEND folders ${folder})
endforeach()
list(REMOVE_DUPLICATES folders)
foreach(folder ${folders})
  string(REPLACE "/" "_" name ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${WICK_TEST_ROOT}/${folder}/*.cpp)
  if(folder STREQUAL "harness")
    list(FILTER sources INCLUDE REGEX "_test\\.cpp$")
  endif()
  wick_test_program(${name}_test ${sources})
  target_link_libraries(${name}_test PRIVATE GTest::gtest_main)
  if(folder STREQUAL "kernels/boundary")
    target_compile_definitions(${name}_test PRIVATE WICK_STOP_AT_INTEGERS=1)
  endif()
  if(folder STREQUAL "tools")
    target_link_libraries(${name}_test PRIVATE wick_tool_common)
  elseif(folder STREQUAL "onnx")
    target_link_libraries(${name}_test PRIVATE wick_onnx wick_deps::onnx_proto)
    target_compile_definitions(${name}_test PRIVATE ONNX_ML=1)
  endif()
  if(WICK_TEST_PARTS STREQUAL "sample" AND not_in_sample AND folder MATCHES "${not_in_sample}")
    set_target_properties(${name}_test PROPERTIES EXCLUDE_FROM_ALL ON)
    continue()
  endif()
  # Numerical gradients call an op some hundred times, each time in the same order of threads.
  set(filter)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
    set(filter --gtest_filter=-*.gradcheck:*.gradgradcheck)
  endif()
  set(parts 1)
  if(name MATCHES "^(core_ops|optim|kernels_boundary)$" AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
    set(parts 4)
  endif()
  foreach(part RANGE 1 ${parts})
    set(test ${name})
    if(parts GREATER 1)
      if(WICK_TEST_PARTS STREQUAL "sample" AND NOT part EQUAL WICK_TEST_PART)
        continue()
      endif()
      set(test ${name}_${part}_of_${parts})
    endif()
    math(EXPR index "${part} - 1")
    add_test(NAME ${test} COMMAND ${name}_test --gtest_brief=1 ${filter})
    set(environment GTEST_TOTAL_SHARDS=${parts} GTEST_SHARD_INDEX=${index})
    # The threads of a simulated block in another order than in the preset tsan.
    if(name STREQUAL "optim" AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=address")
      list(APPEND environment WICK_SIM_ORDER=random)
    endif()
    set_tests_properties(${test} PROPERTIES ENVIRONMENT "${environment}")
  endforeach()
endforeach()
if(TARGET kernels_races_test)  # each race, also where one of the same lines was reported before
  string(CONCAT options "TSAN_OPTIONS=ignore_noninstrumented_modules=1:"
                        "suppress_equal_stacks=0:suppress_equal_addresses=0")
  set_tests_properties(kernels_races PROPERTIES ENVIRONMENT "${options}")
endif()

file(GLOB golden_sources CONFIGURE_DEPENDS ${WICK_TEST_ROOT}/golden/*.cpp)
if(golden_sources AND NOT (CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread" AND
                           WICK_TEST_PARTS STREQUAL "sample"))
  wick_test_program(golden_test ${golden_sources})
  add_test(NAME golden COMMAND golden_test)
  add_dependencies(golden_runner_test golden_test)
  if(WICK_GPU STREQUAL "sim")
    add_test(NAME golden_simulated COMMAND golden_test --device cuda)
  endif()
endif()

# The blocks of C++ and the tables of names of these pages, each a test.
if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
  set(snippets ${WICK_TEST_ROOT}/docs/snippets.py)
  file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/README.md
       ${PROJECT_SOURCE_DIR}/docs/*.md ${PROJECT_SOURCE_DIR}/docs/optimizations/*.md)
  if(NOT TARGET wick_onnx)
    list(FILTER pages EXCLUDE REGEX "/onnx\\.md$")
  endif()
  set(own_names articles graphs pytorch_users)  # pages that begin with what their blocks use
  foreach(name ${own_names})
    list(REMOVE_ITEM pages ${PROJECT_SOURCE_DIR}/docs/${name}.md)
  endforeach()
  foreach(name ${own_names} pages)
    set(read ${PROJECT_SOURCE_DIR}/docs/${name}.md)
    set(words ${read})
    if(name STREQUAL "pages")
      set(read ${WICK_TEST_ROOT}/docs/names.inc ${pages})
      set(words --names ${read})
    endif()
    set(source ${PROJECT_BINARY_DIR}/${name}_test.cpp)
    add_custom_command(OUTPUT ${source} DEPENDS ${read} ${snippets} VERBATIM
                       COMMAND Python3::Interpreter ${snippets} ${source} ${words})
    wick_test_program(${name}_test ${source})
    target_compile_options(${name}_test PRIVATE -Wno-shadow -Wno-unused -Wno-unused-value)
    target_link_libraries(${name}_test PRIVATE GTest::gtest_main)
    add_test(NAME ${name} COMMAND ${name}_test --gtest_brief=1)
  endforeach()
  if(TARGET wick_onnx)
    target_link_libraries(pages_test PRIVATE wick_onnx)
  endif()
  include(${WICK_TEST_ROOT}/docs/tutorials.cmake)
  wick_functors(pages_test ${WICK_TEST_ROOT}/embed/swiglu.h BINARY Swiglu)
endif()

if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=address")
  include(${PROJECT_SOURCE_DIR}/cmake/fuzz.cmake)
endif()

add_test(NAME isa_symbols_self_test
         COMMAND Python3::Interpreter ${WICK_TEST_ROOT}/isa/isa_symbols.py --self-test
                 ${CMAKE_CXX_COMPILER})
if(TARGET wick_cpu_avx512)
  if(TARGET core_ops_test AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    add_test(NAME isa_same_bits
             COMMAND Python3::Interpreter ${WICK_TEST_ROOT}/isa/same_bits_test.py
                     $<TARGET_FILE:core_ops_test>)
    set_tests_properties(isa_same_bits PROPERTIES SKIP_RETURN_CODE 77)
  endif()
  add_test(NAME isa_symbols
           COMMAND Python3::Interpreter ${WICK_TEST_ROOT}/isa/isa_symbols.py avx512
                   $<TARGET_OBJECTS:wick_cpu_avx512>
           COMMAND_EXPAND_LISTS)
endif()
add_test(NAME style_self_test
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/check_style.py --self-test)
add_test(NAME style COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/check_style.py)
add_test(NAME reading_ease_self_test
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/reading_ease.py --self-test)
add_test(NAME reading_ease
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/reading_ease.py --check)
add_test(NAME site_self_test
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/site/pages.py --self-test)

add_test(NAME reference_self_test
         COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tools/reference/filter.py --self-test)

add_test(NAME gpu_check
         COMMAND Python3::Interpreter ${WICK_TEST_ROOT}/tools/program/gpu_check_test.py)

if(TARGET wick_cli)
  add_test(NAME program_data
           COMMAND Python3::Interpreter ${WICK_TEST_ROOT}/tools/program/data_test.py
                   $<TARGET_FILE:wick_cli>)
  # These are about words, pages and rates: the same with sanitizers, which make them slow. What
  # they run of the library, other tests run with sanitizers.
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
    foreach(test docs errors eval faults flags memory profile schedule shells study
                 trace_page uses)
      add_test(NAME program_${test}
               COMMAND Python3::Interpreter ${WICK_TEST_ROOT}/tools/program/${test}_test.py
                   $<TARGET_FILE:wick_cli>)
    endforeach()
    wick_program(recurrent_program ${WICK_TEST_ROOT}/tools/program/recurrent_program.cpp)
    target_compile_options(recurrent_program PRIVATE ${WICK_TEST_FLAGS})
    target_link_libraries(recurrent_program PRIVATE wick_command)
    add_test(NAME program_threads
             COMMAND Python3::Interpreter ${WICK_TEST_ROOT}/tools/program/threads_test.py
                 $<TARGET_FILE:wick_cli> $<TARGET_FILE:recurrent_program>)
  endif()
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
    add_test(NAME program
             COMMAND Python3::Interpreter ${WICK_TEST_ROOT}/tools/program/program_test.py
                 $<TARGET_FILE:wick_cli>)
  endif()
  add_test(NAME program_ranks
           COMMAND Python3::Interpreter ${WICK_TEST_ROOT}/tools/program/ranks_test.py
                   $<TARGET_FILE:wick_cli>)
  # What it finds is about files and words, which sanitizers only make slower.
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
    add_test(NAME campaign
             COMMAND Python3::Interpreter ${WICK_TEST_ROOT}/faults/campaign.py
                     $<TARGET_FILE:wick_cli> --count 200)
    add_test(NAME campaign_unended
             COMMAND Python3::Interpreter ${WICK_TEST_ROOT}/faults/unended_test.py)
  endif()
  add_test(NAME drills COMMAND Python3::Interpreter ${WICK_TEST_ROOT}/dist/drills.py
                   $<TARGET_FILE:wick_cli>)
endif()

if(TARGET wick_cli AND WICK_GPU STREQUAL "cuda")
  add_test(NAME one_binary
           COMMAND ${PROJECT_SOURCE_DIR}/tools/check_one_binary.sh $<TARGET_FILE:wick_cli>)
  set_tests_properties(one_binary PROPERTIES SKIP_RETURN_CODE 77)
endif()
if(WICK_GPU STREQUAL "sim")
  add_test(NAME sim_expandable
           COMMAND kernels_sim_test --gtest_brief=1
                   --gtest_filter=SimulatedVirtualMemory*:SimulatedTraining.L*:*Fail*:*LateUse*)
  set_tests_properties(sim_expandable PROPERTIES
                       ENVIRONMENT "WICK_CUDA_ALLOC=expandable_segments:true")
  add_test(NAME sim_small COMMAND kernels_sim_test --gtest_brief=1 --gtest_filter=SimulatedGrids*)
  set_tests_properties(sim_small PROPERTIES ENVIRONMENT "WICK_SIM_MULTIPROCESSORS=1")
endif()

# What it shows is about headers, compilers and files.
if(WICK_INSTALL AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
  add_test(NAME embed
           COMMAND ${CMAKE_COMMAND} -DBINARY_DIR=${PROJECT_BINARY_DIR}
                   -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DCXX=${CMAKE_CXX_COMPILER}
                   -DFLAGS=${CMAKE_CXX_FLAGS} -DGENERATOR=${CMAKE_GENERATOR}
                   -DPYTHON=${Python3_EXECUTABLE} -DGPU=${WICK_GPU}
                   -P ${WICK_TEST_ROOT}/embed/embed_test.cmake)
endif()

# The longest first, so that no core waits for them at the end.
foreach(test optim program program_ranks program_schedule program_study
             program_uses)
  if(TEST ${test})
    set_tests_properties(${test} PROPERTIES COST 100)
  endif()
endforeach()

# Every public header compiles by itself: cmake --build --preset release --target wick_headers
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
     core/*.h nn/*.h optim/*.h data/*.h dist/*.h train/*.h onnx/*.h)
list(FILTER headers EXCLUDE REGEX "(^core/cuda|/detail)/")
list(APPEND headers wick.h program.h)
set(header_sources)
foreach(header ${headers})
  set(source ${PROJECT_BINARY_DIR}/headers/${header}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"wick/${header}\"\n")
  list(APPEND header_sources ${source})
endforeach()
add_library(wick_headers OBJECT EXCLUDE_FROM_ALL ${header_sources})
wick_options(wick_headers)
set_target_properties(wick_headers PROPERTIES UNITY_BUILD OFF)
target_include_directories(wick_headers PRIVATE ${WICK_GENERATED})
