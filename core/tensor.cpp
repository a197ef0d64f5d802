#include "wick/core/tensor.h"

#include <cmath>
#include <cstring>
#include <string_view>

#include "wick/core/apply.h"
#include "wick/core/autograd.h"
#include "wick/core/base/detail/checked.h"
#include "wick/core/detail/op_recorder.h"
#include "wick/core/ops/slice.h"
#include "wick/kernels/copy.h"

namespace wick {

TensorImpl::TensorImpl(Ref<Storage> storage_in, int64_t offset_in, const Shape& shape_in,
                       const Strides& strides_in, Dtype dtype_in)
    : storage(std::move(storage_in)),
      offset(offset_in),
      shape(shape_in),
      strides(strides_in),
      dtype(dtype_in),
      is_inference(inference_mode()) {}

TensorImpl::~TensorImpl() = default;

void detail::undefined_tensor(const char* user) {
  const char* op = current_op();
  std::string_view name = user;
  if (name == "operator()") name = "tensor";  // a lambda has no name to tell
  fail(*op != 0 ? op : name.substr(0, name.find('<')),
       ": a tensor is undefined: got a default-constructed one, expected ", "one with elements");
}

void detail::note_host_read(const char* what, const Tensor& x) {
  if (OpRecorder* recorder = op_recorder()) recorder->host_read(what, x);
}

namespace {

Tensor allocate(const Shape& shape, const Strides& strides, Dtype dtype, Device device,
                int64_t numel) {
  auto storage = make_ref<Storage>(static_cast<size_t>(numel * size_of(dtype)), device);
  return Tensor(make_ref<TensorImpl>(std::move(storage), 0, shape, strides, dtype));
}

Tensor empty_pinned(const Shape& shape, const Strides& strides, Dtype dtype) {
  const int64_t numel = checked_numel("empty", shape);
  auto storage = Storage::pinned(static_cast<size_t>(numel * size_of(dtype)));
  return Tensor(make_ref<TensorImpl>(std::move(storage), 0, shape, strides, dtype));
}

struct ToDevice {
  static constexpr OpInfo info{.name = "to_device"};
  Device device;
  bool non_blocking;
  static constexpr auto fields = std::tuple{field("device", &ToDevice::device),
                                            field("non_blocking", &ToDevice::non_blocking)};

  Tensor forward(Saved&, const Tensor& x) const {
    const bool dense = is_dense(x.shape(), x.strides());
    const Strides strides = dense ? x.strides() : contiguous_strides(x.shape());
    const bool to_pinned = device.is_cpu() && non_blocking;
    const Tensor y = to_pinned ? empty_pinned(x.shape(), strides, x.dtype())
                               : empty_strided(x.shape(), strides, x.dtype(), device);
    y.copy_(x, non_blocking);
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {dy.to(saved.input(0).device, non_blocking)};
  }
};

struct Arange {
  static constexpr OpInfo info{
      .name = "arange", .mutates = 1, .differentiable = false, .overwrites = true};
  Scalar start, step;
  static constexpr auto fields =
      std::tuple{field("start", &Arange::start), field("step", &Arange::step)};

  Tensor forward(Saved&, const Tensor& y) const {
    WICK_DISPATCH(y.device(), arange(y.view_for_kernel(), start.to_double(), step.to_double(),
                                     start.to_int64(), step.to_int64()));
    return y;
  }
};

}  // namespace

bool Tensor::is_contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::kChannelsLast) return is_channels_last(shape(), strides());
  return format == MemoryFormat::kPreserve || wick::is_contiguous(shape(), strides());
}

Scalar Tensor::item_scalar() const {
  WICK_CHECK(numel("item") == 1, "item: needs exactly one element: got shape ", shape(),
             ": to_vector() gives all");
  if (OpRecorder* recorder = op_recorder()) recorder->host_read("item", *this);
  const Tensor host = detach().cpu();
  Scalar value = 0;
  visit_dtype(dtype(), [&]<class T>(Type<T>) {
    const T element = *host.data<T>();
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      value = Scalar(static_cast<float>(element));
    } else {
      value = Scalar(element);
    }
  });
  return value;
}

