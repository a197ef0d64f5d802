# Installs the built library, moves the installation, and builds and runs tests/embed against it
# as a project of its own, by the library's compiler and by the other one: the preset release builds
# the library by g++, asan by clang++.
#   cmake -DBINARY_DIR= -DSOURCE_DIR= -DCXX= -DFLAGS= -DGENERATOR= -DGPU= -P embed_test.cmake
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

foreach(shown "text:embedding:int main" "own_program:training:int main"
        "arena:embedding:class Arena")
  string(REGEX MATCH "(.+):(.+):(.+)" shown ${shown})
  file(READ ${SOURCE_DIR}/tests/embed/${CMAKE_MATCH_1}.cpp program)
  string(FIND "${program}" "${CMAKE_MATCH_3}" begin)
  string(SUBSTRING "${program}" ${begin} -1 program)
  file(READ ${SOURCE_DIR}/docs/${CMAKE_MATCH_2}.md page)
  string(FIND "${page}" "```cpp\n${program}```" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "embed: docs/${CMAKE_MATCH_2}.md does not show the end of "
                        "tests/embed/${CMAKE_MATCH_1}.cpp")
  endif()
endforeach()

run(${CMAKE_COMMAND} --install ${BINARY_DIR} --prefix ${work}/installed)
file(RENAME ${work}/installed ${work}/moved)
foreach(file man/man1/wick-train.1 bash-completion/completions/wick zsh/site-functions/_wick
        fish/vendor_completions.d/wick.fish)
  file(SIZE ${work}/moved/share/${file} size)
  if(size EQUAL 0)
    message(FATAL_ERROR "embed: share/${file} is empty")
  endif()
endforeach()

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

# Builds and runs the programs by `compiler`; what else it is given goes to CMake.
function(build_and_run name compiler)
  set(build ${work}/${name})
  run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/embed -B ${build} -G ${GENERATOR}
      -DCMAKE_PREFIX_PATH=${work}/moved -DCMAKE_CXX_COMPILER=${compiler} -DCMAKE_CXX_FLAGS=${FLAGS}
      -DCMAKE_BUILD_TYPE=Release ${ARGN})
  run(${CMAKE_COMMAND} --build ${build})
  if(EXISTS ${build}/embed)
    run(${build}/embed)
  endif()
  if(EXISTS ${build}/arena)
    run(${build}/arena)
  endif()
  run(${build}/functors)
  run(${build}/seams)
  # A host with ThreadSanitizer's runtime does not export all of it to a library that is loaded.
  if(NOT FLAGS MATCHES "-fsanitize=thread")
    # A copy is another library to the loader. Those that were built before come too.
    file(COPY_FILE ${build}/libplugin.so ${build}/libcopy.so)
    file(GLOB plugins ${work}/*/lib*.so)
    # LeakSanitizer of clang 14 crashes on what threads own in a library that was loaded.
    run(${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0
        ${build}/plugin_host ${build} ${plugins})
  endif()
endfunction()

build_and_run(own ${CXX})
run(${PYTHON} ${SOURCE_DIR}/tests/embed/text_test.py ${work}/own/text)
run(${PYTHON} ${SOURCE_DIR}/tests/embed/own_program_test.py ${work}/own/own_program)
if(NOT FLAGS MATCHES "-fsanitize=" AND NOT GPU STREQUAL "cuda")
  run(${PYTHON} ${SOURCE_DIR}/tests/embed/linked_test.py ${CXX} ${work}/own ${work}/moved)
endif()

execute_process(COMMAND ${CXX} --version OUTPUT_VARIABLE version)
if(version MATCHES clang)
  find_program(other g++)
else()
  find_program(other clang++)
endif()
if(NOT other OR FLAGS MATCHES "-fsanitize=thread")  # it must see all that synchronises
  message(STATUS "embed: no programs by another compiler than ${CXX}")
elseif(FLAGS MATCHES "-fsanitize=")  # each compiler has runtimes of its own: the object is foreign
  run(${other} -std=c++20 -O0 -fPIC -I ${work}/moved/include -c ${SOURCE_DIR}/tests/embed/seams.cpp
      -o ${work}/seams.o)
  build_and_run(other ${CXX} -DSEAMS_OBJECT=${work}/seams.o -DWITHOUT_RUNS=ON)
else()
  # Nothing inlined: what both compilers make out of line, the linker keeps one copy of.
  build_and_run(other ${other} -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DWITHOUT_RUNS=ON)
endif()
