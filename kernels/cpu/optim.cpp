#include "wick/kernels/optim.h"

#include <math.h>

#include "wick/core/base/parallel.h"

namespace wick::WICK_ISA {

namespace {

constexpr int64_t kChunk = 16384;

// Calls update(tensor, begin, end) for all elements of all tensors, as one parallel loop over
// chunks: thousands of small tensors cost as much as one large one.
template <class Update>
void for_each_chunk(const OptimTensor* tensors, int64_t count, const Update& update) {
  int64_t chunks = 0;
  for (int64_t i = 0; i < count; ++i) chunks += (tensors[i].param.numel() + kChunk - 1) / kChunk;
  parallel_for(chunks, 4, [&](int64_t first, int64_t last) {
    int64_t before = 0;
    for (int64_t i = 0; i < count && before < last; ++i) {
      const int64_t n = tensors[i].param.numel();
      const int64_t own = (n + kChunk - 1) / kChunk;
      const int64_t from = first > before ? first - before : 0;
      const int64_t to = last - before < own ? last - before : own;
      if (from < to) update(tensors[i], from * kChunk, to * kChunk < n ? to * kChunk : n);
      before += own;
    }
  });
}

template <class T>
void sgd(const OptimTensor& tensor, int64_t begin, int64_t end, const SgdArgs& args) {
  T* __restrict w = tensor.param.as<T>();
  const T* __restrict g = tensor.grad.as<T>();
  const T lr = T(args.lr), decay = T(args.weight_decay), sign = args.maximize ? T(-1) : T(1);
  if (args.momentum == 0) {
    for (int64_t i = begin; i < end; ++i) w[i] -= lr * (sign * g[i] + decay * w[i]);
    return;
  }
  T* __restrict buffer = tensor.state[0].as<T>();
  // The first step copies the gradient into the buffer, whatever the dampening.
  const T keep = tensor.step == 1 ? T(0) : T(args.momentum);
  const T take = tensor.step == 1 ? T(1) : T(1 - args.dampening);
  const T momentum = T(args.momentum);
  if (args.nesterov) {
    for (int64_t i = begin; i < end; ++i) {
      const T d = sign * g[i] + decay * w[i];
      const T b = keep * buffer[i] + take * d;
      buffer[i] = b;
      w[i] -= lr * (d + momentum * b);
    }
  } else {
    for (int64_t i = begin; i < end; ++i) {
      const T d = sign * g[i] + decay * w[i];
      const T b = keep * buffer[i] + take * d;
      buffer[i] = b;
      w[i] -= lr * b;
    }
  }
}

template <class T, bool kAmsgrad>
void adam(const OptimTensor& tensor, int64_t begin, int64_t end, const AdamArgs& args) {
  T* __restrict w = tensor.param.as<T>();
  const T* __restrict g = tensor.grad.as<T>();
  T* __restrict m = tensor.state[0].as<T>();
  T* __restrict v = tensor.state[1].as<T>();
  T* __restrict largest = kAmsgrad ? tensor.state[2].as<T>() : nullptr;
  const double step = static_cast<double>(tensor.step);
  const T step_size = T(args.lr / (1 - ::pow(args.beta1, step)));
  const T inverse_root = T(1 / ::sqrt(1 - ::pow(args.beta2, step)));
  const T shrink = args.decoupled ? T(1 - args.lr * args.weight_decay) : T(1);
  const T l2 = args.decoupled ? T(0) : T(args.weight_decay);
  const T beta1 = T(args.beta1), one_minus_beta1 = T(1 - args.beta1);
  const T beta2 = T(args.beta2), one_minus_beta2 = T(1 - args.beta2);
  const T eps = T(args.eps), sign = args.maximize ? T(-1) : T(1);
  for (int64_t i = begin; i < end; ++i) {
    const T d = sign * g[i] + l2 * w[i];
    const T first = beta1 * m[i] + one_minus_beta1 * d;
    T second = beta2 * v[i] + one_minus_beta2 * d * d;
    m[i] = first;
    v[i] = second;
    if constexpr (kAmsgrad) {
      second = second > largest[i] ? second : largest[i];
      largest[i] = second;
    }
    w[i] = shrink * w[i] - step_size * first / (T(::sqrt(second)) * inverse_root + eps);
  }
}

template <class T>
void adam(const OptimTensor& tensor, int64_t begin, int64_t end, const AdamArgs& args) {
  if (args.amsgrad) return adam<T, true>(tensor, begin, end, args);
  adam<T, false>(tensor, begin, end, args);
}

}  // namespace

void sgd_step(const OptimTensor* tensors, int64_t count, const SgdArgs& args) {
  for_each_chunk(tensors, count, [&](const OptimTensor& t, int64_t begin, int64_t end) {
    if (t.param.dtype == Dtype::kFloat64) return sgd<double>(t, begin, end, args);
    sgd<float>(t, begin, end, args);
  });
}

void adam_step(const OptimTensor* tensors, int64_t count, const AdamArgs& args) {
  for_each_chunk(tensors, count, [&](const OptimTensor& t, int64_t begin, int64_t end) {
    if (t.param.dtype == Dtype::kFloat64) return adam<double>(t, begin, end, args);
    adam<float>(t, begin, end, args);
  });
}

}  // namespace wick::WICK_ISA