Tensor Tensor::detach() const {
  const TensorImpl& x = get();
  auto impl = make_ref<TensorImpl>(x.storage, x.offset, x.shape, x.strides, x.dtype);
  impl->is_view = x.is_view;
  impl->is_detached = true;
  impl->view_version = UINT64_MAX;  // no change of what it was made from makes it outdated
  impl->is_inference = x.is_inference;
  impl->rows = x.rows;
  return Tensor(std::move(impl));
}

Tensor Tensor::to(Device target, bool non_blocking) const {
  if (device() == target) return *this;
  return apply(ToDevice{target, non_blocking}, *this);
}

Tensor Tensor::pin_memory() const {
  WICK_CHECK(device().is_cpu(), "pin_memory: got a tensor on ", device(),
             ", expected one on the CPU");
  if (is_pinned()) return *this;
  const bool dense = is_dense(shape(), strides());
  const Tensor y = empty_pinned(shape(), dense ? strides() : contiguous_strides(shape()), dtype());
  NoGrad no_grad;
  y.copy_(*this);
  return y;
}

// --- Making tensors -----------------------------------------------------------------------------

Tensor empty(const Shape& shape, Dtype dtype, Device device, MemoryFormat format) {
  const int64_t n = checked_numel("empty", shape);
  const bool channels_last = format == MemoryFormat::kChannelsLast;
  WICK_CHECK(!channels_last || shape.rank() == 4, "empty: channels-last needs 4 axes: got shape ",
             shape);
  const Strides strides = channels_last ? channels_last_strides(shape) : contiguous_strides(shape);
  return allocate(shape, strides, dtype, device, n);
}

Tensor empty_strided(const Shape& shape, const Strides& strides, Dtype dtype, Device device) {
  const int64_t n = checked_numel("empty_strided", shape);
  WICK_CHECK(shape.rank() == strides.rank(), "empty_strided: got shape ", shape, " and strides ",
             strides);
  WICK_CHECK(n == 0 || is_dense(shape, strides), "empty_strided: strides are not dense: got ",
             strides, " for shape ", shape);
  return allocate(shape, n == 0 ? contiguous_strides(shape) : strides, dtype, device, n);
}

Tensor empty_like(const Tensor& like, std::optional<Dtype> dtype) {
  const Shape& shape = like.shape();
  const bool dense = shape.numel() > 0 && is_dense(shape, like.strides());
  return allocate(shape, dense ? like.strides() : contiguous_strides(shape),
                  dtype.value_or(like.dtype()), like.device(), shape.numel());
}

Tensor full(const Shape& shape, Scalar value, Dtype dtype, Device device) {
  Tensor x = empty(shape, dtype, device);
  x.fill_(value);
  return x;
}
Tensor zeros(const Shape& shape, Dtype dtype, Device device) {
  return full(shape, 0, dtype, device);
}
Tensor ones(const Shape& shape, Dtype dtype, Device device) {
  return full(shape, 1, dtype, device);
}
Tensor scalar_tensor(Scalar value, Dtype dtype, Device device) {
  return full({}, value, dtype, device);
}

Tensor zeros_like(const Tensor& like) {
  Tensor x = empty_like(like);
  x.zero_();
  return x;
}
Tensor ones_like(const Tensor& like) {
  Tensor x = empty_like(like);
  x.fill_(1);
  return x;
}

Tensor full_like(const Tensor& like, Scalar value) {
  Tensor x = empty_like(like);
  x.fill_(value);
  return x;
}

namespace {

template <class T>
void check_steps(T steps) {
  WICK_CHECK(steps <= static_cast<T>(kMaxNumel), "arange: too many elements: got ", steps,
             ", expected at most 2^58");
}

template <class T>
void check_direction(T start, T stop, T step) {
  WICK_CHECK(step > 0 ? start <= stop : start >= stop,
             "arange: the step leads away from the end: got ", start, " to ", stop, " by ", step,
             ", expected a step ", step > 0 ? "below" : "above", " 0");
}

// How many of start, start + step, ... lie before `stop`. Exact: doubles do not hold all integers.
int64_t steps_between(int64_t start, int64_t stop, int64_t step) {
  check_direction(start, stop, step);
  // Unsigned, so that the whole range fits.
  const auto from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(stop);
  const uint64_t span = step > 0 ? to - from : from - to;
  const uint64_t by = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const uint64_t steps = span / by + (span % by != 0);
  check_steps(steps);
  return static_cast<int64_t>(steps);
}

int64_t steps_between(double start, double stop, double step) {
  WICK_CHECK(std::isfinite(start) && std::isfinite(stop) && std::isfinite(step),
             "arange: not finite: got ", start, " to ", stop, " by ", step,
             ", expected finite numbers");
  check_direction(start, stop, step);
  const double steps = std::ceil((stop - start) / step);
  check_steps(steps);
  return static_cast<int64_t>(steps);
}

// Whole for an integer dtype.
double bound_of(double value, Dtype dtype) {
  return is_floating(dtype) ? value : std::trunc(value);
}

}  // namespace

