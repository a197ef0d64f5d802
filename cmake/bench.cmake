# Every kernel against what the hardware can do: what `wick bench` starts from its own folder. With
# the preset count it counts what kernels do with memory.
file(GLOB bench_rows CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/kernels/*.cpp)
file(GLOB bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/runner/*.cpp)
wick_find_package(fmt libfmt-dev)
wick_find_package(nlohmann_json nlohmann-json3-dev)
# What benchmarks time is in the library, but for the loops that find the machine's ceilings.
function(wick_bench_options target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${target} PRIVATE fmt::fmt)  # as what it shares precompiled headers with
  wick_precompile(${target} REUSE_FROM wick_tool_common)
endfunction()
function(wick_bench_program target)
  wick_program(${target} ${ARGN})
  wick_bench_options(${target})
endfunction()
add_library(wick_bench_rows OBJECT ${bench_rows})
wick_options(wick_bench_rows)
wick_bench_options(wick_bench_rows)
target_link_libraries(wick_bench_rows PRIVATE wick::wick)
wick_bench_program(wick_bench ${bench_sources} $<TARGET_OBJECTS:wick_bench_rows>)
set_target_properties(wick_bench PROPERTIES OUTPUT_NAME wick-bench)
set_source_files_properties(${PROJECT_SOURCE_DIR}/bench/runner/ceilings.cpp PROPERTIES
                            COMPILE_OPTIONS -O3 SKIP_PRECOMPILE_HEADERS ON)
target_link_libraries(wick_bench PRIVATE
  wick_tool_common fmt::fmt nlohmann_json::nlohmann_json)
if(WICK_SIM_COUNT)
  target_compile_definitions(wick_bench PRIVATE WICK_SIM_COUNT=1)
endif()
if(WICK_INSTALL)
  install(TARGETS wick_bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT wick OPTIONAL)
endif()
if(WICK_TESTS)
  add_test(NAME program_bench
           COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/tools/program/bench_test.py
                   $<TARGET_FILE:wick_bench> ${PROJECT_SOURCE_DIR})
endif()

# The same rows by Google Benchmark, where that is installed.
find_package(benchmark QUIET)
if(benchmark_FOUND)
  wick_bench_program(wick_gbench ${PROJECT_SOURCE_DIR}/bench/gbench/main.cpp
               $<TARGET_OBJECTS:wick_bench_rows>)
  set_target_properties(wick_gbench PROPERTIES OUTPUT_NAME wick-gbench)
  target_link_libraries(wick_gbench PRIVATE wick_tool_common benchmark::benchmark)
endif()

# What bench/peers/compare.py runs beside PyTorch.
wick_bench_program(wick_peer ${PROJECT_SOURCE_DIR}/bench/peers/wick_peer.cpp)

# Products by oneDNN, which compare.py times beside Wick's where Debian's libdnnl-dev is installed.
find_path(WICK_DNNL_INCLUDE dnnl.hpp)
find_library(WICK_DNNL dnnl)
mark_as_advanced(WICK_DNNL_INCLUDE WICK_DNNL)
if(WICK_DNNL_INCLUDE AND WICK_DNNL)
  add_executable(onednn_peer ${PROJECT_SOURCE_DIR}/bench/peers/onednn_peer.cpp)
  target_include_directories(onednn_peer SYSTEM PRIVATE ${WICK_DNNL_INCLUDE})
  target_compile_features(onednn_peer PRIVATE cxx_std_20)
  target_link_libraries(onednn_peer PRIVATE ${WICK_DNNL})
endif()

# Memory and time of activation checkpointing: bench_recompute resnet50
wick_bench_program(bench_recompute ${PROJECT_SOURCE_DIR}/bench/recompute_bench.cpp)

# Images per second of the loader, and what it costs a training step: bench_loader mnist
wick_bench_program(bench_loader ${PROJECT_SOURCE_DIR}/bench/loader_bench.cpp)

# What bench/peers/images.py runs beside torchvision: bench_images train FOLDER 1
wick_bench_program(bench_images ${PROJECT_SOURCE_DIR}/bench/images_bench.cpp)

# A rank of what bench/peers/all_reduce.py measures
wick_bench_program(bench_all_reduce ${PROJECT_SOURCE_DIR}/bench/all_reduce_bench.cpp)

# A rank of what bench/peers/ddp.py measures
wick_bench_program(bench_ddp ${PROJECT_SOURCE_DIR}/bench/ddp_bench.cpp)

# What a checkpoint costs a step: bench_saving resnet18
wick_bench_program(bench_saving ${PROJECT_SOURCE_DIR}/bench/saving_bench.cpp)

# Inference of a ResNet: eager, compiled and with folded norms: bench_inference
wick_bench_program(bench_inference ${PROJECT_SOURCE_DIR}/bench/inference_bench.cpp)

# Memory, allocations and time of compiled steps beside eager ones: bench_compiled_step resnet18
wick_bench_program(bench_compiled_step ${PROJECT_SOURCE_DIR}/bench/compiled_step_bench.cpp)

# What checks of weights and the profiler cost a step: bench_step_cost mlp
wick_bench_program(bench_step_cost ${PROJECT_SOURCE_DIR}/bench/step_cost_bench.cpp)
target_link_libraries(bench_step_cost PRIVATE wick_tool_common)
