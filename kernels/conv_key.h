#pragma once

#include <array>

#include "wick/core/base/deterministic.h"
#include "wick/core/base/tf32.h"
#include "wick/kernels/conv.h"

namespace wick {

/// All that the choice of a convolution's plan depends on, for tables.
struct ConvKey {
  std::array<int64_t, 26> values = {};

  ConvKey(Device device, const Conv2dProblem& problem) {
    const Conv2dParams& p = problem.params;
    values = {static_cast<int64_t>(device.type),
              device.index,
              static_cast<int64_t>(problem.direction),
              static_cast<int64_t>(problem.dtype),
              allow_tf32(),
              deterministic(),
              p.stride[0],
              p.stride[1],
              p.padding[0],
              p.padding[1],
              p.dilation[0],
              p.dilation[1],
              p.groups};
    size_t next = 13;
    for (const Shape* shape : {&problem.x, &problem.weight, &problem.y}) {
      for (const int64_t size : *shape) values[next++] = size;
    }
  }
  friend bool operator==(const ConvKey&, const ConvKey&) = default;
};

struct HashOfConvKey {
  size_t operator()(const ConvKey& key) const {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const int64_t v : key.values) hash = (hash ^ static_cast<uint64_t>(v)) * 0x100000001b3u;
    return static_cast<size_t>(hash ^ hash >> 32);
  }
};

}  // namespace wick
