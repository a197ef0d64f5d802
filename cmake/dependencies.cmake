# What the library links. The installed package includes this file too, so that a program that
# links wick::wick finds the same libraries.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)  # libjpeg-turbo: decoding in parts is its addition

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
