#pragma once

#include <atomic>
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
struct SparseRows;

/// How the axes of a rank-4 tensor (N, C, H, W) are laid out in memory.
enum class MemoryFormat : uint8_t {
  kContiguous,    // row-major: N, C, H, W
  kChannelsLast,  // N, H, W, C: what images and convolution weights use
  kPreserve,      // as the source has it
};

namespace detail {
inline std::atomic<int> reads_are_watched{0};  // by threads that trace (core/graph/trace.h)
/// Tells this thread's recorder, if it has one, that `what` reads the elements of `x` on the host.
[[gnu::cold]] void note_host_read(const char* what, const Tensor& x);
/// Throws an error that names the operation that this thread carries out, or else `user`.
[[noreturn, gnu::cold]] void undefined_tensor(const char* user);
/// The same for a sparse tensor, which has no memory of its own.
[[noreturn, gnu::cold]] void sparse_tensor_used(const char* user, const Shape& shape);
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
  bool is_view = false;        // made by a view operation
  bool views_history = false;  // its base, or that one's, required a gradient when it was made
  bool is_detached = false;    // made by detach(), or a view of that
  bool is_inference = false;   // made in InferenceMode: can never take part in backward
  uint64_t view_version = 0;   // of the storage, when this view was made
  std::unique_ptr<AutogradMeta> autograd;
  std::shared_ptr<const SparseRows> rows;  // of a sparse tensor, whose storage is empty
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
  /// To a part, as in `x[0] = y` or `x[{Slice(), 1}] = 0.5`: writes it, as copy_ and fill_ do.
  const Tensor& operator=(const Tensor& source) && { return copy_(source); }
  const Tensor& operator=(Scalar value) && { return fill_(value); }

  /// Whether this handle refers to elements.
  bool defined() const { return static_cast<bool>(impl_); }
  TensorImpl* impl() const { return impl_.get(); }  // what the engine works on
  /// Whether both are the same handle (not: equal elements).
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

  // --- Layout -----------------------------------------------------------------------------------
  // Error for an undefined tensor, which names `user`, the function that asks.
  /// Elements along each axis: 0 to 8 sizes.
  const Shape& shape(const char* user = __builtin_FUNCTION()) const { return get(user).shape; }
  /// As shape() and rank(), by PyTorch's names.
  const Shape& sizes(const char* user = __builtin_FUNCTION()) const { return shape(user); }
  int64_t dim(const char* user = __builtin_FUNCTION()) const { return rank(user); }
  /// Elements of memory from one index along an axis to the next.
  const Strides& strides(const char* user = __builtin_FUNCTION()) const {
    return get(user).strides;
  }
  /// The number of axes.
  int rank(const char* user = __builtin_FUNCTION()) const { return get(user).shape.rank(); }
  /// The number of elements: the product of the sizes, 1 for rank 0.
  int64_t numel(const char* user = __builtin_FUNCTION()) const { return get(user).shape.numel(); }
  /// Elements along `axis`, which may be negative. Error if there is no such axis.
  int64_t size(int64_t axis, const char* user = __builtin_FUNCTION()) const {
    return shape(user)[wrap_axis("size", axis, rank())];
  }
  /// The type of the elements.
  Dtype dtype(const char* user = __builtin_FUNCTION()) const { return get(user).dtype; }
  /// Where the elements are.
  Device device(const char* user = __builtin_FUNCTION()) const {
    return get(user).storage->device();
  }
  /// Whether the elements lie in memory without gaps, in the order of `format`.
  bool is_contiguous(MemoryFormat format = MemoryFormat::kContiguous) const;

