#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "wick/core/base/check.h"
#include "wick/core/base/device.h"
#include "wick/core/base/dtype.h"
#include "wick/core/base/shape.h"
#include "wick/core/base/view.h"
#include "wick/core/ref.h"
#include "wick/core/scalar.h"
#include "wick/core/storage.h"

namespace wick {

class AutogradMeta;
class Generator;
class Index;
class IndexedTensor;
class Node;
class Tensor;
struct Sorted;

/// How the axes of a rank-4 tensor (N, C, H, W) are laid out in memory.
enum class MemoryFormat : uint8_t {
  kContiguous,    // row-major: N, C, H, W
  kChannelsLast,  // N, H, W, C: what images and convolution weights use
  kPreserve,      // as the source has it
};

namespace detail {
/// Throws an error that names the operation that this thread carries out, or else `user`.
[[noreturn, gnu::cold]] void undefined_tensor(const char* user);
}  // namespace detail

/// What a Tensor points to. Users hold Tensors.
struct TensorImpl final : RefCounted {
  TensorImpl(Ref<Storage> storage_in, int64_t offset_in, const Shape& shape_in,
             const Strides& strides_in, Dtype dtype_in);
  ~TensorImpl() override;

  Ref<Storage> storage;
  int64_t offset;  // elements from the storage's start
  Shape shape;
  Strides strides;
  Dtype dtype;
  bool is_view = false;       // made by a view operation
  bool is_detached = false;   // a constant for autograd, whatever is done to its storage
  bool is_inference = false;  // made in InferenceMode: can never take part in backward
  uint64_t view_version = 0;  // of the storage, when this view was made
  std::unique_ptr<AutogradMeta> autograd;
};

/// An n-dimensional array (0 to 8 axes) on one device, with automatic differentiation. A handle:
/// copies refer to the same elements. A default-constructed Tensor is undefined and stands for
/// "none" where an argument is optional.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;

  /// Makes this handle refer to other elements.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// To a part, as in `x[0] = y` or `x[{Slice(), 1}] = 0.5`: writes its elements, as copy_ and
  /// fill_.
  const Tensor& operator=(const Tensor& source) && { return copy_(source); }
  const Tensor& operator=(Scalar value) && { return fill_(value); }

  bool defined() const { return static_cast<bool>(impl_); }
  TensorImpl* impl() const { return impl_.get(); }
  /// Whether both are the same handle (not: equal elements).
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

  // --- Layout -----------------------------------------------------------------------------------
  // `user` is the function that asks, which the error for an undefined tensor names.
  const Shape& shape(const char* user = __builtin_FUNCTION()) const { return get(user).shape; }
  /// As shape() and rank(), by PyTorch's names.
  const Shape& sizes(const char* user = __builtin_FUNCTION()) const { return shape(user); }
  int64_t dim(const char* user = __builtin_FUNCTION()) const { return rank(user); }
  const Strides& strides(const char* user = __builtin_FUNCTION()) const {
    return get(user).strides;
  }
  int rank(const char* user = __builtin_FUNCTION()) const { return get(user).shape.rank(); }
  int64_t numel(const char* user = __builtin_FUNCTION()) const { return get(user).shape.numel(); }
  /// Elements along `axis`, which may be negative.
  int64_t size(int64_t axis, const char* user = __builtin_FUNCTION()) const {
    return shape(user)[wrap_axis("size", axis, rank())];
  }
  Dtype dtype(const char* user = __builtin_FUNCTION()) const { return get(user).dtype; }
  Device device(const char* user = __builtin_FUNCTION()) const {
    return get(user).storage->device();
  }
  bool is_contiguous(MemoryFormat format = MemoryFormat::kContiguous) const;

