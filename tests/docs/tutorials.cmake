# The programs of docs/tutorials, each a test that compares what a program prints with its page.
set(tutorials_script ${WICK_TEST_ROOT}/docs/tutorials.py)
add_test(NAME tutorials_self_test COMMAND Python3::Interpreter ${tutorials_script} --self-test)

file(GLOB tutorial_pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/tutorials/*.md)
set_property(DIRECTORY APPEND PROPERTY
             CMAKE_CONFIGURE_DEPENDS ${tutorial_pages} ${tutorials_script})
foreach(page ${tutorial_pages})
  get_filename_component(name ${page} NAME_WE)
  set(folder ${PROJECT_BINARY_DIR}/tutorials/${name})
  execute_process(COMMAND ${Python3_EXECUTABLE} ${tutorials_script} extract ${page} ${folder}
                  COMMAND_ERROR_IS_FATAL ANY)
  wick_program(tutorial_${name} ${folder}/${name}.cpp)
  target_compile_options(tutorial_${name} PRIVATE ${WICK_TEST_FLAGS} -Wno-missing-declarations
                         $<$<CXX_COMPILER_ID:Clang>:-Wno-missing-prototypes>)
  set(words $<TARGET_FILE:tutorial_${name}>)
  if(name STREQUAL "fine_tuning")  # which begins with the weights of a run
    set(words ${WICK_TEST_ROOT}/docs/fine_tuning.sh $<TARGET_FILE:wick_cli> ${words})
  elseif(name STREQUAL "host_application")
    list(APPEND words $<TARGET_FILE:tutorial_plugin>)
  endif()
  if(NOT name STREQUAL "fine_tuning" OR TARGET wick_cli)
    add_test(NAME tutorial_${name}
             COMMAND Python3::Interpreter ${tutorials_script} run ${page} ${words})
    set_tests_properties(tutorial_${name} PROPERTIES ENVIRONMENT OMP_NUM_THREADS=1)
  endif()
endforeach()

add_library(tutorial_plugin MODULE
            ${PROJECT_BINARY_DIR}/tutorials/host_application/trainer_plugin.cpp)
wick_options(tutorial_plugin)
target_link_libraries(tutorial_plugin PRIVATE wick::wick)
target_link_libraries(tutorial_host_application PRIVATE ${CMAKE_DL_LIBS})

set(wick_GPU ${WICK_GPU})
include(${PROJECT_SOURCE_DIR}/cmake/functors.cmake)
wick_functors(tutorial_custom_op ${PROJECT_BINARY_DIR}/tutorials/custom_op/mish.h UNARY OwnMish)
