# What the programs share: child processes, signals, exit codes, words of the command line, the line
# of progress, statistics of measurements.
wick_find_package(CLI11 libcli11-dev)
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/common/*.cpp)
add_library(wick_tool_common STATIC ${sources})
wick_options(wick_tool_common)
# Quicker to build; what takes time when it runs is in the library.
target_compile_options(wick_tool_common PRIVATE $<$<CONFIG:Release>:-O1>)
wick_find_package(fmt libfmt-dev)
wick_find_package(nlohmann_json nlohmann-json3-dev)
target_link_libraries(wick_tool_common PUBLIC wick::wick CLI11::CLI11
                      PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
wick_precompile(wick_tool_common <CLI/CLI.hpp> <nlohmann/json.hpp> <wick/wick.h>)
