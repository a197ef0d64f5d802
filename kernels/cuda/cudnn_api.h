#pragma once

#include <cudnn_graph.h>

#include <initializer_list>
#include <utility>

// cuDNN's graph interface: the functions that are used of it, and its descriptors as objects.
// Private to this folder.
namespace wick::cuda {

struct CudnnApi {
  decltype(cudnnGetVersion)* version;
  decltype(cudnnCreate)* create;
  decltype(cudnnSetStream)* set_stream;
  decltype(cudnnGetErrorString)* error_string;
  decltype(cudnnGetLastErrorString)* last_error_string;
  decltype(cudnnBackendCreateDescriptor)* create_descriptor;
  decltype(cudnnBackendDestroyDescriptor)* destroy_descriptor;
  decltype(cudnnBackendFinalize)* finalize;
  decltype(cudnnBackendSetAttribute)* set_attribute;
  decltype(cudnnBackendGetAttribute)* get_attribute;
  decltype(cudnnBackendExecute)* execute;

  CudnnApi();
};
/// Whether it is installed.
bool has_cudnn();
/// Opens the library when first called. Error if it is not installed.
const CudnnApi& cudnn();

/// Throws unless `status` is success. The text names the op, `call` and cuDNN's own words.
void check_cudnn(cudnnStatus_t status, const char* call);

/// Whether `status` is success; else cuDNN cannot do what it was asked for. Throws DeviceError if
/// the reason is that the device can do no more work, OutOfMemory if it is a lack of memory.
bool is_supported(cudnnStatus_t status, const char* call);

/// An object of cuDNN's, described attribute by attribute and then finalized.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type) {
    check_cudnn(cudnn().create_descriptor(type, &handle_), "cudnnBackendCreateDescriptor");
  }
  ~CudnnDescriptor() {
    if (handle_ != nullptr) cudnn().destroy_descriptor(handle_);
  }
  CudnnDescriptor(CudnnDescriptor&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  cudnnBackendDescriptor_t get() const { return handle_; }
  bool defined() const { return handle_ != nullptr; }

  /// Sets an attribute of `count` elements.
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values) {
    check_cudnn(cudnn().set_attribute(handle_, name, type, count, values),
                "cudnnBackendSetAttribute");
  }
  template <class Value>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const Value& value) {
    set(name, type, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, std::initializer_list<int64_t> values) {
    set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.begin());
  }
  void set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.handle_);
  }

  /// Reads up to `most` elements of an attribute; returns how many it has, 0 on failure.
  int64_t read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
               void* values) const {
    int64_t count = 0;
    const cudnnStatus_t status = cudnn().get_attribute(handle_, name, type, most, &count, values);
    return status == CUDNN_STATUS_SUCCESS ? count : 0;
  }

  /// False where cuDNN cannot do what is described.
  bool try_finalize() { return is_supported(cudnn().finalize(handle_), "cudnnBackendFinalize"); }
  void finalize() { check_cudnn(cudnn().finalize(handle_), "cudnnBackendFinalize"); }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

}  // namespace wick::cuda
