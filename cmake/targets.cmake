# Compile options of this project's own targets. Consumers see none of them.
set(WICK_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align
    -Wcast-qual -Wvla -Wundef -Wmissing-declarations)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  list(APPEND WICK_WARNINGS -Wmissing-prototypes -Wno-missing-braces)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms on string concatenation, and on variants that are moved.
  list(APPEND WICK_WARNINGS -Wno-restrict -Wno-maybe-uninitialized)
endif()
if(WICK_WERROR)
  list(APPEND WICK_WARNINGS -Werror)
endif()

# g++ makes what templates and inline functions keep one in the whole process, even for plugins that
# are loaded apart from each other. Two plugins would share lists of ops, and what threads own.
set(WICK_NOT_UNIQUE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)

# Sets warnings, the include path and the baseline instruction set of `target`.
function(wick_options target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF UNITY_BUILD_BATCH_SIZE 20)
  # Objects name files from the root of the tree on, so clones can share a compiler cache.
  target_compile_options(${target} PRIVATE ${WICK_WARNINGS} -march=x86-64-v3 ${WICK_NOT_UNIQUE}
                         $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>
                         $<$<COMPILE_LANGUAGE:CXX>:-fvisibility-inlines-hidden>
                         $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/include)
endfunction()

# Headers that the sources of `target` share are parsed once, or were for another target. clang's
# presets go without, so that each source has to include what it uses. Not for what is compiled by
# -O3: g++ 12 forgets then that std::string is the system's, and warns of it.
#   wick_precompile(TARGET HEADER...)   or   wick_precompile(TARGET REUSE_FROM OTHER-TARGET)
function(wick_precompile target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    if(NOT ARGV1 STREQUAL "REUSE_FROM")
      list(PREPEND ARGN PRIVATE)
    endif()
    target_precompile_headers(${target} ${ARGN})
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()

# Makes the program `target` from sources, linked to the library.
function(wick_program target)
  add_executable(${target} ${ARGN})
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/sanitizers.cpp)
  endif()
  wick_options(${target})
  target_link_libraries(${target} PRIVATE wick::wick)
endfunction()

# find_package(name), or an error that says which Debian package has it.
macro(wick_find_package name package)
  find_package(${name} QUIET)
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "wick needs ${name} for this build: install Debian's ${package}.")
  endif()
endmacro()

# Adds the file `path` to `definitions` as the string `name`.
macro(wick_embed_file name path)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
  file(READ ${path} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND definitions
         "static const unsigned char ${name}Bytes[] = {${bytes}};\n"
         "const std::string_view ${name}(reinterpret_cast<const char*>(${name}Bytes),\n"
         "                               sizeof ${name}Bytes);\n")
endmacro()
