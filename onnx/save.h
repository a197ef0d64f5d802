#pragma once

#include <string>

#include "wick/core/graph/graph.h"

namespace wick::onnx {

/// Writes a graph that graph::trace() made of an inference call as an ONNX model of opset 17.
/// Inputs are named input0, input1, ..., results output0, output1, ... Constants are initializers,
/// by the names that the trace was given. Error, and nothing written, for an op without an ONNX
/// form, which the error names, and for a model of 2 GB or more.
void save(const graph::Graph& graph, const std::string& path);

}  // namespace wick::onnx
