#include "wick/kernels/cuda/conv_direct.h"

#include "wick/kernels/cuda/common/convert.h"
#include "wick/kernels/cuda/common/launch.h"

namespace wick::cuda {

namespace {

// Sizes of a convolution; channels per group: c and k.
struct Geometry {
  int64_t n, h, w, p, q, r, s, groups, c, k;
  int64_t stride[2], padding[2], dilation[2];

  Geometry(const Shape& x, const Shape& weight, const Shape& y, const Conv2dParams& params)
      : n(x[0]),
        h(x[2]),
        w(x[3]),
        p(y[2]),
        q(y[3]),
        r(weight[2]),
        s(weight[3]),
        groups(params.groups),
        c(weight[1]),
        k(weight[0] / params.groups) {
    for (int axis = 0; axis < 2; ++axis) {
      stride[axis] = params.stride[axis];
      padding[axis] = params.padding[axis];
      dilation[axis] = params.dilation[axis];
    }
  }
  // The image's row or column under tap `tap` of window `o`; may lie in the padding.
  __device__ int64_t source(int axis, int64_t o, int64_t tap) const {
    return o * stride[axis] - padding[axis] + tap * dilation[axis];
  }
  // The window of `windows` whose tap `tap` is on `i`, or -1.
  __device__ int64_t window(int axis, int64_t i, int64_t tap, int64_t windows) const {
    const int64_t from = i + padding[axis] - tap * dilation[axis];
    if (from < 0 || from % stride[axis] != 0 || from / stride[axis] >= windows) return -1;
    return from / stride[axis];
  }
  __device__ int64_t x_at(int64_t image, int64_t row, int64_t column) const {
    return ((image * h + row) * w + column) * groups * c;
  }
  __device__ int64_t y_at(int64_t image, int64_t row, int64_t column) const {
    return ((image * p + row) * q + column) * groups * k;
  }
};

// The parts of an element's place in a channels-last tensor.
struct Place {
  int64_t channel, column, row, image;
  __device__ Place(int64_t i, int64_t channels, int64_t columns, int64_t rows) {
    channel = i % channels;
    i /= channels;
    column = i % columns;
    i /= columns;
    row = i % rows;
    image = i / rows;
  }
};

template <class T>
__global__ void conv2d_direct_forward_kernel(const T* x, const T* weight, const T* bias, T* y,
                                             Geometry g) {
  using L = Accumulator<T>;
  const int64_t count = g.n * g.p * g.q * g.groups * g.k;
  for (int64_t i = global_thread(); i < count; i += global_threads()) {
    const Place at(i, g.groups * g.k, g.q, g.p);
    const int64_t first = at.channel / g.k * g.c;
    L sum = bias == nullptr ? L{0} : convert<L>(bias[at.channel]);
    for (int64_t r = 0; r < g.r; ++r) {
      const int64_t row = g.source(0, at.row, r);
      if (row < 0 || row >= g.h) continue;
      for (int64_t s = 0; s < g.s; ++s) {
        const int64_t column = g.source(1, at.column, s);
        if (column < 0 || column >= g.w) continue;
        const T* px = x + g.x_at(at.image, row, column) + first;
        const T* pw = weight + ((at.channel * g.r + r) * g.s + s) * g.c;
        L part = 0;
        for (int64_t c = 0; c < g.c; ++c) part += convert<L>(px[c]) * convert<L>(pw[c]);
        sum += part;
      }
    }
    y[i] = convert<T>(sum);
  }
}

template <class T>
__global__ void conv2d_direct_backward_data_kernel(const T* dy, const T* weight, T* dx,
                                                   Geometry g) {
  using L = Accumulator<T>;
  const int64_t count = g.n * g.h * g.w * g.groups * g.c;
  for (int64_t i = global_thread(); i < count; i += global_threads()) {
    const Place at(i, g.groups * g.c, g.w, g.h);
    const int64_t first = at.channel / g.c * g.k, c = at.channel % g.c;
    L sum = 0;
    for (int64_t r = 0; r < g.r; ++r) {
      const int64_t p = g.window(0, at.row, r, g.p);
      if (p < 0) continue;
      for (int64_t s = 0; s < g.s; ++s) {
        const int64_t q = g.window(1, at.column, s, g.q);
        if (q < 0) continue;
        const T* pdy = dy + g.y_at(at.image, p, q) + first;
        const T* pw = weight + ((first * g.r + r) * g.s + s) * g.c + c;
        L part = 0;
        for (int64_t k = 0; k < g.k; ++k) {
          part += convert<L>(pdy[k]) * convert<L>(pw[k * g.r * g.s * g.c]);
        }
        sum += part;
      }
    }
    dx[i] = convert<T>(sum);
  }
}

constexpr int kWarps = 8;

// Each block: 32 elements of dweight over the chunk's share of the rows of all images, which its
// warps deal out among them. Elements are counted in the order r, s, k, c, for the sake of
// neighbouring channels. sums: [chunks, elements].
template <class T>
__global__ void conv2d_direct_backward_weights_kernel(const T* x, const T* dy, double* sums,
                                                      int64_t tiles, int64_t chunks, Geometry g) {
  using L = Accumulator<T>;
  WICK_SHARED(double, partial, kWarps* kWarp);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t kernels = g.groups * g.k, elements = g.r * g.s * kernels * g.c;
  const int64_t chunk = blockIdx.x / tiles, element = blockIdx.x % tiles * kWarp + lane;
  double sum = 0;
  if (element < elements) {
    const Place at(element, g.c, kernels, g.s);
    const int64_t k = at.column, s = at.row, r = at.image;
    const int64_t channel = k / g.k * g.c + at.channel;
    const int64_t rows = g.n * g.p, end = rows * (chunk + 1) / chunks;
    for (int64_t line = rows * chunk / chunks + warp; line < end; line += kWarps) {
      const int64_t image = line / g.p, p = line % g.p, row = g.source(0, p, r);
      if (row < 0 || row >= g.h) continue;
      L part = 0;
      for (int64_t q = 0; q < g.q; ++q) {
        const int64_t column = g.source(1, q, s);
        if (column < 0 || column >= g.w) continue;
        part += convert<L>(x[g.x_at(image, row, column) + channel]) *
                convert<L>(dy[g.y_at(image, p, q) + k]);
      }
      sum += static_cast<double>(part);
    }
  }
  partial[warp * kWarp + lane] = sum;
  __syncthreads();
  if (warp == 0 && element < elements) {
    for (int other = 1; other < kWarps; ++other) sum += partial[other * kWarp + lane];
    sums[chunk * elements + element] = sum;
  }
}

template <class T>
__global__ void conv2d_direct_join_kernel(const double* sums, T* dweight, int64_t chunks,
                                          Geometry g) {
  const int64_t kernels = g.groups * g.k, elements = g.r * g.s * kernels * g.c;
  for (int64_t i = global_thread(); i < elements; i += global_threads()) {
    double sum = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) sum += sums[chunk * elements + i];
    const Place at(i, g.c, kernels, g.s);
    dweight[((at.column * g.r + at.image) * g.s + at.row) * g.c + at.channel] =
        convert<T>(static_cast<Accumulator<T>>(sum));
  }
}

}  // namespace