  // --- Elements ---------------------------------------------------------------------------------
  /// Address of the first element, on device(). Error unless T is the element type.
  template <class T>
  T* data() const {
    WICK_CHECK(dtype_of<T> == dtype(), "data: wrong element type: asked for ",
               to_string(dtype_of<T>), ", the tensor is ", to_string(dtype()));
    return static_cast<T*>(raw_data());
  }
  void* raw_data() const {
    return static_cast<char*>(get().storage->data()) + get().offset * size_of(get().dtype);
  }
  /// What kernels see.
  View view_for_kernel() const { return {raw_data(), dtype(), device(), shape(), strides()}; }
  /// The one element of a tensor with one element, as T. Waits for the device.
  template <class T = double>
  T item() const {
    const Scalar value = item_scalar();
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(value.to_double());
    return static_cast<T>(value.to_int64());
  }
  /// All elements in row-major order, copied to the host. Error unless T is the element type.
  template <class T>
  std::vector<T> to_vector() const;

  // --- Autograd ---------------------------------------------------------------------------------
  bool requires_grad() const;
  /// Makes a leaf take part in backward (or not). Error for integer dtypes and results of ops.
  const Tensor& set_requires_grad(bool requires_grad = true) const;
  const Tensor& requires_grad_(bool requires_grad = true) const {
    return set_requires_grad(requires_grad);
  }
  bool is_leaf() const;
  /// The accumulated gradient of a leaf; undefined before the first backward.
  Tensor grad() const;
  void set_grad(const Tensor& grad) const;
  /// The graph node that made this tensor; null for leaves.
  Node* grad_fn() const;
  /// Differentiates this tensor (one element, or weighted by `gradient` of its shape) with respect
  /// to every leaf it depends on, and adds to their grad(). The graph is freed unless
  /// `retain_graph`; `create_graph` makes the gradients differentiable themselves.
  void backward(const Tensor& gradient = {}, bool retain_graph = false,
                bool create_graph = false) const;
  /// The same elements, outside the graph.
  Tensor detach() const;
  /// Runs `hook` on this tensor's gradient in each backward; a defined result replaces it.
  void register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// Runs `hook` after a leaf's grad() was updated.
  void register_post_accumulate_grad_hook(std::function<void(const Tensor& leaf_grad)> hook) const;
  /// How often the storage was changed in place.
  uint64_t version() const { return get().storage->version(); }

  // --- Conversions ------------------------------------------------------------------------------
  /// This tensor if it is already so, else a copy.
  Tensor to(Dtype dtype) const;
  /// The same. To the CPU the host waits for the elements, unless `non_blocking`: then they are
  /// there once the device's current stream is synchronized, in pinned memory. From pinned memory,
  /// or of up to 1 MiB, which is copied there first, the host goes on at once if `non_blocking`.
  Tensor to(Device device, bool non_blocking = false) const;
  Tensor cpu() const { return to(kCpu); }
  Tensor cuda(int index = 0) const { return to(cuda_device(index)); }
  /// A copy in pinned host memory, from which GPUs copy while the host goes on (this tensor if it
  /// is there already). CPU tensors only; error without CUDA.
  Tensor pin_memory() const;
  bool is_pinned() const { return get().storage->is_pinned(); }
  /// Tells that work on `stream` uses this tensor: its memory is not reused before that is done.
  void record_stream(Stream stream) const { get().storage->record_stream(stream); }
  /// This tensor if its memory is laid out so, else a copy.
  Tensor contiguous(MemoryFormat format = MemoryFormat::kContiguous) const;
  Tensor clone(MemoryFormat format = MemoryFormat::kPreserve) const;

