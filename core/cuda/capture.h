#pragma once

#include <cstdint>

#include "wick/core/base/device.h"

// What CudaGraph calls of the CUDA runtime.
namespace wick::cuda {

/// A stream that nobody else uses until it is given back: what others queue on a stream while it is
/// captured would become part of the graph.
Stream take_capture_stream(Device device);
void give_back_capture_stream(Stream stream) noexcept;

/// From here on what is queued on `stream` becomes part of a graph, and does not run. Calls of this
/// thread that would wait or change memory fail; those of other threads do not matter.
void begin_capture(Stream stream);
/// Ends it and returns the graph, ready to be launched; `nodes` gets the number of its pieces.
void* end_capture(Stream stream, int64_t* nodes);
/// Ends it without a graph.
void abandon_capture(Stream stream) noexcept;

void launch_graph(void* graph, Stream stream);
/// Launches that are under way end as they would.
void delete_graph(void* graph) noexcept;

}  // namespace wick::cuda
