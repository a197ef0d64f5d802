# One program of all micro-benchmarks: bench_micro --benchmark_filter=softmax
file(GLOB bench_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/micro/*.cpp)
if(bench_sources)
  wick_find_package(benchmark libbenchmark-dev)
  wick_program(bench_micro ${bench_sources})
  target_link_libraries(bench_micro PRIVATE benchmark::benchmark benchmark::benchmark_main)
endif()

# What bench/peers/compare.py runs beside PyTorch.
wick_program(wick_peer ${PROJECT_SOURCE_DIR}/bench/peers/wick_peer.cpp)

# How kernels use memory, counted on the simulated GPU: kernel_counts softmax
if(WICK_SIM_COUNT)
  wick_program(kernel_counts ${PROJECT_SOURCE_DIR}/bench/kernel_counts.cpp)
endif()

# Memory and time of activation checkpointing: bench_recompute resnet50
wick_program(bench_recompute ${PROJECT_SOURCE_DIR}/bench/recompute_bench.cpp)

# Images per second of the loader, and what it costs a training step: bench_loader mnist
wick_program(bench_loader ${PROJECT_SOURCE_DIR}/bench/loader_bench.cpp)

# What bench/peers/images.py runs beside torchvision: bench_images train FOLDER 1
wick_program(bench_images ${PROJECT_SOURCE_DIR}/bench/images_bench.cpp)