  // --- Elements ---------------------------------------------------------------------------------
  /// Address of the first element, on device(). Error unless T is the element type.
  template <class T>
  T* data() const {
    WICK_CHECK(dtype_of<T> == dtype(), "data: wrong element type: asked for ",
               to_string(dtype_of<T>), ", the tensor is ", to_string(dtype()));
    note_host_read("data");
    return static_cast<T*>(address());
  }
  /// The same, of any element type.
  void* raw_data(const char* user = __builtin_FUNCTION()) const {
    note_host_read("raw_data");
    return address(user);
  }
  /// The same, for comparisons alone: graph::trace() does not refuse it as a read of elements.
  void* address(const char* user = __builtin_FUNCTION()) const {
    const TensorImpl& x = get(user);
    if (x.rows) detail::sparse_tensor_used(user, x.shape);
    return static_cast<char*>(x.storage->data()) + x.offset * size_of(x.dtype);
  }
  /// Whether only some rows are known, the others being zero: the gradient of an embedding with
  /// `sparse = true` (core/sparse_rows.h), which operations refuse.
  bool is_sparse() const { return get().rows != nullptr; }
  /// This tensor, or for a sparse one its elements with zeros between them.
  Tensor to_dense() const;
  /// What kernels see.
  View view_for_kernel() const {
    note_host_read("view_for_kernel");
    return {address(), dtype(), device(), shape(), strides()};
  }
  /// The one element, as T. Waits for the device. Error unless there is exactly one.
  template <class T = double>
  T item() const;
  /// All elements in row-major order, copied to the host. Error unless T is the element type.
  template <class T>
  std::vector<T> to_vector() const;

  // --- Autograd ---------------------------------------------------------------------------------
  /// Whether backward gives this tensor a gradient, or passes one through it.
  bool requires_grad() const;
  /// Makes a leaf take part in backward (or not). Error for integer dtypes and results of ops.
  const Tensor& set_requires_grad(bool requires_grad = true) const;
  /// set_requires_grad, by PyTorch's name.
  const Tensor& requires_grad_(bool requires_grad = true) const {
    return set_requires_grad(requires_grad);
  }
  /// Whether no recorded op made this tensor.
  bool is_leaf() const;
  /// The accumulated gradient of a leaf; undefined before the first backward.
  Tensor grad() const;
  /// Replaces grad(); undefined drops it. Error unless this is a leaf that requires a gradient, and
  /// `grad` has its shape, dtype and device.
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
  /// to() the CPU, or to the GPU `index`.
  Tensor cpu() const { return to(kCpu); }
  Tensor cuda(int index = 0) const { return to(cuda_device(index)); }
  /// A copy in pinned host memory, from which GPUs copy while the host goes on (this tensor if it
  /// is there already). CPU tensors only; error without CUDA.
  Tensor pin_memory() const;
  /// Whether the elements are in pinned host memory.
  bool is_pinned() const { return get().storage->is_pinned(); }
  /// Tells that work on `stream` uses this tensor: its memory is not reused before that is done.
  void record_stream(Stream stream) const { get().storage->record_stream(stream); }
  /// This tensor if its memory is laid out so, else a copy.
  Tensor contiguous(MemoryFormat format = MemoryFormat::kContiguous) const;
  /// A copy, always.
  Tensor clone(MemoryFormat format = MemoryFormat::kPreserve) const;

