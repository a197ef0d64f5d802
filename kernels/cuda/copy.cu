#include "wick/kernels/copy.h"

#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/cuda/common/offsets.h"
#include "wick/kernels/progression.h"

namespace wick::cuda {

namespace {

template <class From, class To>
__global__ void copy_strided_kernel(const From* x, To* y, LoopNest<2> nest) {
  for (int64_t i = global_thread(); i < nest.numel; i += global_threads()) {
    const Offsets<2> at(nest, i);
    y[at.offset[0]] = convert<To>(x[at.offset[1]]);
  }
}

template <class T>
__global__ void fill_kernel(T* y, T value, LoopNest<1> nest) {
  for (int64_t i = global_thread(); i < nest.numel; i += global_threads()) {
    y[Offsets<1>(nest, i).offset[0]] = value;
  }
}

template <class T>
__global__ void arange_kernel(T* y, int64_t n, Progression<T> at) {
  for (int64_t i = global_thread(); i < n; i += global_threads()) y[i] = at(i);
}

}  // namespace

void copy(const View& x, const View& y) {
  const View* views[] = {&y, &x};
  const LoopNest<2> nest(views, 2);
  if (x.dtype == y.dtype && nest.rank == 1 && nest.strides[0][0] == 1 && nest.strides[1][0] == 1) {
    const size_t bytes = static_cast<size_t>(nest.numel * size_of(y.dtype));
    const cudaStream_t stream = enter_device(y.device);
    WICK_CUDA_CALL(cudaMemcpyAsync, y.data, x.data, bytes, cudaMemcpyDeviceToDevice, stream);
    return;
  }
  visit_dtype(x.dtype, [&]<class From>(Type<From>) {
    visit_dtype(y.dtype, [&]<class To>(Type<To>) {
      launch("copy", y.device, grid_for(nest.numel), copy_strided_kernel<From, To>, x.as<From>(),
             y.as<To>(), nest);
    });
  });
}

void fill(const View& y, double real, int64_t integer) {
  const View* views[] = {&y};
  const LoopNest<1> nest(views, 1);
  visit_dtype(y.dtype, [&]<class T>(Type<T>) {
    T value;
    if constexpr (is_floating(dtype_of<T>)) {
      value = T(static_cast<typename ArithmeticOf<T>::type>(real));
    } else {
      value = static_cast<T>(integer);
    }
    launch("fill", y.device, grid_for(nest.numel), fill_kernel<T>, y.as<T>(), value, nest);
  });
}

void arange(const View& y, double start, double step, int64_t first, int64_t by) {
  visit_dtype(y.dtype, [&]<class T>(Type<T>) {
    launch("arange", y.device, grid_for(y.numel()), arange_kernel<T>, y.as<T>(), y.numel(),
           Progression<T>(start, step, first, by));
  });
}

}  // namespace wick::cuda
