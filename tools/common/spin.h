#pragma once

namespace wick::tool {

/// The GOMP_SPINCOUNT that the programs give themselves.
inline constexpr const char* kSpinCount = "1000";

/// Starts this process again with kSpinCount, unless the environment says how long OpenMP's threads
/// spin while they wait for each other. By default it is so long (with GCC's runtime some 10 ms at
/// a time) that a machine with other work to do loses most of its speed. The runtime reads the
/// environment when the process starts. To be called before anything else is done.
void spin_briefly(char** argv);

}  // namespace wick::tool
