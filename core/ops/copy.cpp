#include "wick/kernels/copy.h"
#include "wick/core/apply.h"
#include "wick/core/ops/elementwise_op.h"

namespace wick {

namespace {

void run_copy(const Tensor& from, const Tensor& to) {
  const View x = from.view_for_kernel(), y = to.view_for_kernel();
  WICK_DISPATCH(to.device().is_cuda() ? to.device() : from.device(), copy(x, y));
}

struct Cast {
  static constexpr OpInfo info{.name = "cast"};
  Dtype dtype;
  static constexpr auto fields = std::tuple{field("dtype", &Cast::dtype)};

  Tensor forward(Saved&, const Tensor& x) const {
    const Tensor y = empty_like(x, dtype);
    run_copy(x, y);
    return y;
  }
  Gradients backward(const Saved& saved, const Tensor& dy) const {
    return {dy.to(saved.input(0).dtype)};
  }
};

struct Clone {
  static constexpr OpInfo info{.name = "clone"};
  MemoryFormat format;

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
  static constexpr OpInfo info{.name = "copy_", .mutates = 1, .broadcasts = true};

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
  static constexpr OpInfo info{.name = "fill_", .mutates = 1};
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
  return this->dtype() == dtype ? *this : apply(Cast{dtype}, *this);
}

Tensor Tensor::contiguous(MemoryFormat format) const {
  return is_contiguous(format) ? *this : clone(format);
}

Tensor Tensor::clone(MemoryFormat format) const { return apply(Clone{format}, *this); }

const Tensor& Tensor::copy_(const Tensor& source, bool /*non_blocking*/) const {
  if (device() == source.device()) {
    apply(CopyInPlace{}, *this, source);
    return *this;
  }
  WICK_CHECK(!grad_enabled() || !(requires_grad() || source.requires_grad()),
             "copy_: between devices it records no gradient: use to(device)");
  check_writable("copy_", *this, broadcast_shapes("copy_", shape(), source.shape()), dtype());
  run_copy(source, *this);
  impl()->storage->bump_version();
  return *this;
}

const Tensor& Tensor::fill_(Scalar value) const {
  apply(FillInPlace{value}, *this);
  return *this;
}

}  // namespace wick
