# What the library links. The installed package includes this file too, so that a program that
# links wick::wick finds the same libraries.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)  # libjpeg-turbo: decoding in parts is its addition
find_package(OpenSSL REQUIRED COMPONENTS Crypto)

# oneDNN's own CMake file will not do here: it wants the OpenCL headers.
function(wick_find_library target header library package)
  if(TARGET ${target})
    return()
  endif()
  find_path(WICK_${library}_INCLUDE ${header})
  find_library(WICK_${library}_LIBRARY ${library})
  mark_as_advanced(WICK_${library}_INCLUDE WICK_${library}_LIBRARY)
  if(NOT WICK_${library}_INCLUDE OR NOT WICK_${library}_LIBRARY)
    message(FATAL_ERROR "wick needs the library ${library}: install Debian's ${package}, or set "
                        "CMAKE_PREFIX_PATH to where it is.")
  endif()
  add_library(${target} UNKNOWN IMPORTED)
  set_target_properties(${target} PROPERTIES
    IMPORTED_LOCATION ${WICK_${library}_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${WICK_${library}_INCLUDE})
endfunction()

# The OpenMP runtime that the library's compiler makes code for: `gomp` (g++) or `omp` (clang). One
# parallel region in the library calls it, so that programs need no OpenMP of their own, and may be
# built by another compiler.
function(wick_find_openmp runtime)
  if(TARGET wick_deps::openmp)
    return()
  endif()
  file(GLOB hints /usr/lib/llvm-*/lib /usr/lib/gcc/*/*)
  find_library(WICK_${runtime}_LIBRARY ${runtime}
               HINTS ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES} ${hints})
  mark_as_advanced(WICK_${runtime}_LIBRARY)
  if(NOT WICK_${runtime}_LIBRARY)
    message(FATAL_ERROR "wick needs the OpenMP runtime lib${runtime}, with which it was built: "
                        "install Debian's libgomp1 and g++, or libomp-dev.")
  endif()
  add_library(wick_deps::openmp UNKNOWN IMPORTED)
  set_target_properties(wick_deps::openmp PROPERTIES IMPORTED_LOCATION ${WICK_${runtime}_LIBRARY})
endfunction()

wick_find_library(wick_deps::dnnl dnnl.hpp dnnl libdnnl-dev)
wick_find_library(wick_deps::gloo gloo/config.h gloo libgloo-dev)
