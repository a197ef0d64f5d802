#include "wick/kernels/cpu/products/im2col.h"

#include <algorithm>
#include <cstring>

#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/products/gemm.h"

namespace wick::cpu {

namespace {

// The patch matrix is made for some images at a time, to stay near this many bytes.
constexpr int64_t kPatchBytes = int64_t{32} << 20;

// Sizes of one group's convolution, of which `c` and `k` are channels per group.
struct Problem {
  int64_t n, c, h, w, k, r, s, p, q, groups;
  int64_t columns;         // of the patch matrix: r * s * c
  int64_t rows_per_image;  // of the patch matrix: p * q
  int64_t images_per_chunk;
  Conv2dParams params;

  Problem(const Shape& x, const Shape& weight, const Shape& y, int64_t element_bytes,
          const Conv2dParams& conv)
      : n(x[0]),
        c(weight[1]),
        h(x[2]),
        w(x[3]),
        k(weight[0] / conv.groups),
        r(weight[2]),
        s(weight[3]),
        p(y[2]),
        q(y[3]),
        groups(conv.groups),
        columns(r * s * c),
        rows_per_image(p * q),
        images_per_chunk(std::clamp<int64_t>(
            kPatchBytes / std::max<int64_t>(1, columns * rows_per_image * element_bytes), 1, n)),
        params(conv) {}

  // A 1x1 convolution's patch matrix is the image itself.
  bool patches_are_image() const {
    return r == 1 && s == 1 && params.stride[0] == 1 && params.stride[1] == 1 &&
           params.padding[0] == 0 && params.padding[1] == 0;
  }
  int64_t chunk_rows() const { return images_per_chunk * rows_per_image; }
};

const char* at(const View& x, int64_t element) { return x.as<char>() + element * size_of(x.dtype); }
char* mutable_at(const View& x, int64_t element) {
  return x.as<char>() + element * size_of(x.dtype);
}

// The patches of images [first, last), group `group`: row (n, p, q), column (r, s, c).
void gather(const Problem& problem, const View& x, int64_t group, int64_t first, int64_t last,
            char* patches) {
  parallel_for((last - first) * problem.p, 1, [&](int64_t begin, int64_t end) {
    const Problem d = problem;  // a copy stays in registers while bytes are written
    const int64_t bytes = size_of(x.dtype), pixel = d.groups * d.c * bytes;
    const auto run = static_cast<size_t>(d.c * bytes);
    const char* const images = at(x, group * d.c);
    for (int64_t line = begin; line < end; ++line) {
      const int64_t image = first + line / d.p, p = line % d.p;
      char* out = patches + line * d.q * d.columns * bytes;
      for (int64_t q = 0; q < d.q; ++q) {
        for (int64_t r = 0; r < d.r; ++r) {
          const int64_t y = p * d.params.stride[0] - d.params.padding[0] + r * d.params.dilation[0];
          for (int64_t s = 0; s < d.s; ++s, out += run) {
            const int64_t xx =
                q * d.params.stride[1] - d.params.padding[1] + s * d.params.dilation[1];
            if (y < 0 || y >= d.h || xx < 0 || xx >= d.w) {
              std::memset(out, 0, run);
            } else {
              std::memcpy(out, images + ((image * d.h + y) * d.w + xx) * pixel, run);
            }
          }
        }
      }
    }
  });
}

// The matrix of patches: gathered into `buffer`, or x itself.
Matrix patch_matrix(const Problem& d, const View& x, int64_t group, int64_t first, int64_t last,
                    char* buffer) {
  if (d.patches_are_image()) {
    return {at(x, first * d.h * d.w * d.groups * d.c + group * d.c), d.groups * d.c, 1};
  }
  gather(d, x, group, first, last, buffer);
  return {buffer, d.columns, 1};
}

// Adds up, for every element of images [first, last) of dx, the patch elements it was copied to.
template <class T, class Sum>
void scatter(const Problem& d, const Sum* patches, int64_t group, int64_t first, int64_t last,
             T* dx, Workspace& workspace) {
  const Conv2dParams& params = d.params;
  const int64_t pixel = d.groups * d.c, lines = (last - first) * d.h, threads = num_threads();
  const int64_t row_size = d.w * d.c;
  // Taps that are neighbours in the image are added as one run.
  const int64_t taps = params.dilation[1] == 1 ? d.s : 1;
  Sum* const sums =
      static_cast<Sum*>(workspace.allocate(static_cast<size_t>(threads * row_size) * sizeof(Sum)));
  parallel_for_threads(lines, threads, [&](int64_t thread, int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t image = line / d.h, y = line % d.h;
      T* out = dx + ((first + image) * d.h + y) * d.w * pixel + group * d.c;
      Sum* sum = sums + thread * row_size;
      if constexpr (std::is_same_v<T, Sum>) {
        if (d.groups == 1) sum = out;
      }
      std::fill_n(sum, row_size, Sum(0));
      for (int64_t r = 0; r < d.r; ++r) {
        const int64_t py = y + params.padding[0] - r * params.dilation[0];
        if (py < 0 || py % params.stride[0] != 0 || py / params.stride[0] >= d.p) continue;
        const Sum* patch = patches + (image * d.p + py / params.stride[0]) * d.q * d.columns;
        for (int64_t q = 0; q < d.q; ++q, patch += d.columns) {
          for (int64_t s = 0; s < d.s; s += taps) {
            const int64_t x = q * params.stride[1] - params.padding[1] + s * params.dilation[1];
            const int64_t from = std::max<int64_t>(0, -x), to = std::min(taps, d.w - x);
            const Sum* const run = patch + (r * d.s + s) * d.c;
            for (int64_t i = from * d.c; i < to * d.c; ++i) sum[x * d.c + i] += run[i];
          }
        }
      }
      if constexpr (std::is_same_v<T, Sum>) {
        if (sum == out) continue;
      }
      for (int64_t x = 0; x < d.w; ++x, out += pixel) {
        for (int64_t c = 0; c < d.c; ++c) out[c] = static_cast<T>(sum[x * d.c + c]);
      }
    }
  });
  workspace.release(sums);
}

// What the matrix products of a dtype are summed in.
Dtype sum_dtype(Dtype dtype) { return dtype == kBFloat16 ? kFloat32 : dtype; }

}  // namespace

