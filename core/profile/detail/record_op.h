#pragma once

#include <span>

#include "wick/core/apply.h"
#include "wick/core/profile/span.h"

namespace wick::profile {

/// Tells `span` what an op did: `node` is its place in the graph, null where it is not recorded.
void note_op(Span& span, const OpType& type, const void* op, std::span<const Tensor> inputs,
             std::span<const Tensor> outputs, const Node* node);

/// Tells `span` whose backward it is.
void note_backward(Span& span, const Node& node);

}  // namespace wick::profile
