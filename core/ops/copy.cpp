#include "wick/core/apply.h"
#include "wick/core/detail/capture.h"
#include "wick/core/profile/span.h"
#include "wick/core/stream.h"
#ifdef WICK_HAS_CUDA
#include "wick/core/cuda/runtime.h"
#endif
#include "wick/core/ops/detail/elementwise_op.h"
#include "wick/kernels/copy.h"
#include "wick/kernels/elementwise_chain.h"
#include "wick/kernels/elementwise_ops_arithmetic.h"

namespace wick {

namespace {

void run_copy(const Tensor& from, const Tensor& to) {
  const View x = from.view_for_kernel(), y = to.view_for_kernel();
  WICK_DISPATCH(to.device(), copy(x, y));
}

/// Copies the memory of dense tensors of one dtype and layout that lie on different devices, at
/// least one of them a GPU.
void copy_memory(const Tensor& from, const Tensor& to, [[maybe_unused]] bool non_blocking) {
  const bool to_host = to.device().is_cpu(), from_host = from.device().is_cpu();
  const Stream stream = current_stream(to_host ? from.device() : to.device());
  if (!to_host && !from_host) {  // between GPUs: behind the work of both streams
    Event written(from.device());
    written.record();
    written.block(stream);
    from.record_stream(stream);
  }
  [[maybe_unused]] const auto bytes = static_cast<size_t>(to.numel() * size_of(to.dtype()));
  profile::Span span(profile::EventKind::kCopy,
                     to_host ? "Memcpy DtoH" : (from_host ? "Memcpy HtoD" : "Memcpy PtoP"));
  if (span) [[unlikely]] {
    profile::Event& event = span.event();
    event.device = stream.device;
    event.stream = stream.handle;
    event.bytes = static_cast<int64_t>(bytes);
  }
  if (to_host || from_host) {
    WICK_CALL_CUDA(copy_bytes(to.raw_data(), from.raw_data(), bytes, stream));
  } else {
    WICK_CALL_CUDA(
        copy_between(to.raw_data(), to.device(), from.raw_data(), from.device(), bytes, stream));
  }
  if (!to_host && !from_host) {  // what is done to `from` next comes behind the copy
    Event read(to.device());
    read.record(stream);
    read.block(current_stream(from.device()));
    return;
  }
  const Tensor& host = to_host ? to : from;
  if (non_blocking && host.is_pinned()) {
    host.record_stream(stream);
  } else {  // also for memory that is not pinned: some GPUs read it by themselves, and later
    try {
      synchronize(stream);
    } catch (...) {  // the copy may be under way yet
      host.record_stream(stream);
      throw;
    }
  }
}

struct CopyAcrossDevices {
  static constexpr int64_t kMostStaged = int64_t{1} << 20;  // bytes; more is not pinned unasked
  static constexpr OpInfo info{.name = "copy_",
                               .mutates = 1,
                               .differentiable = false,
                               .any_device = true,
                               .overwrites = true};
  bool non_blocking = false;
  static constexpr auto fields =
      std::tuple{field("non_blocking", &CopyAcrossDevices::non_blocking)};

  Tensor forward(Saved&, const Tensor& self, const Tensor& source) const {
    check_writable(info.name, self, broadcast_shapes(info.name, self.shape(), source.shape()),
                   self.dtype());
    if (self.numel() == 0) return self;
    for (const Device device : {self.device(), source.device()}) {
      refuse_in_capture(device, "copy from or to another device");
    }
    // Conversions and changes of layout happen on either side, never across.
    const bool dense = is_dense(self.shape(), self.strides());
    const Strides strides = dense ? self.strides() : contiguous_strides(self.shape());
    Tensor from = source;
    const bool alike = source.dtype() == self.dtype() && source.shape() == self.shape() &&
                       source.strides() == strides;
    if (!alike) {
      from = empty_strided(self.shape(), strides, self.dtype(), source.device());
      run_copy(source, from);
    }
    const Tensor to =
        dense ? self : empty_strided(self.shape(), strides, self.dtype(), self.device());
    const bool goes_on = non_blocking && alike && dense;
    const bool is_small = from.numel() * size_of(from.dtype()) <= kMostStaged;
    if (goes_on && is_small && from.device().is_cpu()) from = from.pin_memory();
    copy_memory(from, to, goes_on);
    if (!dense) run_copy(to, self);
    return self;
  }
};

// In a fused chain a cast is a step as any other; alone it is a copy.
struct Cast : fn::Identity {
  static constexpr OpInfo info{.name = "cast", .elementwise = true};
  Dtype dtype = kFloat32;
  static constexpr auto fields = std::tuple{field("dtype", &Cast::dtype)};

