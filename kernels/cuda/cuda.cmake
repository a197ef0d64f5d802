# The CUDA side, for NVIDIA GPUs: kernels by nvcc, the rest by the host's compiler. cudart is linked
# statically; the libraries of the toolkit are opened when first needed.
find_program(WICK_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
             PATH_SUFFIXES bin)
if(NOT WICK_NVCC)
  message(FATAL_ERROR "WICK_GPU=cuda needs NVIDIA's CUDA toolkit (nvcc): install it, or set "
                      "CUDA_HOME to where it is. WICK_GPU=sim needs none.")
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${WICK_NVCC})
endif()
if(NOT CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
endif()
# For the GPUs of this machine, or for two generations where there is none.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE capability ERROR_QUIET RESULT_VARIABLE failed)
  string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${capability}")
  if(failed EQUAL 0 AND capabilities)
    string(REPLACE "." "" capabilities "${capabilities}")
    list(REMOVE_DUPLICATES capabilities)
    set(CMAKE_CUDA_ARCHITECTURES ${capabilities})
  else()
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
endif()
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

file(GLOB cuda_kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu)
wick_optim_sources(optim_kernels kernels/cuda/optim.cu.in)
add_library(wick_cuda_kernels OBJECT ${cuda_kernels} ${optim_kernels})
# The dialect by hand: CMake 3.25 does not know that nvcc 13 has it.
# Kernels' checks of indices stay in a release build.
target_compile_options(wick_cuda_kernels PRIVATE -std=c++20 --expt-relaxed-constexpr -UNDEBUG
  $<$<BOOL:${WICK_WERROR}>:-Werror=all-warnings> -Xcompiler=-march=x86-64-v3
  $<$<CXX_COMPILER_ID:GNU>:-Xcompiler=-fno-gnu-unique>)
target_compile_definitions(wick_cuda_kernels PRIVATE WICK_HAS_CUDA=1)
target_include_directories(wick_cuda_kernels PRIVATE ${PROJECT_BINARY_DIR}/include)

file(GLOB cuda_sources CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cpp ${PROJECT_SOURCE_DIR}/core/cuda/*.cpp)
find_path(WICK_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
mark_as_advanced(WICK_NCCL_INCLUDE)
if(WICK_NCCL_INCLUDE)
  set(WICK_HAS_NCCL ON)
  list(APPEND cuda_sources ${PROJECT_SOURCE_DIR}/dist/detail/nccl.cpp
       ${PROJECT_SOURCE_DIR}/dist/detail/nccl_api.cpp)
else()
  message(STATUS "NCCL's header nccl.h was not found: GPUs of several ranks will exchange tensors "
                 "through the host's memory")
endif()
find_path(WICK_CUPTI_INCLUDE cupti.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
          ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI/include)
mark_as_advanced(WICK_CUPTI_INCLUDE)
if(NOT WICK_CUPTI_INCLUDE)
  list(FILTER cuda_sources EXCLUDE REGEX "/core/cuda/cupti")
  message(STATUS "CUPTI's header cupti.h was not found: the profiler will take the times of "
                 "kernels by events")
endif()
add_library(wick_cuda OBJECT ${cuda_sources} ${wick_runtime_headers})
# One by one, as tools/compile_kernels.py checks them: kernels have many names in common.
set_target_properties(wick_cuda_kernels wick_cuda PROPERTIES
                      POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
wick_options(wick_cuda)
target_compile_definitions(wick_cuda PRIVATE WICK_HAS_CUDA=1)
target_include_directories(wick_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
if(WICK_HAS_NCCL)
  target_include_directories(wick_cuda SYSTEM PRIVATE ${WICK_NCCL_INCLUDE})
endif()

if(WICK_CUPTI_INCLUDE)
  target_include_directories(wick_cuda SYSTEM PRIVATE ${WICK_CUPTI_INCLUDE})
  set_source_files_properties(${PROJECT_SOURCE_DIR}/core/profile/activities.cpp PROPERTIES
                              COMPILE_DEFINITIONS WICK_HAS_CUPTI=1)
endif()

target_sources(wick_archive PRIVATE $<TARGET_OBJECTS:wick_cuda_kernels> $<TARGET_OBJECTS:wick_cuda>)
target_compile_definitions(wick_archive PRIVATE WICK_NVTX=1)
target_link_libraries(wick_archive PRIVATE CUDA::cudart_static)
