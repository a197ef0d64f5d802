#pragma once

#include <string>
#include <vector>

namespace wick::cuda {

/// A header that sources compiled at run time may include, by this name.
struct RuntimeHeader {
  std::string name, text;
};

/// Those of Wick that kernels/cuda/common/chain.h needs, as they were when Wick was built.
const std::vector<RuntimeHeader>& runtime_headers();

/// What of C++'s own headers these need: NVRTC has none.
const std::vector<RuntimeHeader>& standard_headers();

}  // namespace wick::cuda
