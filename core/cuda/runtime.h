#pragma once

#include <cstddef>
#include <string>

#include "wick/core/stream.h"

// What the rest of core calls of the CUDA runtime, without CUDA's headers: handles are void*.
namespace wick::cuda {

int device_count();
std::string why_no_device();
DeviceProperties properties(Device device);

/// Makes `device` the one that this thread's calls mean; returns the number of the one before.
int enter(Device device);
/// Makes GPU `index` that one again. For destructors: says nothing of a failure.
void go_back(int index) noexcept;

Stream stream_from_pool(Device device, bool high_priority);
void synchronize(Stream stream);
void synchronize(Device device);

void* new_event(Device device, bool timing);
void delete_event(Device device, void* event);
void record_event(void* event, Stream stream);
void block_on_event(Stream stream, void* event);
bool event_done(void* event);
void wait_for_event(void* event);
double elapsed_ms(void* start, void* end);

/// Copies `bytes` to or from GPU `stream.device` behind the stream's work. The host may go on at
/// once; whoever is to change or read its side waits for the stream.
void copy_bytes(void* to, const void* from, size_t bytes, Stream stream);
/// Copies `bytes` from one GPU to another, whatever their memory is, behind the stream's work.
void copy_between(void* to, Device target, const void* from, Device source, size_t bytes,
                  Stream stream);

}  // namespace wick::cuda
