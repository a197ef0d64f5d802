#include "wick/core/cuda/virtual_memory.h"

#include "wick/core/base/check.h"
#include "wick/kernels/cuda/common/check.h"
#include "wick/kernels/cuda/common/enter_device.h"
#include "wick/kernels/cuda/common/library_error.h"
#ifdef WICK_SIM
#include "wick/kernels/sim/cuda_driver.h"
#else
#include <cuda.h>

#include "wick/core/base/detail/dynamic_library.h"
#endif

namespace wick::cuda {

namespace {

/// The driver's functions; the driver is opened when first needed, as the toolkit's libraries are.
struct Driver {
  decltype(cuDeviceGetAttribute)* get_attribute;
  decltype(cuGetErrorName)* error_name;
  decltype(cuMemAddressReserve)* reserve;
  decltype(cuMemAddressFree)* free_addresses;
  decltype(cuMemCreate)* create;
  decltype(cuMemRelease)* release;
  decltype(cuMemMap)* map;
  decltype(cuMemSetAccess)* set_access;
  decltype(cuMemUnmap)* unmap;

#ifdef WICK_SIM
  Driver()
      : get_attribute(cuDeviceGetAttribute),
        error_name(cuGetErrorName),
        reserve(cuMemAddressReserve),
        free_addresses(cuMemAddressFree),
        create(cuMemCreate),
        release(cuMemRelease),
        map(cuMemMap),
        set_access(cuMemSetAccess),
        unmap(cuMemUnmap) {}
#else
  Driver() {
    const DynamicLibrary library("NVIDIA's driver", "libcuda.so.1");
    library.find(get_attribute, "cuDeviceGetAttribute");
    library.find(error_name, "cuGetErrorName");
    library.find(reserve, "cuMemAddressReserve");
    library.find(free_addresses, "cuMemAddressFree");
    library.find(create, "cuMemCreate");
    library.find(release, "cuMemRelease");
    library.find(map, "cuMemMap");
    library.find(set_access, "cuMemSetAccess");
    library.find(unmap, "cuMemUnmap");
  }
#endif
};
const Driver& driver() {
  static const Driver instance;
  return instance;
}

void check_driver(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  const char* name = nullptr;
  driver().error_name(status, &name);
  fail_library(call, name == nullptr ? "unknown error" : name, status == CUDA_ERROR_OUT_OF_MEMORY);
}

CUdeviceptr address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

CUmemLocation location_of(Device device) {
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device.index;
  return location;
}

// The first failure of three calls, or success.
CUresult map_page(Device device, CUdeviceptr address, size_t page, const char** call) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location_of(device);
  CUmemGenericAllocationHandle handle = {};
  *call = "cuMemCreate";
  CUresult status = driver().create(&handle, page, &properties, 0);
  if (status != CUDA_SUCCESS) return status;
  *call = "cuMemMap";
  status = driver().map(address, page, 0, handle, 0);
  const bool mapped = status == CUDA_SUCCESS;
  if (mapped) {
    *call = "cuMemSetAccess";
    CUmemAccessDesc access = {};
    access.location = location_of(device);
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    status = driver().set_access(address, page, &access, 1);
  }
  if (mapped && status != CUDA_SUCCESS) (void)driver().unmap(address, page);
  (void)driver().release(handle);  // from here on it lives as long as it is mapped
  return status;
}

}  // namespace

bool has_virtual_memory(Device device) {
  enter_device(device);
  int supported = 0;
  const CUresult status = driver().get_attribute(
      &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device.index);
  return status == CUDA_SUCCESS && supported != 0;
}

void* reserve_addresses(Device device, size_t bytes) {
  enter_device(device);
  CUdeviceptr address = 0;
  const CUresult status = driver().reserve(&address, bytes, 0, 0, 0);
  if (status == CUDA_ERROR_OUT_OF_MEMORY) return nullptr;
  check_driver(status, "cuMemAddressReserve");
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

void release_addresses(void* pointer, size_t bytes) {
  check_driver(driver().free_addresses(address_of(pointer), bytes), "cuMemAddressFree");
}

bool map_memory(Device device, void* pointer, size_t bytes, size_t page) {
  enter_device(device);
  const CUdeviceptr begin = address_of(pointer);
  for (size_t done = 0; done < bytes; done += page) {
    const char* call = "";
    const CUresult status = map_page(device, begin + done, page, &call);
    if (status == CUDA_SUCCESS) continue;
    for (size_t i = 0; i < done; i += page) (void)driver().unmap(begin + i, page);
    if (status != CUDA_ERROR_OUT_OF_MEMORY) check_driver(status, call);
    return false;
  }
  return true;
}

void unmap_memory(Device device, void* pointer, size_t bytes, size_t page) {
  enter_device(device);
  WICK_CUDA_CALL(cudaDeviceSynchronize);
  for (size_t done = 0; done < bytes; done += page) {
    check_driver(driver().unmap(address_of(pointer) + done, page), "cuMemUnmap");
  }
}

}  // namespace wick::cuda