  // --- Views ------------------------------------------------------------------------------------
  /// One size may be -1. A view where strides allow, else a copy.
  Tensor reshape(const Shape& shape) const;
  /// As reshape, but an error where a copy would be needed.
  Tensor view(const Shape& shape) const;
  Tensor permute(const Shape& axes) const;
  Tensor transpose(int64_t axis0, int64_t axis1) const;
  /// The matrix transposed; error unless rank is 2 or less.
  Tensor t() const;
  Tensor flatten(int64_t start_axis = 0, int64_t end_axis = -1) const;
  Tensor unsqueeze(int64_t axis) const;
  /// Without `axis`, drops every axis of size 1.
  Tensor squeeze(std::optional<int64_t> axis = {}) const;
  /// -1 keeps a size.
  Tensor expand(const Shape& shape) const;
  Tensor narrow(int64_t axis, int64_t start, int64_t length) const;
  Tensor select(int64_t axis, int64_t index) const;
  Tensor slice(int64_t axis, int64_t start, int64_t stop, int64_t step = 1) const;
  std::vector<Tensor> chunk(int64_t chunks, int64_t axis = 0) const;
  std::vector<Tensor> split(int64_t split_size, int64_t axis = 0) const;
  std::vector<Tensor> split(const std::vector<int64_t>& sizes, int64_t axis = 0) const;
  std::vector<Tensor> unbind(int64_t axis = 0) const;
  Tensor unflatten(int64_t axis, const Shape& sizes) const;
  Tensor movedim(const Shape& from, const Shape& to) const;
  Tensor diagonal(int64_t offset = 0, int64_t axis0 = 0, int64_t axis1 = 1) const;
  /// `x[0]`, `x[{Slice(), 0}]`, `x[{Ellipsis, Slice(1, -1)}]`.
  Tensor operator[](int64_t index) const;
  Tensor operator[](std::initializer_list<Index> indices) const;
  /// `x[index_tensor]`, `x[bool_mask]`: a copy, but one that can be assigned to.
  IndexedTensor operator[](const Tensor& index) const;

  // --- Functions --------------------------------------------------------------------------------
  // Every function of one tensor in wick/core/ops is a member too, and explained there; those for
  // networks alone (activations, losses, normalisations, convolutions, ...) are not.
  Tensor add(const Tensor& y, Scalar alpha = 1) const;
  Tensor add(Scalar y) const;
  Tensor sub(const Tensor& y, Scalar alpha = 1) const;
  Tensor sub(Scalar y) const;
  Tensor mul(const Tensor& y) const;
  Tensor mul(Scalar y) const;
  Tensor div(const Tensor& y) const;
  Tensor div(Scalar y) const;
  Tensor pow(const Tensor& exponent) const;
  Tensor pow(Scalar exponent) const;
  Tensor maximum(const Tensor& y) const;
  Tensor minimum(const Tensor& y) const;
  Tensor clamp(std::optional<Scalar> low, std::optional<Scalar> high = {}) const;
  Tensor neg() const;
  Tensor abs() const;
  Tensor sign() const;
  Tensor square() const;
  Tensor sqrt() const;
  Tensor rsqrt() const;
  Tensor reciprocal() const;
  Tensor exp() const;
  Tensor expm1() const;
  Tensor log() const;
  Tensor log1p() const;
  Tensor log2() const;
  Tensor sin() const;
  Tensor cos() const;
  Tensor tan() const;
  Tensor atan2(const Tensor& x) const;
  Tensor tanh() const;
  Tensor erf() const;
  Tensor sigmoid() const;
  Tensor relu() const;
  Tensor floor() const;
  Tensor ceil() const;
  Tensor round() const;
  Tensor trunc() const;

  Tensor eq(const Tensor& y) const;
  Tensor eq(Scalar y) const;
  Tensor ne(const Tensor& y) const;
  Tensor ne(Scalar y) const;
  Tensor lt(const Tensor& y) const;
  Tensor lt(Scalar y) const;
  Tensor le(const Tensor& y) const;
  Tensor le(Scalar y) const;
  Tensor gt(const Tensor& y) const;
  Tensor gt(Scalar y) const;
  Tensor ge(const Tensor& y) const;
  Tensor ge(Scalar y) const;
  Tensor logical_and(const Tensor& y) const;
  Tensor logical_or(const Tensor& y) const;
  Tensor logical_xor(const Tensor& y) const;
  Tensor logical_not() const;
  Tensor isnan() const;
  Tensor isinf() const;
  Tensor isfinite() const;
  bool equal(const Tensor& y) const;
  bool allclose(const Tensor& y, double rtol = 1e-5, double atol = 1e-8,
                bool equal_nan = false) const;
  Tensor masked_fill(const Tensor& mask, Scalar value) const;

