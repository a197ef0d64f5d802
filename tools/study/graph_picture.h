#pragma once

#include <string>

#include "wick/core/graph/graph.h"

namespace wick::study {

/// A graph as SVG, of a class "graph": a line of text for each input, op and result, and lines that
/// lead from each value to the ops that read it. Constants are left out.
std::string graph_picture(const graph::Graph& graph);

}  // namespace wick::study
