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
# The only kernels' headers that public ones include.
foreach(header conv declare engine optim plan_key random)
  install(FILES ${PROJECT_SOURCE_DIR}/kernels/${header}.h COMPONENT wick
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/wick/kernels)
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

configure_package_config_file(cmake/wickConfig.cmake.in ${PROJECT_BINARY_DIR}/wickConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/wickConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/wickConfig.cmake ${PROJECT_BINARY_DIR}/wickConfigVersion.cmake
              cmake/dependencies.cmake
        DESTINATION ${package_dir} COMPONENT wick)
