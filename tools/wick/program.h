#pragma once

namespace wick {

/// Runs the whole command line: `wick train`, `eval`, `tune`, `data`, `launch` and the others, with
/// main's arguments. Returns the exit code. May start the process again, to set the environment of
/// OpenMP; prints to the standard streams; handles SIGINT and SIGTERM while it trains.
///
///   int main(int argc, char** argv) { return wick::program(argc, argv); }
int program(int argc, char** argv);

}  // namespace wick