  // --- Views ------------------------------------------------------------------------------------
  // The same elements in another shape, without copying. Axes may be negative: -1 is the last.
  // Errors: an axis or index out of range, or named twice.
  /// The elements, in row-major order, in `shape`, one size of which may be -1: what is left. A
  /// view where strides allow, else a copy. Error unless the number of elements is the same.
  Tensor reshape(const Shape& shape) const;
  /// As reshape, but an error where a copy would be needed.
  Tensor view(const Shape& shape) const;
  /// The axes in another order: axis i of the result is axis axes[i].
  Tensor permute(const Shape& axes) const;
  Tensor transpose(int64_t axis0, int64_t axis1) const;  // the two axes swapped
  /// The matrix transposed; error unless rank is 2 or less.
  Tensor t() const;
  /// The axes from `start_axis` to `end_axis`, both included, as one; rank 0 becomes [1]. May copy.
  Tensor flatten(int64_t start_axis = 0, int64_t end_axis = -1) const;
  Tensor unsqueeze(int64_t axis) const;  // a new axis of size 1 at `axis`
  /// Without `axis`, if its size is 1; by default without any axis of size 1.
  Tensor squeeze(std::optional<int64_t> axis = {}) const;
  /// Repeated along axes of size 1, and along new ones in front, up to `shape`; -1 keeps a size.
  Tensor expand(const Shape& shape) const;
  /// The indices from `start` (negative: from the end) to start + length - 1 along `axis`.
  Tensor narrow(int64_t axis, int64_t start, int64_t length) const;
  /// One index along `axis`, without that axis.
  Tensor select(int64_t axis, int64_t index) const;
  /// The indices start, start + step, ... below `stop` along `axis`; what lies outside is cut off.
  Tensor slice(int64_t axis, int64_t start, int64_t stop, int64_t step = 1) const;
  /// At most `chunks` equal parts along `axis`, of which the last may be smaller.
  std::vector<Tensor> chunk(int64_t chunks, int64_t axis = 0) const;
  /// Parts of `split_size`, of which the last may be smaller, or of `sizes`, which must add up.
  std::vector<Tensor> split(int64_t split_size, int64_t axis = 0) const;
  std::vector<Tensor> split(const std::vector<int64_t>& sizes, int64_t axis = 0) const;
  std::vector<Tensor> unbind(int64_t axis = 0) const;  // each index along `axis`, without that axis
  /// `axis` cut into axes of `sizes`, one of which may be -1. Error unless their product fits.
  Tensor unflatten(int64_t axis, const Shape& sizes) const;
  Tensor movedim(const Shape& from, const Shape& to) const;  // the axes `from` at the places `to`
  /// Elements whose index along `axis1` is that along `axis0` plus `offset`, as a new last axis.
  Tensor diagonal(int64_t offset = 0, int64_t axis0 = 0, int64_t axis1 = 1) const;
  /// `x[0]`, `x[{Slice(), 0}]`, `x[{Ellipsis, Slice(1, -1)}]`.
  Tensor operator[](int64_t index) const;
  Tensor operator[](std::initializer_list<Index> indices) const;
  /// `x[index_tensor]`, `x[bool_mask]`: a copy, but one that can be assigned to.
  IndexedTensor operator[](const Tensor& index) const;

  // --- Functions --------------------------------------------------------------------------------
  // Every function of one tensor in wick/core/ops is a member too, and explained there; those for
  // networks alone (activations, losses, normalisations, convolutions, ...) are not. x is this
  // tensor.

  // Arithmetic and mathematics of each element (elementwise.h). Shapes broadcast, dtypes promote.
  Tensor add(const Tensor& y, Scalar alpha = 1) const;  // x + alpha y
  Tensor add(Scalar y) const;
  Tensor sub(const Tensor& y, Scalar alpha = 1) const;  // x - alpha y
  Tensor sub(Scalar y) const;
  Tensor mul(const Tensor& y) const;  // x y
  Tensor mul(Scalar y) const;
  Tensor div(const Tensor& y) const;  // x / y, of integers too a fraction
  Tensor div(Scalar y) const;
  Tensor pow(const Tensor& exponent) const;  // x^exponent
  Tensor pow(Scalar exponent) const;
  Tensor maximum(const Tensor& y) const;  // the larger of two, NaN if either is
  Tensor minimum(const Tensor& y) const;  // the smaller of two, NaN if either is
  /// min(max(x, low), high); either bound may be missing.
  Tensor clamp(std::optional<Scalar> low, std::optional<Scalar> high = {}) const;
  Tensor neg() const;                   // -x
  Tensor abs() const;                   // |x|
  Tensor sign() const;                  // -1, 0 or 1
  Tensor square() const;                // x^2
  Tensor sqrt() const;                  // the square root; NaN below 0
  Tensor rsqrt() const;                 // 1 / sqrt(x)
  Tensor reciprocal() const;            // 1 / x
  Tensor exp() const;                   // e^x
  Tensor expm1() const;                 // e^x - 1, accurate near 0
  Tensor log() const;                   // the natural logarithm; NaN below 0
  Tensor log1p() const;                 // log(1 + x), accurate near 0
  Tensor log2() const;                  // the logarithm to base 2
  Tensor sin() const;                   // the sine of x in radians
  Tensor cos() const;                   // the cosine
  Tensor tan() const;                   // the tangent
  Tensor atan2(const Tensor& x) const;  // the angle of (x, this tensor), in [-pi, pi]
  Tensor tanh() const;                  // the hyperbolic tangent
  Tensor erf() const;                   // the error function
  Tensor sigmoid() const;               // 1 / (1 + e^-x)
  Tensor relu() const;                  // max(x, 0)
  Tensor floor() const;                 // the next whole number at or below x
  Tensor ceil() const;                  // the next whole number at or above x
  Tensor round() const;                 // the nearest whole number, halves to the even one
  Tensor trunc() const;                 // the next whole number towards 0

