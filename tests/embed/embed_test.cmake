# Installs the built library, moves the installation, and builds and runs tests/embed against it
# as a project of its own:
#   cmake -DBINARY_DIR= -DSOURCE_DIR= -DCXX= -DFLAGS= -DGENERATOR= -DPYTHON= -P embed_test.cmake
set(work ${BINARY_DIR}/embed)
file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work})

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "embed: failed (${result}): ${ARGN}")
  endif()
endfunction()

file(READ ${SOURCE_DIR}/tests/embed/main.cpp program)
file(READ ${SOURCE_DIR}/README.md readme)
string(FIND "${readme}" "```cpp\n${program}```" at)
if(at EQUAL -1)
  message(FATAL_ERROR "embed: README.md's C++ example is not tests/embed/main.cpp")
endif()

file(READ ${SOURCE_DIR}/tests/embed/text.cpp program)
string(FIND "${program}" "int main(" begin)
string(SUBSTRING "${program}" ${begin} -1 program)
string(FIND "${readme}" "```cpp\n${program}```" at)
if(at EQUAL -1)
  message(FATAL_ERROR "embed: README.md's example of a run is not main of tests/embed/text.cpp")
endif()

run(${CMAKE_COMMAND} --install ${BINARY_DIR} --prefix ${work}/installed)
file(RENAME ${work}/installed ${work}/moved)

file(GLOB_RECURSE package_files ${work}/moved/lib*/*.cmake)
foreach(file ${package_files})
  file(READ ${file} text)
  foreach(path ${BINARY_DIR} ${SOURCE_DIR}/core ${SOURCE_DIR}/build)
    string(FIND "${text}" ${path} at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "embed: the package is not relocatable: ${file} names ${path}")
    endif()
  endforeach()
endforeach()

run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/embed -B ${work}/build -G ${GENERATOR}
    -DCMAKE_PREFIX_PATH=${work}/moved -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${FLAGS}
    -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/embed)
run(${PYTHON} ${SOURCE_DIR}/tests/embed/text_test.py ${work}/build/text)
run(${PYTHON} ${SOURCE_DIR}/tests/embed/own_program_test.py ${work}/build/own_program)
