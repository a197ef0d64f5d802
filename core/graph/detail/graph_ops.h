#pragma once

#include "wick/core/apply.h"
#include "wick/core/ops/view.h"

// What graphs hold beside the ops that programs apply. They never pass the door on their own.
namespace wick::graph {

/// A view on the memory of the input that was made outside the door: `offset` counts elements from
/// the input's first one, as inputs of a run may lie elsewhere in their memory.
struct Alias {
  static constexpr OpInfo info{.name = "alias", .view = true, .differentiable = false};
  int64_t offset = 0;
  Shape shape;
  Strides strides;
  static constexpr auto fields =
      std::tuple{field("offset", &Alias::offset), field("shape", &Alias::shape),
                 field("strides", &Alias::strides)};

  Tensor forward(Saved&, const Tensor& base) const;
};

/// Uninitialised memory.
struct Empty {
  static constexpr OpInfo info{.name = "empty", .differentiable = false};
  Shape shape;
  Strides strides;
  Dtype dtype = Dtype::kFloat32;
  Device device;
  static constexpr auto fields =
      std::tuple{field("shape", &Empty::shape), field("strides", &Empty::strides),
                 field("dtype", &Empty::dtype), field("device", &Empty::device)};

  std::vector<Tensor> forward(Saved&, std::span<const Tensor> inputs) const;
};

const OpType& alias_type();
const OpType& empty_type();

}  // namespace wick::graph