  Tensor sum(const Shape& axes = {}, bool keepdim = false) const;
  Tensor mean(const Shape& axes = {}, bool keepdim = false) const;
  Tensor prod(const Shape& axes = {}, bool keepdim = false) const;
  Tensor var(const Shape& axes = {}, int64_t correction = 1, bool keepdim = false) const;
  /// stddev
  Tensor std(const Shape& axes = {}, int64_t correction = 1, bool keepdim = false) const;
  Tensor norm(double ord = 2, const Shape& axes = {}, bool keepdim = false) const;
  Tensor logsumexp(const Shape& axes = {}, bool keepdim = false) const;
  Tensor amax(const Shape& axes = {}, bool keepdim = false) const;
  Tensor amin(const Shape& axes = {}, bool keepdim = false) const;
  Tensor max() const;
  Tensor min() const;
  Sorted max(int64_t axis, bool keepdim = false) const;
  Sorted min(int64_t axis, bool keepdim = false) const;
  Tensor argmax(std::optional<int64_t> axis = {}, bool keepdim = false) const;
  Tensor argmin(std::optional<int64_t> axis = {}, bool keepdim = false) const;
  Tensor any(const Shape& axes = {}, bool keepdim = false) const;
  Tensor all(const Shape& axes = {}, bool keepdim = false) const;
  Tensor softmax(int64_t axis) const;
  Tensor log_softmax(int64_t axis) const;
  Tensor cumsum(int64_t axis) const;
  Tensor cumprod(int64_t axis) const;
  Sorted sort(int64_t axis = -1, bool descending = false) const;
  Tensor argsort(int64_t axis = -1, bool descending = false) const;
  Sorted topk(int64_t k, int64_t axis = -1, bool largest = true) const;

  Tensor matmul(const Tensor& other) const;
  Tensor mm(const Tensor& other) const;
  Tensor bmm(const Tensor& other) const;
  Tensor dot(const Tensor& other) const;
  Tensor outer(const Tensor& other) const;

  Tensor index_select(int64_t axis, const Tensor& index) const;
  Tensor index_add(int64_t axis, const Tensor& index, const Tensor& source) const;
  Tensor gather(int64_t axis, const Tensor& index) const;
  Tensor scatter(int64_t axis, const Tensor& index, const Tensor& source) const;
  Tensor scatter_add(int64_t axis, const Tensor& index, const Tensor& source) const;
  Tensor take_along_axis(const Tensor& index, int64_t axis) const;
  Tensor masked_select(const Tensor& mask) const;
  Tensor nonzero() const;
  Tensor repeat(const Shape& times) const;
  Tensor tril(int64_t diagonal = 0) const;
  Tensor triu(int64_t diagonal = 0) const;
  Tensor flip(const Shape& axes) const;
  Tensor roll(int64_t shift, int64_t axis) const;