  Tensor forward(Saved&, const Tensor& x) const {
    const Tensor y = empty_like(x, dtype);
    if (elementwise_capture() == nullptr) {
      run_copy(x, y);
    } else {
      const fn::Identity& f = *this;
      run_functor(f, x.dtype(), y, x);
    }
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {dy.to(saved.input(0).dtype)};
  }
};

struct Clone {
  static constexpr OpInfo info{.name = "clone"};
  MemoryFormat format;
  static constexpr auto fields = std::tuple{field("format", &Clone::format)};

  Tensor forward(Saved&, const Tensor& x) const {
    const Tensor y = format == MemoryFormat::kPreserve
                         ? empty_like(x)
                         : empty(x.shape(), x.dtype(), x.device(), format);
    run_copy(x, y);
    return y;
  }
  Gradients backward(const Saved&, const Tensor& dy) const { return {dy}; }
};

struct CopyInPlace {
  static constexpr OpInfo info{
      .name = "copy_", .mutates = 1, .broadcasts = true, .overwrites = true};

  Tensor forward(Saved&, const Tensor& self, const Tensor& source) const {
    check_writable(info.name, self, broadcast_shapes(info.name, self.shape(), source.shape()),
                   self.dtype());
    if (!self.is_same(source)) run_copy(without_overlap(self, source), self);
    return self;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {Tensor(), saved.needs(1) ? dy.to(saved.input(1).dtype) : Tensor()};
  }
};

struct FillInPlace {
  static constexpr OpInfo info{.name = "fill_", .mutates = 1, .overwrites = true};
  Scalar value;
  static constexpr auto fields = std::tuple{field("value", &FillInPlace::value)};

  Tensor forward(Saved&, const Tensor& self) const {
    check_writable(info.name, self, self.shape(), self.dtype());
    const View y = self.view_for_kernel();
    const double real = value.to_double();
    const int64_t integer = self.dtype() == kBool && real != 0 ? 1 : value.to_int64();
    WICK_DISPATCH(self.device(), fill(y, real, integer));
    return self;
  }
  Gradients backward(const Saved&, const Tensor&) const { return {Tensor()}; }
};

}  // namespace

Tensor Tensor::to(Dtype dtype) const {
  return this->dtype() == dtype ? *this : apply(Cast{{}, dtype}, *this);
}

Tensor Tensor::contiguous(MemoryFormat format) const {
  return is_contiguous(format) ? *this : clone(format);
}

Tensor Tensor::clone(MemoryFormat format) const { return apply(Clone{format}, *this); }

const Tensor& Tensor::copy_(const Tensor& source, bool non_blocking) const {
  if (device() == source.device()) {
    apply(CopyInPlace{}, *this, source);
    return *this;
  }
  WICK_CHECK(!grad_enabled() || !(requires_grad() || source.requires_grad()),
             "copy_: between devices it records no gradient: use to(device)");
  apply(CopyAcrossDevices{non_blocking}, *this, source);
  return *this;
}

const Tensor& Tensor::fill_(Scalar value) const {
  apply(FillInPlace{value}, *this);
  return *this;
}

}  // namespace wick
