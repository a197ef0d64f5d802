#pragma once

namespace wick {

/// Runs the whole command line, `wick train`, `eval`, `tune`, `data`, `launch` and the others, with
/// main's arguments; returns the exit code. Models, data sets, optimizers and schedules that the
/// program has registered are known to it by name (nn/models/registry.h, data/catalog.h,
/// train/optimizers.h, train/run_schedule.h).
/// Prints to the standard streams, and handles SIGINT and SIGTERM while it trains.
///
///   int main(int argc, char** argv) {
///     wick::nn::register_model({.name = "mine", .lr = 1e-3, .batch_size = 64, .make = make_mine});
///     return wick::program(argc, argv);
///   }
///
/// In CMake: target_link_libraries(my_program PRIVATE wick::program).
int program(int argc, char** argv);

}  // namespace wick