  // --- In place: change the elements and return this tensor --------------------------------------
  const Tensor& add_(const Tensor& other, Scalar alpha = 1) const;
  const Tensor& add_(Scalar other) const;
  const Tensor& sub_(const Tensor& other, Scalar alpha = 1) const;
  const Tensor& sub_(Scalar other) const;
  const Tensor& mul_(const Tensor& other) const;
  const Tensor& mul_(Scalar other) const;
  const Tensor& div_(const Tensor& other) const;
  const Tensor& div_(Scalar other) const;
  const Tensor& operator+=(const Tensor& other) const { return add_(other); }
  const Tensor& operator+=(Scalar other) const { return add_(other); }
  const Tensor& operator-=(const Tensor& other) const { return sub_(other); }
  const Tensor& operator-=(Scalar other) const { return sub_(other); }
  const Tensor& operator*=(const Tensor& other) const { return mul_(other); }
  const Tensor& operator*=(Scalar other) const { return mul_(other); }
  const Tensor& operator/=(const Tensor& other) const { return div_(other); }
  const Tensor& operator/=(Scalar other) const { return div_(other); }
  const Tensor& pow_(Scalar exponent) const;
  const Tensor& neg_() const;
  const Tensor& sqrt_() const;
  const Tensor& exp_() const;
  const Tensor& sigmoid_() const;
  const Tensor& tanh_() const;
  const Tensor& relu_() const;
  const Tensor& clamp_(std::optional<Scalar> low, std::optional<Scalar> high = {}) const;
  const Tensor& masked_fill_(const Tensor& mask, Scalar value) const;
  /// Copies `source` (broadcast, converted, from any device) into this tensor. Between devices no
  /// gradient is recorded, and both tensors must be dense, of one dtype, shape and layout, for
  /// `non_blocking` to have an effect.
  const Tensor& copy_(const Tensor& source, bool non_blocking = false) const;
  const Tensor& fill_(Scalar value) const;
  const Tensor& zero_() const { return fill_(0); }
  /// Uniform random numbers in [low, high), from `generator`, by default the device's own.
  const Tensor& uniform_(double low = 0, double high = 1, Generator* generator = nullptr) const;
  const Tensor& normal_(double mean = 0, double stddev = 1, Generator* generator = nullptr) const;

 private:
  TensorImpl& get(const char* user = __builtin_FUNCTION()) const {
    if (!impl_) detail::undefined_tensor(user);
    return *impl_;
  }
  Scalar item_scalar() const;

  Ref<TensorImpl> impl_;
};

/// What `x[index]` gives for a tensor of indices or a mask: a copy of the elements, whose
/// assignment
/// (`x[mask] = 0`, `x[index] += y`) writes to x. Where an index comes twice, the last one wins.
/// Takes as long as copying x.
class IndexedTensor final : public Tensor {
 public:
  /// An lvalue is a tensor like others.
  IndexedTensor& operator=(const Tensor& other) & {
    Tensor::operator=(other);
    return *this;
  }
  /// `source` is broadcast and converted. Returns x.
  const Tensor& operator=(const Tensor& source) && { return assign(source); }
  const Tensor& operator=(const IndexedTensor& source) && { return assign(source); }
  const Tensor& operator=(Scalar value) &&;
  IndexedTensor(const IndexedTensor&) = default;
  IndexedTensor& operator=(const IndexedTensor&) & = default;

  using Tensor::operator+=;
  using Tensor::operator-=;
  using Tensor::operator*=;
  using Tensor::operator/=;
  template <class T>
  const Tensor& operator+=(const T& other) && {
    return assign(add(other));
  }
  template <class T>
  const Tensor& operator-=(const T& other) && {
    return assign(sub(other));
  }
  template <class T>
  const Tensor& operator*=(const T& other) && {
    return assign(mul(other));
  }
  template <class T>
  const Tensor& operator/=(const T& other) && {
    return assign(div(other));
  }

 private:
  friend class Tensor;
  IndexedTensor(const Tensor& elements, const Tensor& base, const Tensor& index)
      : Tensor(elements), base_(base), index_(index) {}
  const Tensor& assign(const Tensor& source) const;

  Tensor base_, index_;
};

/// Elements between brackets, then dtype and shape; long tensors are abbreviated.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

// --- Making tensors -----------------------------------------------------------------------------

/// Uninitialised memory.
Tensor empty(const Shape& shape, Dtype dtype = kFloat32, Device device = kCpu,
             MemoryFormat format = MemoryFormat::kContiguous);
