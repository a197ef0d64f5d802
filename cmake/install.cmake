# The package: find_package(wick) gives wick::wick. Nothing in it holds an absolute path.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/wick)

install(TARGETS wick wick_archive EXPORT wick_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT wick)
install(EXPORT wick_targets NAMESPACE wick:: FILE wickTargets.cmake
        DESTINATION ${package_dir} COMPONENT wick)
foreach(folder core nn optim data dist train)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} COMPONENT wick
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/wick
          FILES_MATCHING PATTERN "*.h"
          PATTERN detail EXCLUDE PATTERN core/cuda EXCLUDE)
endforeach()
install(FILES ${WICK_GENERATED}/wick/optim/optim.h COMPONENT wick
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/wick/optim)
# The only kernels' headers that public ones include, and those that wick_functors() compiles.
set(functor_headers elementwise_chain loop_nest cpu/chain_link cpu/elementwise_loop
    cpu/simd cpu/simd_math)
if(NOT WICK_GPU STREQUAL "off")
  list(APPEND functor_headers cuda/elementwise_loop)
  foreach(header check convert device_code enter_device functor_call launch offsets quick_math
                 real vector_access)
    list(APPEND functor_headers cuda/common/${header})
  endforeach()
endif()
if(WICK_GPU STREQUAL "sim")
  list(APPEND functor_headers sim/cuda_runtime sim/device_code sim/geometry sim/simulator)
endif()
foreach(header conv declare elementwise elementwise_ops engine optim plan_key random
        ${functor_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/kernels/${header}.h COMPONENT wick
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/wick/kernels/${folder})
endforeach()
install(FILES wick.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/wick COMPONENT wick)

# find_package(wick COMPONENTS program) gives wick::program too: the command line as a library.
if(TARGET wick_command)
  install(FILES program.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/wick COMPONENT wick)
  install(TARGETS wick_command wick_tool_common EXPORT wick_program_targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT wick)
  install(EXPORT wick_program_targets NAMESPACE wick:: FILE wickProgramTargets.cmake
          DESTINATION ${package_dir} COMPONENT wick)
endif()

# find_package(wick COMPONENTS onnx) gives wick::onnx too.
if(TARGET wick_onnx)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/onnx COMPONENT wick
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/wick
          FILES_MATCHING PATTERN "*.h" PATTERN detail EXCLUDE)
  install(TARGETS wick_onnx EXPORT wick_onnx_targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT wick)
  install(EXPORT wick_onnx_targets NAMESPACE wick:: FILE wickOnnxTargets.cmake
          DESTINATION ${package_dir} COMPONENT wick)
endif()

configure_package_config_file(cmake/wickConfig.cmake.in ${PROJECT_BINARY_DIR}/wickConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/wickConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/wickConfig.cmake ${PROJECT_BINARY_DIR}/wickConfigVersion.cmake
              cmake/dependencies.cmake cmake/functors.cmake
        DESTINATION ${package_dir} COMPONENT wick)