Tensor arange(Scalar start, Scalar stop, Scalar step, std::optional<Dtype> wanted, Device device) {
  WICK_CHECK(step.to_double() != 0, "arange: step must not be 0: got 0, expected another number");
  const bool whole = start.is_integral() && stop.is_integral() && step.is_integral();
  const Dtype dtype = wanted.value_or(whole ? kInt64 : kFloat32);
  WICK_CHECK(whole || is_floating(dtype),
             "arange: numbers with fractions need a floating dtype: ", "got ", dtype,
             ", expected float32 or the like");
  const int64_t n = whole ? steps_between(start.to_int64(), stop.to_int64(), step.to_int64())
                          : steps_between(start.to_double(), stop.to_double(), step.to_double());
  return apply(Arange{start, step}, empty({n}, dtype, device));
}

Tensor linspace(double start, double stop, int64_t steps, Dtype dtype, Device device) {
  WICK_CHECK(steps >= 0, "linspace: negative number of steps: got ", steps, ", expected 0 or more");
  start = bound_of(start, dtype);
  stop = bound_of(stop, dtype);
  const Tensor values = empty({steps}, kFloat64);
  const double step = steps > 1 ? (stop - start) / static_cast<double>(steps - 1) : 0;
  for (int64_t i = 0; i < steps; ++i) {  // from both ends, so that both are met
    const bool first_half = 2 * i < steps;
    values.data<double>()[i] = first_half ? start + static_cast<double>(i) * step
                                          : stop - static_cast<double>(steps - 1 - i) * step;
  }
  return values.to(dtype).to(device);
}

Tensor logspace(double start, double stop, int64_t steps, double base, Dtype dtype, Device device) {
  const Tensor values = linspace(bound_of(start, dtype), bound_of(stop, dtype), steps, kFloat64);
  for (int64_t i = 0; i < steps; ++i) {
    values.data<double>()[i] = std::pow(base, values.data<double>()[i]);
  }
  return values.to(dtype).to(device);
}

Tensor eye(int64_t rows, std::optional<int64_t> columns, Dtype dtype, Device device) {
  const Tensor x = zeros({rows, columns.value_or(rows)}, dtype, device);
  diagonal(x).fill_(1);
  return x;
}

Tensor from_blob(void* data, const Shape& shape, Dtype dtype, std::function<void()> release,
                 std::optional<Strides> strides, Device device) {
  const int64_t n = checked_numel("from_blob", shape);
  WICK_CHECK(!strides || strides->rank() == shape.rank(), "from_blob: got shape ", shape,
             " and strides ", strides.value_or(Strides()));
  const Strides walk =
      n == 0 ? contiguous_strides(shape) : strides.value_or(contiguous_strides(shape));
  WICK_CHECK(data != nullptr || n == 0, "from_blob: null memory for shape ", shape);
  int64_t span = n == 0 ? 0 : 1;
  for (int i = 0; i < shape.rank() && n > 0; ++i) {
    WICK_CHECK(walk[i] >= 0, "from_blob: negative stride: got ", walk);
    span = checked_add("from_blob", span, checked_mul("from_blob", shape[i] - 1, walk[i]));
  }
  const auto bytes = static_cast<size_t>(checked_mul("from_blob", span, size_of(dtype)));
  auto storage = make_ref<Storage>(data, bytes, device, std::move(release));
  return Tensor(make_ref<TensorImpl>(std::move(storage), 0, shape, walk, dtype));
}

}  // namespace wick