/// Uninitialised, laid out by `strides`, which must be dense (a permutation of row-major ones).
Tensor empty_strided(const Shape& shape, const Strides& strides, Dtype dtype, Device device);
/// Uninitialised, with `like`'s shape and device, its layout if that is dense, and its dtype unless
/// another is given.
Tensor empty_like(const Tensor& like, std::optional<Dtype> dtype = {});
Tensor zeros(const Shape& shape, Dtype dtype = kFloat32, Device device = kCpu);
Tensor ones(const Shape& shape, Dtype dtype = kFloat32, Device device = kCpu);
Tensor full(const Shape& shape, Scalar value, Dtype dtype = kFloat32, Device device = kCpu);
Tensor zeros_like(const Tensor& like);
Tensor ones_like(const Tensor& like);
Tensor full_like(const Tensor& like, Scalar value);
/// start, start + step, ... below stop; by default int64, or float32 if one of them is not whole.
Tensor arange(Scalar start, Scalar stop, Scalar step = 1, std::optional<Dtype> dtype = {},
              Device device = kCpu);
/// 0, 1, ... below stop.
inline Tensor arange(Scalar stop, std::optional<Dtype> dtype = {}, Device device = kCpu) {
  return arange(0, stop, 1, dtype, device);
}
/// `steps` numbers from `start` to `stop`, both included, evenly apart.
Tensor linspace(double start, double stop, int64_t steps, Dtype dtype = kFloat32,
                Device device = kCpu);
/// Ones on the diagonal of a matrix of zeros, square unless `columns` is given.
Tensor eye(int64_t rows, std::optional<int64_t> columns = {}, Dtype dtype = kFloat32,
           Device device = kCpu);
/// A tensor of rank 0.
Tensor scalar_tensor(Scalar value, Dtype dtype = kFloat32, Device device = kCpu);

/// A tensor on memory of the caller's, without copying; the caller keeps it alive, or passes
/// `release` to be told when the last tensor has let go of it. Row-major unless `strides` are
/// given.
Tensor from_blob(void* data, const Shape& shape, Dtype dtype, std::function<void()> release = {},
                 std::optional<Strides> strides = {}, Device device = kCpu);
/// A tensor of `shape` (default: one axis) that shares the vector's memory; error if the number of
/// elements differs. The vector must outlive it.
template <class T>
Tensor as_tensor(std::vector<T>& values, std::optional<Shape> shape = {}) {
  const Shape s = shape.value_or(Shape{static_cast<int64_t>(values.size())});
  WICK_CHECK(s.numel() == static_cast<int64_t>(values.size()),
             "as_tensor: wrong number of elements: got ", values.size(), ", expected ", s.numel(),
             " for shape ", s);
  return from_blob(values.data(), s, dtype_of<T>);
}
/// A copy of `values` as a tensor of `shape` (default: one axis).
template <class T>
Tensor tensor(std::span<const T> values, std::optional<Shape> shape = {}, Device device = kCpu);
template <class T>
Tensor tensor(std::initializer_list<T> values, std::optional<Shape> shape = {},
              Device device = kCpu) {
  return tensor(std::span<const T>(values.begin(), values.size()), shape, device);
}
template <class T>
Tensor tensor(const std::vector<T>& values, std::optional<Shape> shape = {}, Device device = kCpu) {
  return tensor(std::span<const T>(values), shape, device);
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor host = detach().cpu().contiguous();
  const T* first = host.data<T>();
  return std::vector<T>(first, first + host.numel());
}

template <class T>
Tensor tensor(std::span<const T> values, std::optional<Shape> shape, Device device) {
  const Shape s = shape.value_or(Shape{static_cast<int64_t>(values.size())});
  WICK_CHECK(s.numel() == static_cast<int64_t>(values.size()),
             "tensor: wrong number of elements: got ", values.size(), ", expected ", s.numel(),
             " for shape ", s);
  Tensor host = empty(s, dtype_of<T>);
  for (size_t i = 0; i < values.size(); ++i) host.data<T>()[i] = values[i];
  return host.to(device);
}

}  // namespace wick