  // Comparisons and logic of each element, into bool (compare.h). Shapes broadcast.
  Tensor eq(const Tensor& y) const;  // x == y
  Tensor eq(Scalar y) const;
  Tensor ne(const Tensor& y) const;  // x != y
  Tensor ne(Scalar y) const;
  Tensor lt(const Tensor& y) const;  // x < y
  Tensor lt(Scalar y) const;
  Tensor le(const Tensor& y) const;  // x <= y
  Tensor le(Scalar y) const;
  Tensor gt(const Tensor& y) const;  // x > y
  Tensor gt(Scalar y) const;
  Tensor ge(const Tensor& y) const;  // x >= y
  Tensor ge(Scalar y) const;
  Tensor logical_and(const Tensor& y) const;  // whether both are not 0
  Tensor logical_or(const Tensor& y) const;   // whether one is not 0
  Tensor logical_xor(const Tensor& y) const;  // whether just one is not 0
  Tensor logical_not() const;                 // whether x is 0
  Tensor isnan() const;                       // whether x is NaN
  Tensor isinf() const;                       // whether x is infinite
  Tensor isfinite() const;                    // whether x is neither
  /// Whether shapes and all elements are equal. Waits for the device, as the next.
  bool equal(const Tensor& y) const;
  /// Whether |x - y| <= atol + rtol |y| for all elements.
  bool allclose(const Tensor& y, double rtol = 1e-5, double atol = 1e-8,
                bool equal_nan = false) const;
  /// `value` where the bool `mask` is set, else x.
  Tensor masked_fill(const Tensor& mask, Scalar value) const;  // in x's dtype

  // Reductions over `axes`, by default all (reduce.h, sort.h). `keepdim` keeps them, with size 1.
  Tensor sum(const Shape& axes = {}, bool keepdim = false) const;   // of integers as int64
  Tensor mean(const Shape& axes = {}, bool keepdim = false) const;  // error for integers
  Tensor prod(const Shape& axes = {}, bool keepdim = false) const;  // of integers as int64
  /// Mean squared deviation from the mean, over n - `correction`; and its square root, stddev().
  Tensor var(const Shape& axes = {}, int64_t correction = 1, bool keepdim = false) const;
  Tensor std(const Shape& axes = {}, int64_t correction = 1, bool keepdim = false) const;
  /// (sum |x|^ord)^(1/ord); `ord` may be 0 and infinity.
  Tensor norm(double ord = 2, const Shape& axes = {}, bool keepdim = false) const;
  /// log(sum(exp(x))), without overflow.
  Tensor logsumexp(const Shape& axes = {}, bool keepdim = false) const;
  /// The largest (smallest) element, NaN if one is. Equal ones share the gradient.
  Tensor amax(const Shape& axes = {}, bool keepdim = false) const;
  Tensor amin(const Shape& axes = {}, bool keepdim = false) const;
  Tensor max() const;  // amax() of all
  Tensor min() const;  // amin() of all
  /// The largest (smallest) element along `axis` and where the first one is.
  Sorted max(int64_t axis, bool keepdim = false) const;
  Sorted min(int64_t axis, bool keepdim = false) const;
  /// Where the first largest (smallest) element is, along `axis` or of all; int64.
  Tensor argmax(std::optional<int64_t> axis = {}, bool keepdim = false) const;
  Tensor argmin(std::optional<int64_t> axis = {}, bool keepdim = false) const;
  Tensor any(const Shape& axes = {}, bool keepdim = false) const;  // whether one is not 0; bool
  Tensor all(const Shape& axes = {}, bool keepdim = false) const;  // whether none is 0; bool