void direct_forward(const View& x, const View& weight, const View& bias, const View& y,
                    const Conv2dParams& params) {
  const Geometry g(x.shape, weight.shape, y.shape, params);
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    launch("conv2d", y.device, grid_for(y.device, y.numel()), conv2d_direct_forward_kernel<T>,
           x.as<T>(), weight.as<T>(), bias.as<T>(), y.as<T>(), g);
  });
}

void direct_backward_data(const View& dy, const View& weight, const View& dx,
                          const Conv2dParams& params) {
  const Geometry g(dx.shape, weight.shape, dy.shape, params);
  visit_floating(dx.dtype, [&]<class T>(Type<T>) {
    launch("conv2d_backward_input", dx.device, grid_for(dx.device, dx.numel()),
           conv2d_direct_backward_data_kernel<T>, dy.as<T>(), weight.as<T>(), dx.as<T>(), g);
  });
}

void direct_backward_weights(const View& x, const View& dy, const View& dweight,
                             const Conv2dParams& params, Workspace& workspace) {
  constexpr const char* kName = "conv2d_backward_weight";
  constexpr int64_t kBlocks = 2048, kLines = 4 * kWarps;  // enough of both for a chunk each
  const Geometry g(x.shape, dweight.shape, dy.shape, params);
  const int64_t elements = dweight.numel(), tiles = (elements + kWarp - 1) / kWarp;
  const int64_t chunks = std::max<int64_t>(1, std::min(kBlocks / tiles, g.n * g.p / kLines));
  auto* const sums =
      static_cast<double*>(workspace.allocate(static_cast<size_t>(chunks * elements) * 8));
  visit_floating(x.dtype, [&]<class T>(Type<T>) {
    const Grid grid{dim3(static_cast<unsigned>(tiles * chunks)), dim3(kWarps * kWarp)};
    launch(kName, x.device, grid, conv2d_direct_backward_weights_kernel<T>, x.as<T>(), dy.as<T>(),
           sums, tiles, chunks, g);
    launch(kName, x.device, grid_for(x.device, elements), conv2d_direct_join_kernel<T>, sums,
           dweight.as<T>(), chunks, g);
  });
}

}  // namespace wick::cuda
