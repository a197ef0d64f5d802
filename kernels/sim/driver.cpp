#include <sys/mman.h>

#include <cstring>

#include "wick/kernels/sim/cuda_driver.h"
#include "wick/kernels/sim/machine.h"

// The entry points of the CUDA driver: addresses without memory cannot be touched, and memory lives
// as long as its handle or a mapping does.

namespace {

constexpr size_t kGranule = size_t{2} << 20;
constexpr int kAddresses = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

using wick::sim::Machine;
using wick::sim::SimulatedPiece;

void* pointer_to(CUdeviceptr address) { return reinterpret_cast<void*>(uintptr_t(address)); }

// The reservation that holds all of the range.
bool is_reserved(const Machine& m, uintptr_t address, size_t bytes) {
  auto after = m.reserved.upper_bound(address);
  if (after == m.reserved.begin()) return false;
  --after;
  return address + bytes <= after->first + after->second;
}

bool overlaps_mapping(const Machine& m, uintptr_t address, size_t bytes) {
  for (const auto& [handle, piece] : m.pieces) {
    if (piece.address != 0 && piece.address < address + bytes &&
        address < piece.address + piece.bytes) {
      return true;
    }
  }
  return false;
}

void drop_if_unused(Machine& m, unsigned long long handle) {
  const auto found = m.pieces.find(handle);
  const SimulatedPiece& piece = found->second;
  if (piece.held || piece.address != 0) return;
  m.devices[size_t(piece.device)]->used -= piece.bytes;
  m.pieces.erase(found);
}

}  // namespace

CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = cudaGetErrorName(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
  WICK_SIM_ENTER_DRIVER("cuDeviceGetAttribute");
  *value = 1;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr,
                             unsigned long long) {
  WICK_SIM_ENTER_DRIVER("cuMemAddressReserve");
  if (bytes == 0 || bytes % kGranule != 0) return CUDA_ERROR_INVALID_VALUE;
  void* const pages = mmap(nullptr, bytes + kGranule, PROT_NONE, kAddresses, -1, 0);
  if (pages == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  auto* const begin = static_cast<char*>(pages);
  const size_t before = (kGranule - reinterpret_cast<uintptr_t>(begin) % kGranule) % kGranule;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + bytes, kGranule - before);
  *address = reinterpret_cast<uintptr_t>(begin + before);
  m.reserved[uintptr_t(*address)] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  WICK_SIM_ENTER_DRIVER("cuMemAddressFree");
  const auto found = m.reserved.find(uintptr_t(address));
  if (found == m.reserved.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  if (overlaps_mapping(m, uintptr_t(address), bytes)) return CUDA_ERROR_INVALID_VALUE;
  m.reserved.erase(found);
  munmap(pointer_to(address), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long) {
  WICK_SIM_ENTER_DRIVER("cuMemCreate");
  const int device = properties->location.id;
  if (device < 0 || device >= int(m.devices.size())) return CUDA_ERROR_INVALID_DEVICE;
  if (bytes == 0 || bytes % kGranule != 0) return CUDA_ERROR_INVALID_VALUE;
  if (m.malloc_countdown == 1) return CUDA_ERROR_OUT_OF_MEMORY;
  if (m.malloc_countdown > 1) --m.malloc_countdown;
  wick::sim::SimulatedDevice& owner = *m.devices[size_t(device)];
  if (bytes > owner.capacity - owner.used) return CUDA_ERROR_OUT_OF_MEMORY;
  owner.used += bytes;
  *handle = ++m.last_piece;
  m.pieces[*handle] = {bytes, device, 0, true};
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  WICK_SIM_ENTER_DRIVER("cuMemRelease");
  const auto found = m.pieces.find(handle);
  if (found == m.pieces.end() || !found->second.held) return CUDA_ERROR_INVALID_VALUE;
  found->second.held = false;
  drop_if_unused(m, handle);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long) {
  WICK_SIM_ENTER_DRIVER("cuMemMap");
  const auto found = m.pieces.find(handle);
  const uintptr_t begin = uintptr_t(address);
  if (found == m.pieces.end() || found->second.address != 0 || found->second.bytes != bytes ||
      offset != 0 || begin % kGranule != 0 || !is_reserved(m, begin, bytes) ||
      overlaps_mapping(m, begin, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  found->second.address = begin;
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  WICK_SIM_ENTER_DRIVER("cuMemSetAccess");
  for (const auto& [handle, piece] : m.pieces) {
    if (piece.address != uintptr_t(address) || piece.bytes != bytes) continue;
    if (count != 1 || access->location.id != piece.device) return CUDA_ERROR_INVALID_VALUE;
    void* const memory = pointer_to(address);
    if (mprotect(memory, bytes, PROT_READ | PROT_WRITE) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    std::memset(memory, 0xff, bytes);
    m.memory[uintptr_t(address)] = {bytes, piece.device, /*mapped=*/true};
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  WICK_SIM_ENTER_DRIVER("cuMemUnmap");
  for (auto& [handle, piece] : m.pieces) {
    if (piece.address != uintptr_t(address) || piece.bytes != bytes) continue;
    m.memory.erase(piece.address);
    mmap(pointer_to(address), bytes, PROT_NONE, kAddresses | MAP_FIXED, -1, 0);
    piece.address = 0;
    drop_if_unused(m, handle);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}