  // Along one axis; the shape stays, but for topk (softmax.h, sort.h).
  Tensor softmax(int64_t axis) const;      // exp(x) / sum(exp(x)); floating
  Tensor log_softmax(int64_t axis) const;  // its logarithm
  Tensor cumsum(int64_t axis) const;       // running sums, of integers as int64
  Tensor cumprod(int64_t axis) const;      // running products, of integers as int64
  /// Sorted elements and where they were. Stable; NaN counts as greatest.
  Sorted sort(int64_t axis = -1, bool descending = false) const;
  Tensor argsort(int64_t axis = -1, bool descending = false) const;  // the indices that sort x
  /// The k largest (smallest) elements, the best first, and where they were.
  Sorted topk(int64_t k, int64_t axis = -1, bool largest = true) const;

  // Matrix products (matmul.h). Error unless dtypes are equal and shapes fit.
  Tensor matmul(const Tensor& other) const;  // [..., M, K] x [..., K, N]; leading axes broadcast
  Tensor mm(const Tensor& other) const;      // [M, K] x [K, N]
  Tensor bmm(const Tensor& other) const;     // [B, M, K] x [B, K, N]
  Tensor dot(const Tensor& other) const;     // [N] x [N]; rank 0
  Tensor outer(const Tensor& other) const;   // [M] x [N]; [M, N]

  // By index (index.h: int64 or int32; error if out of range), and order of elements (join.h).
  /// The slices along `axis` that the one-axis `index` names.
  Tensor index_select(int64_t axis, const Tensor& index) const;
  /// x with slice k of `source` added to slice index[k].
  Tensor index_add(int64_t axis, const Tensor& index, const Tensor& source) const;
  /// y[i, j] = x[i, index[i, j]] for axis 1.
  Tensor gather(int64_t axis, const Tensor& index) const;
  /// x with y[i, index[i, j]] = source[i, j], or += source[i, j], for axis 1.
  Tensor scatter(int64_t axis, const Tensor& index, const Tensor& source) const;
  Tensor scatter_add(int64_t axis, const Tensor& index, const Tensor& source) const;
  /// As gather, with the other axes broadcast.
  Tensor take_along_axis(const Tensor& index, int64_t axis) const;
  /// The elements where the bool `mask` is set, [count]. Waits for the device, as the next.
  Tensor masked_select(const Tensor& mask) const;
  Tensor nonzero() const;  // the coordinates of elements that are not 0: int64 [count, rank]
  /// x repeated times[i] times along axis i; more times than axes add axes in front.
  Tensor repeat(const Shape& times) const;
  Tensor tril(int64_t diagonal = 0) const;         // of each matrix what is on and below a diagonal
  Tensor triu(int64_t diagonal = 0) const;         // what is on and above it; zeros elsewhere
  Tensor flip(const Shape& axes) const;            // the order reversed along `axes`
  Tensor roll(int64_t shift, int64_t axis) const;  // moved along `axis`, coming in at the other end

  // --- In place: change the elements and return this tensor --------------------------------------
  // As the functions of the same name. Shape and dtype stay: error if the result does not fit.
  // Error for a leaf that requires a gradient, unless under NoGrad.
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
  const Tensor& fill_(Scalar value) const;  // every element becomes `value`
  const Tensor& zero_() const { return fill_(0); }
  /// Uniform random numbers in [low, high), from `generator`, by default the device's own.
  const Tensor& uniform_(double low = 0, double high = 1, Generator* generator = nullptr) const;
  /// Normal random numbers, from the same.
  const Tensor& normal_(double mean = 0, double stddev = 1, Generator* generator = nullptr) const;

 private:
  TensorImpl& get(const char* user = __builtin_FUNCTION()) const {
    if (!impl_) detail::undefined_tensor(user);
    return *impl_;
  }
  Scalar item_scalar() const;
  void note_host_read(const char* what) const {
    if (detail::reads_are_watched.load(std::memory_order_relaxed) != 0) [[unlikely]]
      detail::note_host_read(what, *this);
  }

  Ref<TensorImpl> impl_;
};

/// What `x[index]` gives for a tensor of indices or a mask: a copy of the elements, whose
/// assignment (`x[mask] = 0`, `x[index] += y`) writes to x. Where an index comes twice, the last
/// one wins. Takes as long as copying x.
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

}  // namespace wick

#include "wick/core/create.h"  // zeros(), tensor(), ...: a part of this header