void im2col_forward(const View& x, const View& weight, const ConvEpilogue& epilogue, const View& y,
                    const Conv2dParams& params, Workspace& workspace) {
  const Problem d(x.shape, weight.shape, y.shape, size_of(x.dtype), params);
  const int64_t bytes = size_of(x.dtype);
  const int64_t size = d.patches_are_image() ? 0 : d.chunk_rows() * d.columns * bytes;
  char* patches = static_cast<char*>(workspace.allocate(static_cast<size_t>(size)));
  for (int64_t first = 0; first < d.n; first += d.images_per_chunk) {
    const int64_t last = std::min(first + d.images_per_chunk, d.n);
    const int64_t rows = (last - first) * d.rows_per_image;
    for (int64_t g = 0; g < d.groups; ++g) {
      const Matrix a = patch_matrix(d, x, g, first, last, patches);
      const Matrix b{at(weight, g * d.k * d.columns), 1, d.columns};
      const View &bias = epilogue.bias, &residual = epilogue.residual;
      const void* group_bias = bias.defined() ? at(bias, g * d.k) : nullptr;
      const int64_t begin = first * d.rows_per_image * d.groups * d.k + g * d.k;
      void* const results = mutable_at(y, begin);
      const Finish finish{residual.defined() ? at(residual, begin) : nullptr,
                          epilogue.relu ? Activation::kRelu : Activation::kNone, results};
      gemm({rows, d.k, d.columns}, x.dtype, a, b, group_bias, x.dtype, results, d.groups * d.k,
           false, finish, workspace);
    }
  }
}

void im2col_backward_data(const View& dy, const View& weight, const View& dx,
                          const Conv2dParams& params, Workspace& workspace) {
  const Dtype sum = sum_dtype(dy.dtype);
  const Problem d(dx.shape, weight.shape, dy.shape, size_of(sum), params);
  const auto size = static_cast<size_t>(d.chunk_rows() * d.columns * size_of(sum));
  void* patches = workspace.allocate(size);
  for (int64_t first = 0; first < d.n; first += d.images_per_chunk) {
    const int64_t last = std::min(first + d.images_per_chunk, d.n);
    const int64_t rows = (last - first) * d.rows_per_image;
    for (int64_t g = 0; g < d.groups; ++g) {
      const Matrix a{at(dy, first * d.rows_per_image * d.groups * d.k + g * d.k), d.groups * d.k,
                     1};
      const Matrix b{at(weight, g * d.k * d.columns), d.columns, 1};
      gemm({rows, d.columns, d.k}, dy.dtype, a, b, nullptr, sum, patches, d.columns, false, {},
           workspace);
      visit_floating(dx.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
        scatter(d, static_cast<const Sum*>(patches), g, first, last, dx.as<T>(), workspace);
      });
    }
  }
}

void im2col_backward_weights(const View& x, const View& dy, const View& dweight,
                             const Conv2dParams& params, Workspace& workspace) {
  const Problem d(x.shape, dweight.shape, dy.shape, size_of(x.dtype), params);
  const bool chunked = d.images_per_chunk < d.n;
  const Dtype sum = chunked ? sum_dtype(x.dtype) : x.dtype;
  char* sums = dweight.as<char>();
  if (sum != x.dtype) {
    sums =
        static_cast<char*>(workspace.allocate(static_cast<size_t>(dweight.numel() * size_of(sum))));
  }
  const int64_t size = d.patches_are_image() ? 0 : d.chunk_rows() * d.columns * size_of(x.dtype);
  char* patches = static_cast<char*>(workspace.allocate(static_cast<size_t>(size)));
  for (int64_t first = 0; first < d.n; first += d.images_per_chunk) {
    const int64_t last = std::min(first + d.images_per_chunk, d.n);
    const int64_t rows = (last - first) * d.rows_per_image;
    for (int64_t g = 0; g < d.groups; ++g) {
      const Matrix b = patch_matrix(d, x, g, first, last, patches);
      const Matrix a{at(dy, first * d.rows_per_image * d.groups * d.k + g * d.k), 1,
                     d.groups * d.k};
      gemm({d.k, d.columns, rows}, x.dtype, a, b, nullptr, sum,
           sums + g * d.k * d.columns * size_of(sum), d.columns, first > 0, {}, workspace);
    }
  }
  if (sum != x.dtype) {
    const float* from = reinterpret_cast<const float*>(sums);
    for (int64_t i = 0; i < dweight.numel(); ++i) dweight.as<BFloat16>()[i] = BFloat16(from[i]);
  }
}

}  // namespace wick::cpu
