# The simulated GPU: the CUDA sources, built by the host's compiler against kernels/sim.
find_path(WICK_BOOST_INCLUDE boost/context/detail/fcontext.hpp)
find_library(WICK_BOOST_CONTEXT boost_context)
mark_as_advanced(WICK_BOOST_INCLUDE WICK_BOOST_CONTEXT)
if(NOT WICK_BOOST_INCLUDE OR NOT WICK_BOOST_CONTEXT)
  message(FATAL_ERROR "WICK_GPU=sim needs Boost.Context: install Debian's libboost-context-dev.")
endif()

file(GLOB sim_sources CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cpp
     ${PROJECT_SOURCE_DIR}/kernels/sim/*.cpp ${PROJECT_SOURCE_DIR}/core/cuda/*.cpp
     ${PROJECT_SOURCE_DIR}/dist/detail/nccl.cpp ${PROJECT_SOURCE_DIR}/dist/detail/nccl_api.cpp)
wick_optim_sources(optim_kernels kernels/cuda/optim.cu.in)
list(APPEND sim_sources ${optim_kernels})
set(WICK_HAS_NCCL ON)
set_source_files_properties(${PROJECT_SOURCE_DIR}/core/profile/activities.cpp PROPERTIES
                            COMPILE_DEFINITIONS WICK_HAS_CUPTI=1)
# The vendor's libraries; what stands for them is in kernels/sim.
list(FILTER sim_sources EXCLUDE REGEX "/kernels/cuda/(cublaslt|cudnn)")
add_library(wick_sim OBJECT ${sim_sources} ${wick_runtime_headers})
set_target_properties(wick_sim PROPERTIES POSITION_INDEPENDENT_CODE ON)
wick_options(wick_sim)
target_compile_definitions(wick_sim PRIVATE WICK_HAS_CUDA=1 WICK_SIM=1 ${WICK_CPU_DEFINITIONS})
target_include_directories(wick_sim SYSTEM PRIVATE ${WICK_BOOST_INCLUDE})
# What calls back at every load and store, for kernels/sim/count.h. A vector would be one access.
option(WICK_SIM_COUNT "Let the simulated GPU count what kernels do with memory" OFF)
set(WICK_SIM_COUNT_OPTIONS -fsanitize-coverage=func,trace-loads,trace-stores
    -fno-vectorize -fno-slp-vectorize)
set(kernel_options -xc++)
if(WICK_SIM_COUNT)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "WICK_SIM_COUNT needs clang: use the preset count.")
  endif()
  list(APPEND kernel_options ${WICK_SIM_COUNT_OPTIONS} -DWICK_SIM_COUNT=1)
endif()
# Indices that wrap or lose bits are legal C++. tests/kernels/boundary looks for them: there they
# end the program, elsewhere they are printed.
if(CMAKE_CXX_COMPILER_ID MATCHES Clang AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=address")
  string(JOIN "," integer_checks unsigned-integer-overflow implicit-unsigned-integer-truncation
         implicit-signed-integer-truncation implicit-integer-sign-change)
  list(APPEND kernel_options -fsanitize=${integer_checks} -fsanitize-recover=${integer_checks})
endif()
# What stands for NVRTC compiles kernels as these are compiled.
string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
string(JOIN " " flags ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${config}} ${kernel_options} -w
       -std=c++20 -march=x86-64-v3 -shared -fPIC -fvisibility=hidden -DWICK_SIM=1 -DWICK_HAS_CUDA=1)
set_source_files_properties(
  ${PROJECT_SOURCE_DIR}/kernels/sim/nvrtc.cpp PROPERTIES COMPILE_DEFINITIONS
  "WICK_SIM_COMPILER=\"${CMAKE_CXX_COMPILER}\";WICK_SIM_FLAGS=\"${flags}\"")
foreach(source ${sim_sources})
  if(source MATCHES "\\.cu$")
    set_source_files_properties(${source} PROPERTIES
                                LANGUAGE CXX COMPILE_OPTIONS "${kernel_options}")
  endif()
endforeach()
# What ThreadSanitizer watches are the kernels, not how they are run.
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
  file(GLOB simulator CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/sim/*.cpp)
  set_source_files_properties(${simulator} PROPERTIES
                              COMPILE_OPTIONS "-fno-sanitize=thread;-DWICK_SIM_TSAN=1")
endif()
target_sources(wick_archive PRIVATE $<TARGET_OBJECTS:wick_sim>)
target_compile_definitions(wick_archive PUBLIC WICK_SIM=1)
target_link_libraries(wick_archive PRIVATE ${WICK_BOOST_CONTEXT})
# What such kernels call of the simulator.
target_link_options(wick_archive INTERFACE "LINKER:--export-dynamic-symbol=_ZN4wick3sim*")
if(WICK_SIM_COUNT)
  target_link_options(wick_archive INTERFACE "LINKER:--export-dynamic-symbol=__sanitizer_cov*")
endif()
