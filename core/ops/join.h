#pragma once

#include <optional>
#include <vector>

#include "wick/core/tensor.h"

namespace wick {

/// The tensors one after another along `axis`, in the dtype all can be converted to. Shapes must
/// agree on the other axes; tensors of shape [0] add nothing. Error for an empty list.
Tensor cat(const std::vector<Tensor>& tensors, int64_t axis = 0);

/// The tensors, all of one shape, along a new axis.
Tensor stack(const std::vector<Tensor>& tensors, int64_t axis = 0);

/// What stands in the margin that `pad` adds.
enum class PadMode : uint8_t {
  kConstant,
  kReflect,    // the elements next to the edge, mirrored: 3 2 [1 2 3 4] 3 2
  kReplicate,  // the edge itself: 1 1 [1 2 3 4] 4 4
  kCircular,   // the elements at the other edge: 3 4 [1 2 3 4] 1 2
};

/// `x` with a margin: `pads` holds the sizes before and after, the last axis first, as PyTorch's
/// `pad`: {left, right, top, bottom}. Negative sizes crop. `value` fills a constant margin.
Tensor pad(const Tensor& x, const std::vector<int64_t>& pads, double value = 0,
           PadMode mode = PadMode::kConstant);

/// `x` repeated `times[i]` times along axis i; more times than axes add axes in front.
Tensor repeat(const Tensor& x, const Shape& times);

/// `x` with each slice along `axis` (by default: each element of all, in a row) repeated `times`
/// times.
Tensor repeat_interleave(const Tensor& x, int64_t times, std::optional<int64_t> axis = {});
/// The same with slice k repeated times[k] times: int64 or int32, one for each or one for all.
/// Waits for the device.
Tensor repeat_interleave(const Tensor& x, const Tensor& times, std::optional<int64_t> axis = {});

/// The part of each matrix (the last two axes) on and below diagonal `diagonal`, zeros elsewhere.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
/// The part on and above diagonal `diagonal`.
Tensor triu(const Tensor& x, int64_t diagonal = 0);

/// The coordinates of what tril and triu keep of a matrix: int64 [2, count], in row-major order.
Tensor tril_indices(int64_t rows, int64_t columns, int64_t diagonal = 0, Device device = kCpu);
Tensor triu_indices(int64_t rows, int64_t columns, int64_t diagonal = 0, Device device = kCpu);

/// The order of elements reversed along `axes`.
Tensor flip(const Tensor& x, const Shape& axes);

/// Elements moved by `shift` places along `axis`, those pushed out coming in at the other end.
Tensor roll(const Tensor& x, int64_t shift, int64_t axis);

}  // namespace wick
