# The library: wick_archive holds the objects; wick (alias wick::wick) is what others link. Ops
# register themselves when their object file is loaded, and a linker drops the files of an archive
# that nothing names: so wick links the archive whole.
wick_find_package(Eigen3 libeigen3-dev)
get_target_property(WICK_EIGEN_INCLUDE Eigen3::Eigen INTERFACE_INCLUDE_DIRECTORIES)
find_package(nlohmann_json REQUIRED)
get_target_property(WICK_JSON_INCLUDE nlohmann_json::nlohmann_json INTERFACE_INCLUDE_DIRECTORIES)

file(GLOB_RECURSE sources CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/core/*.cpp ${PROJECT_SOURCE_DIR}/nn/*.cpp
     ${PROJECT_SOURCE_DIR}/optim/*.cpp ${PROJECT_SOURCE_DIR}/data/*.cpp
     ${PROJECT_SOURCE_DIR}/dist/*.cpp ${PROJECT_SOURCE_DIR}/train/*.cpp)
list(FILTER sources EXCLUDE REGEX "/core/cuda/|/dist/detail/nccl")
file(GLOB kernel_sources CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/kernels/*.cpp
     ${PROJECT_SOURCE_DIR}/kernels/cpu/products/*.cpp)
# The same bytes from every compiler, and vectors: no multiply-add is fused, no exception flag read.
set_source_files_properties(${PROJECT_SOURCE_DIR}/data/image_ops_color.cpp PROPERTIES
  COMPILE_OPTIONS "-ffp-contract=off;-fno-trapping-math")
# Code is compiled to be small, unless a training step runs it often or it loops over elements.
set(small_sources ${sources})
foreach(fast
    "core/(amp|apply|autograd|graph_walk|random|sparse_rows|storage|stream|tensor)[.]"
    "core/(base/(detail|parallel|shape)|graph/(arena|executor|fused)|memory/(alloc|detail|streams))"
    "core/ops/(activation|batch|conv[.]|copy|cross|detail|elementwise[.]|fused|index|join|layer)"
    "core/ops/(lin|loss|matmul|max_pool|members|pool|random|reduce|rnn|slice|softmax|view)"
    "core/profile/session|dist/detail/reduction|optim/(adam|optimizer|sgd)[.]"
    "data/(augment|batch|detail|image_(device|ops)|loader|packed|resize|sha256|shapes|transforms.)")
  list(FILTER small_sources EXCLUDE REGEX "/(${fast})")
endforeach()
list(REMOVE_ITEM sources ${small_sources})
add_library(wick_fast OBJECT ${sources} ${kernel_sources})
# A linker keeps the first copy of an inline function: so fast objects come first.
add_library(wick_archive STATIC $<TARGET_OBJECTS:wick_fast> ${small_sources})
set_target_properties(wick_archive PROPERTIES OUTPUT_NAME wick EXPORT_NAME archive)
set_target_properties(wick_archive wick_fast PROPERTIES POSITION_INDEPENDENT_CODE ON)
wick_options(wick_archive)
wick_options(wick_fast)
target_compile_options(wick_archive PRIVATE $<$<CONFIG:Release>:-Os>)
target_compile_options(wick_archive INTERFACE ${WICK_NOT_UNIQUE})
target_compile_definitions(wick_fast PRIVATE $<TARGET_PROPERTY:wick_archive,COMPILE_DEFINITIONS>)
target_include_directories(wick_fast PRIVATE $<TARGET_PROPERTY:wick_archive,INCLUDE_DIRECTORIES>)
target_include_directories(wick_fast SYSTEM PRIVATE ${WICK_EIGEN_INCLUDE} ${WICK_JSON_INCLUDE})
target_compile_features(wick_archive PUBLIC cxx_std_20)
target_include_directories(wick_archive PUBLIC
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
  $<BUILD_INTERFACE:${WICK_GENERATED}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_include_directories(wick_archive SYSTEM PRIVATE ${WICK_EIGEN_INCLUDE} ${WICK_JSON_INCLUDE})
target_link_libraries(wick_archive PRIVATE
  Threads::Threads JPEG::JPEG PNG::PNG ZLIB::ZLIB)

# The optimizers' rules, which are in a header each: makes a source of `template` for each of them.
function(wick_optim_sources result template)
  file(GLOB rules CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/optim/*.h)
  string(REGEX REPLACE ".*(\\.[a-z]+)\\.in$" "\\1" extension ${template})
  set(sources)
  foreach(rule ${rules})
    get_filename_component(RULE ${rule} NAME_WE)
    set(source ${WICK_GENERATED}/optim/${RULE}${extension})
    configure_file(${PROJECT_SOURCE_DIR}/${template} ${source} @ONLY)
    list(APPEND sources ${source})
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# Hand-written kernels: the same files once per instruction set, each in its own namespace, Eigen
# included.
file(GLOB isa_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cpu/*.cpp)
wick_optim_sources(optim_sources kernels/cpu/optim.cpp.in)
list(APPEND isa_sources ${optim_sources})
function(wick_isa name)
  set(target wick_cpu_${name})
  add_library(${target} OBJECT ${isa_sources})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  wick_options(${target})
  set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 8)
  # Kernels read neither errno nor exception flags; without them sqrt and selections vectorise.
  # Multiply-adds are fused where the source says so: else bits would depend on what is inlined.
  target_compile_options(${target} PRIVATE ${ARGN} -fno-math-errno -fno-trapping-math
                         -ffp-contract=off)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release")
    # As fast as -O3, in less time and fewer bytes; files that -O3 makes faster have it.
    target_compile_options(${target} PRIVATE -O2 -ftree-vectorize -fvect-cost-model=dynamic
                           -fpeel-loops -funswitch-loops -fversion-loops-for-strides)
    foreach(file IN ITEMS ctc index interpolate random reduce)
      set_source_files_properties(${PROJECT_SOURCE_DIR}/kernels/cpu/${file}.cpp PROPERTIES
                                  COMPILE_OPTIONS -O3)
    endforeach()
  endif()
  target_compile_definitions(${target} PRIVATE WICK_ISA=cpu_${name} Eigen=Eigen_${name})
  target_include_directories(${target} SYSTEM PRIVATE ${WICK_EIGEN_INCLUDE})
  target_sources(wick_archive PRIVATE $<TARGET_OBJECTS:${target}>)
endfunction()
if(isa_sources)
  # With sanitizers they take long to compile, and tests run one of them: this machine's best.
  file(STRINGS /proc/cpuinfo processor_flags REGEX "^flags" LIMIT_COUNT 1)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize" AND processor_flags MATCHES " avx512vl( |$)")
    set(WICK_CPU_DEFINITIONS WICK_WITHOUT_AVX2=1)
    target_compile_definitions(wick_archive PUBLIC ${WICK_CPU_DEFINITIONS})
  else()
    wick_isa(avx2 -march=x86-64-v3)
  endif()
  wick_isa(avx512 -march=x86-64-v4 -mprefer-vector-width=512)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize" AND NOT WICK_CPU_DEFINITIONS)  # not run here
    target_compile_options(wick_cpu_avx512 PRIVATE -fno-sanitize=all)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # it misjudges its own AVX-512 intrinsics
    target_compile_options(wick_cpu_avx512 PRIVATE -Wno-maybe-uninitialized -Wno-uninitialized)
  endif()
endif()

if(NOT WICK_GPU STREQUAL "off")
  target_compile_definitions(wick_archive PUBLIC WICK_HAS_CUDA=1)
  include(${PROJECT_SOURCE_DIR}/cmake/runtime_headers.cmake)
  include(${PROJECT_SOURCE_DIR}/kernels/${WICK_GPU}/${WICK_GPU}.cmake)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/kernels/cuda/runtime_compiler.cpp PROPERTIES
                              COMPILE_DEFINITIONS WICK_VERSION="${PROJECT_VERSION}")
endif()
if(NOT WICK_HAS_NCCL)
  target_sources(wick_archive PRIVATE ${PROJECT_SOURCE_DIR}/dist/detail/nccl_absent.cpp)
endif()

add_library(wick INTERFACE)
add_library(wick::wick ALIAS wick)
add_library(wick::archive ALIAS wick_archive)
target_link_libraries(wick INTERFACE $<LINK_LIBRARY:WHOLE_ARCHIVE,$<TARGET_NAME:wick_archive>>)
