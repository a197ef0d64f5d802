#include "wick/kernels/cpu/winograd.h"

#include "wick/kernels/cpu/channels_last.h"
#include "wick/kernels/cpu/winograd_transform.h"

namespace wick::WICK_ISA {

namespace {

using namespace winograd;

constexpr int64_t kLanes = VecF::size;
// Rows and vectors of the block of a product that stays in registers.
constexpr int kRows = kLanes == 16 ? 12 : 6;
constexpr int kGradRows = kLanes == 16 ? 8 : 4;
constexpr int kVectors = 2;
constexpr int64_t kPanel = kVectors * kLanes;
// Rows of transformed tiles are this much longer than their channels, so that rows whose distance
// is a power of two do not compete for the same lines of the cache.
constexpr int64_t kGap = 16;
// Tiles whose transforms one thread holds at a time: few, to stay in its cache, but enough to use
// what is loaded of the kernels more than once.
constexpr int64_t kBlockBytes = int64_t{512} << 10;
constexpr int64_t kMinBlock = 24;
constexpr int64_t kMaxBlock = 96;
// Transformed weights of this size leave the near caches: threads share out few tiles' products by
// weights then, not by tiles, so that each weight is read once.
constexpr int64_t kFarWeights = int64_t{1} << 20;
// The weights' gradient is summed over groups of tiles of this size.
constexpr int64_t kGroupBytes = int64_t{8} << 20;

WICK_INLINE float* floats(Workspace& workspace, int64_t count) {
  return static_cast<float*>(workspace.allocate(static_cast<size_t>(count) * sizeof(float)));
}

/// The tiles of 4x4 elements that cover the results of a convolution.
struct Tiles {
  int64_t rows, columns, count;
  int64_t padding[2];

  WICK_INLINE Tiles(const View& y, const int64_t* pad)
      : rows((y.shape[2] + kOut - 1) / kOut),
        columns((y.shape[3] + kOut - 1) / kOut),
        count(y.shape[0] * rows * columns),
        padding{pad[0], pad[1]} {}
};

/// Where one tile is: its image and first element.
struct Tile {
  int64_t image, y, x;
  WICK_INLINE Tile(const Tiles& tiles, int64_t index)
      : image(index / (tiles.rows * tiles.columns)),
        y(index / tiles.columns % tiles.rows * kOut),
        x(index % tiles.columns * kOut) {}
};

/// Transforms `size` x `size` elements of `image` from (y, x) on; elements outside are 0. Element
/// `point` of the result goes to out + point * step.
template <class Transform, class T>
WICK_INLINE void transform_tile(const Images<const T>& image, int64_t n, int64_t y, int64_t x,
                                const T* zeros, float* out, int64_t step) {
  constexpr int size = Transform::kFrom;
  const T* from[size * size];
  for (int i = 0; i < size; ++i) {
    for (int j = 0; j < size; ++j) {
      const bool inside = y + i >= 0 && y + i < image.h && x + j >= 0 && x + j < image.w;
      from[i * size + j] = inside ? image.pixel(n, y + i, x + j) : zeros;
    }
  }
  for (int64_t c = 0; c < image.c; c += kLanes) {
    transform<Transform>([&](int i, int j) { return VecF::load(from[i * size + j] + c); },
                         [&](int i, int j, VecF v) { v.store(out + (i * kIn + j) * step + c); });
  }
}

/// Rows x (Vectors * lanes) elements of c = a b (+ c): a(i, k) = a[i * a_row + k * a_step], rows k
/// of b are b_step apart, rows of c are c_row apart.
template <int Rows, int Vectors>
WICK_INLINE void multiply_block(int64_t depth, const float* a, int64_t a_row, int64_t a_step,
                                const float* b, int64_t b_step, float* c, int64_t c_row,
                                bool accumulate) {
  VecF sums[Rows][Vectors];
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) {
      sums[i][j] = accumulate ? VecF::load(c + i * c_row + j * kLanes) : VecF(0);
    }
  }
  for (int64_t k = 0; k < depth; ++k, a += a_step, b += b_step) {
    VecF right[Vectors];
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) right[j] = VecF::load(b + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const VecF left(a[i * a_row]);
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) sums[i][j] = fma(left, right[j], sums[i][j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) sums[i][j].store(c + i * c_row + j * kLanes);
  }
}

/// The same for `vectors` vectors, 1 or kVectors.
template <int Rows>
WICK_INLINE void multiply_panel(int64_t vectors, int64_t depth, const float* a, int64_t a_row,
                                int64_t a_step, const float* b, int64_t b_step, float* c,
                                int64_t c_row, bool accumulate) {
  if (vectors == kVectors) {
    multiply_block<Rows, kVectors>(depth, a, a_row, a_step, b, b_step, c, c_row, accumulate);
  } else {
    multiply_block<Rows, 1>(depth, a, a_row, a_step, b, b_step, c, c_row, accumulate);
  }
}

/// The same for up to Rows rows: an odd number of them computes, and writes, one row more.
template <int Rows>
WICK_INLINE void multiply_some(int64_t rows, int64_t vectors, int64_t depth, const float* a,
                               int64_t a_row, const float* b, int64_t b_step, float* c,
                               int64_t c_row) {
  if constexpr (Rows > 2) {
    if (rows <= Rows - 2) {
      return multiply_some<Rows - 2>(rows, vectors, depth, a, a_row, b, b_step, c, c_row);
    }
  }
  multiply_panel<Rows>(vectors, depth, a, a_row, 1, b, b_step, c, c_row, false);
}

/// The weights as the products want them: transformed, for each point panels of up to kPanel
/// outputs, in a panel row by row of inputs. `swapped`: the layer backwards, its inputs and outputs
/// exchanged and its kernels turned round.
template <class T>
class Weights {
 public:
  WICK_INLINE Weights(const View& weight, bool swapped, float* out)
      : w_(weight.as<T>()),
        channels_(weight.shape[1]),
        swapped_(swapped),
        inputs_(weight.shape[swapped ? 0 : 1]),
        outputs_(weight.shape[swapped ? 1 : 0]),
        out_(out) {}

  WICK_INLINE void transform() const {
    parallel_for(inputs_ / kLanes, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        for (int64_t output = 0; output < outputs_; output += kLanes) {
          if (swapped_) {
            transform_turned(block * kLanes, output);
          } else {
            transform_transposed(block * kLanes, output);
          }
        }
      }
    });
  }

 private:
  static constexpr int kTaps = kKernel * kKernel;

  WICK_INLINE const T* kernel(int64_t k, int tap, int64_t c) const {
    return w_ + (k * kTaps + tap) * channels_ + c;
  }
  WICK_INLINE void store(int64_t input, int64_t output, int point, VecF v) const {
    const int64_t panel = output / kPanel * kPanel, width = smaller(kPanel, outputs_ - panel);
    v.store(out_ + (point * outputs_ + panel) * inputs_ + input * width + (output - panel));
  }

  // Lanes are outputs, which here are neighbours in memory.
  WICK_INLINE void transform_turned(int64_t first, int64_t output) const {
    for (int64_t input = first; input < first + kLanes; ++input) {
      winograd::transform<KernelTransform>(
          [&](int r, int s) {
            return VecF::load(kernel(input, kTaps - 1 - (r * kKernel + s), output));
          },
          [&](int i, int j, VecF v) { store(input, output, i * kIn + j, v); });
    }
  }

  // Lanes are outputs, whole kernels apart: a square of them is transposed first.
  WICK_INLINE void transform_transposed(int64_t first, int64_t output) const {
    alignas(64) float square[kTaps][kLanes][kLanes];
    for (int64_t k = 0; k < kLanes; ++k) {
      for (int tap = 0; tap < kTaps; ++tap) {
        const T* from = kernel(output + k, tap, first);
        for (int64_t c = 0; c < kLanes; ++c) square[tap][c][k] = static_cast<float>(from[c]);
      }
    }
    for (int64_t c = 0; c < kLanes; ++c) {
      winograd::transform<KernelTransform>(
          [&](int r, int s) { return VecF::load(square[r * kKernel + s][c]); },
          [&](int i, int j, VecF v) { store(first + c, output, i * kIn + j, v); });
    }
  }

  const T* w_;
  int64_t channels_;
  bool swapped_;
  int64_t inputs_, outputs_;
  float* out_;
};

/// Elements of T for tiles to read outside of the image.
template <class T>
WICK_INLINE T* make_zeros(Workspace& workspace, int64_t count) {
  T* const zeros = static_cast<T*>(workspace.allocate(static_cast<size_t>(count) * sizeof(T)));
  for (int64_t c = 0; c < count; ++c) zeros[c] = T(0.0f);
  return zeros;
}

/// y = x convolved with transformed weights, and what follows.
template <class T>
class Convolution {
 public:
  WICK_INLINE Convolution(const View& x, const ConvEpilogue& epilogue, const View& y,
                          const int64_t* padding, const float* weights, Workspace& workspace)
      : x_(x),
        y_(y),
        bias_(epilogue.bias.as<T>()),
        residual_(epilogue.residual.as<T>()),
        relu_(epilogue.relu),
        tiles_(y, padding),
        weights_(weights),
        in_row_(x_.c + kGap),
        out_row_(y_.c + kGap),
        is_shared_(tiles_.count <= kMaxBlock && kPoints * x_.c * y_.c * 4 >= kFarWeights) {
    const int64_t tile_bytes = kPoints * (in_row_ + out_row_) * 4;
    const int64_t fitting = larger(kMinBlock, smaller(kMaxBlock, kBlockBytes / tile_bytes));
    threads_ = is_shared_ ? 1 : smaller(num_threads(), (tiles_.count + kRows - 1) / kRows);
    const int64_t share = (tiles_.count + threads_ - 1) / threads_;
    const int64_t blocks = is_shared_ ? 1 : (share + fitting - 1) / fitting;
    block_ = round_up((share + blocks - 1) / blocks, blocks > 1 ? kRows : 1);
    rows_ = block_ + 1;
    scratch_floats_ = kPoints * rows_ * (in_row_ + out_row_);
    scratch_ = floats(workspace, threads_ * scratch_floats_);
    zeros_ = make_zeros<T>(workspace, x_.c);
  }

  WICK_INLINE void run() const {
    if (is_shared_) return run_shared();
    parallel_for(threads_, 1, [&](int64_t thread, int64_t) {
      float* in = scratch_ + thread * scratch_floats_;
      float* out = in + kPoints * rows_ * in_row_;
      // Shares of tiles, not of blocks: of those there may be few.
      const int64_t end = tiles_.count * (thread + 1) / threads_;
      for (int64_t first = tiles_.count * thread / threads_; first < end; first += block_) {
        const int64_t count = smaller(block_, end - first);
        load(first, 0, count, in);
        clear_row(count, in);
        for (int64_t point = 0; point < kPoints; ++point) {
          for (int64_t panel = 0; panel < y_.c; panel += kPanel) {
            multiply(point, panel, count, in, out);
          }
        }
        store(first, 0, count, out);
      }
    });
  }

 private:
  WICK_INLINE void run_shared() const {
    float* const in = scratch_;
    float* const out = in + kPoints * rows_ * in_row_;
    const int64_t count = tiles_.count, panels = (y_.c + kPanel - 1) / kPanel;
    parallel_for(count, 1, [&](int64_t begin, int64_t end) { load(0, begin, end, in); });
    clear_row(count, in);
    parallel_for(kPoints * panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        multiply(i / panels, i % panels * kPanel, count, in, out);
      }
    });
    parallel_for(count, 1, [&](int64_t begin, int64_t end) { store(0, begin, end, out); });
  }

  // Tiles `begin` to `end` of those from `first` on.
  WICK_INLINE void load(int64_t first, int64_t begin, int64_t end, float* in) const {
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile(tiles_, first + t);
      transform_tile<ImageTransform>(x_, tile.image, tile.y - tiles_.padding[0],
                                     tile.x - tiles_.padding[1], zeros_, in + t * in_row_,
                                     rows_ * in_row_);
    }
  }
  // The one behind the last tile, which an odd number of rows multiplies too.
  WICK_INLINE void clear_row(int64_t count, float* in) const {
    for (int64_t point = 0; point < kPoints; ++point) {
      float* const row = in + (point * rows_ + count) * in_row_;
      for (int64_t c = 0; c < x_.c; c += kLanes) VecF(0).store(row + c);
    }
  }

  // One point's products by one panel of the weights, in pieces of about as many rows.
  WICK_INLINE void multiply(int64_t point, int64_t panel, int64_t count, const float* in,
                            float* out) const {
    const float* a = in + point * rows_ * in_row_;
    float* c = out + point * rows_ * out_row_ + panel;
    const float* b = weights_ + (point * y_.c + panel) * x_.c;
    const int64_t width = smaller(kPanel, y_.c - panel), pieces = (count + kRows - 1) / kRows;
    for (int64_t i = 0, t = 0; i < pieces; ++i) {
      const int64_t next = count * (i + 1) / pieces;
      multiply_some<kRows>(next - t, width / kLanes, x_.c, a + t * in_row_, in_row_, b, width,
                           c + t * out_row_, out_row_);
      t = next;
    }
  }

  WICK_INLINE void store(int64_t first, int64_t begin, int64_t end, const float* out) const {
    if (residual_ != nullptr || relu_) {
      store_tiles<true>(first, begin, end, out);
    } else {
      store_tiles<false>(first, begin, end, out);
    }
  }
  template <bool kFollows>
  WICK_INLINE void store_tiles(int64_t first, int64_t begin, int64_t end, const float* out) const {
    for (int64_t t = begin; t < end; ++t) {
      const Tile tile(tiles_, first + t);
      const int64_t rows = smaller(kOut, y_.h - tile.y), columns = smaller(kOut, y_.w - tile.x);
      T* const to = y_.pixel(tile.image, tile.y, tile.x);
      if (!kFollows && rows == kOut && columns == kOut) {
        store_tile<kFollows>(kOut, kOut, to, out + t * out_row_);
      } else {
        store_tile<kFollows>(rows, columns, to, out + t * out_row_);
      }
    }
  }
  template <bool kFollows>
  WICK_INLINE void store_tile(int64_t rows, int64_t columns, T* to, const float* out) const {
    const int64_t point = rows_ * out_row_;
    [[maybe_unused]] const T* const residual =
        residual_ == nullptr ? nullptr : residual_ + (to - y_.data);
    for (int64_t k = 0; k < y_.c; k += kLanes) {
      const VecF bias = bias_ != nullptr ? VecF::load(bias_ + k) : VecF(0);
      transform<ResultTransform>(
          [&](int i, int j) { return VecF::load(out + (i * kIn + j) * point + k); },
          [&](int i, int j, VecF v) {
            if (i >= rows || j >= columns) return;
            const int64_t at = (i * y_.w + j) * y_.c + k;
            v += bias;
            if constexpr (kFollows) {
              if (residual != nullptr) v += VecF::load(residual + at);
              if (relu_) v = max(v, VecF(0));
            }
            v.store(to + at);
          });
    }
  }

  Images<const T> x_;
  Images<T> y_;
  const T *bias_, *residual_;
  bool relu_;
  Tiles tiles_;
  const float* weights_;
  int64_t in_row_, out_row_;
  bool is_shared_;  // whether threads compute all tiles together
  int64_t threads_, block_, rows_, scratch_floats_;
  float* scratch_;
  T* zeros_;
};

template <class T>
void forward(const View& x, const View& weight, const void* packed, const ConvEpilogue& epilogue,
             const View& y, const int64_t* padding, Workspace& workspace) {
  const float* weights = static_cast<const float*>(packed);
  if (weights == nullptr) {
    float* const transformed = floats(workspace, kPoints * x.shape[1] * y.shape[1]);
    Weights<T>(weight, false, transformed).transform();
    weights = transformed;
  }
  Convolution<T>(x, epilogue, y, padding, weights, workspace).run();
}

template <class T>
void backward_data(const View& dy, const View& weight, const View& dx, const int64_t* padding,
                   Workspace& workspace) {
  float* weights = floats(workspace, kPoints * dx.shape[1] * dy.shape[1]);
  Weights<T>(weight, true, weights).transform();
  const int64_t turned[] = {kKernel - 1 - padding[0], kKernel - 1 - padding[1]};
  Convolution<T>(dy, ConvEpilogue{}, dx, turned, weights, workspace).run();
}

// dweight = Gᵀ (Σ over tiles of (A dy Aᵀ) ⊙ (Bᵀ x B)) G: the derivative of the forward formula. The
// tiles are transformed by groups; each group's products are added up point by point.
template <class T>
void backward_weights(const View& x_view, const View& dy_view, const View& dweight,
                      const int64_t* padding, Workspace& workspace) {
  const Images<const T> x(x_view), dy(dy_view);
  const Tiles tiles(dy_view, padding);
  const int64_t x_row = x.c + kGap, dy_row = dy.c + kGap;
  const int64_t group =
      smaller(tiles.count, larger(kMinBlock, kGroupBytes / (kPoints * (x_row + dy_row) * 4)));
  float* const left = floats(workspace, kPoints * group * dy_row);
  float* const right = floats(workspace, kPoints * group * x_row);
  float* const sums = floats(workspace, kPoints * x.c * dy.c);
  const T* const zeros = make_zeros<T>(workspace, larger(x.c, dy.c));

  for (int64_t first = 0; first < tiles.count; first += group) {
    const int64_t count = smaller(group, tiles.count - first);
    parallel_for(count, 4, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const Tile tile(tiles, first + t);
        transform_tile<ImageTransform>(x, tile.image, tile.y - padding[0], tile.x - padding[1],
                                       zeros, right + t * x_row, group * x_row);
        transform_tile<ResultTransposed>(dy, tile.image, tile.y, tile.x, zeros, left + t * dy_row,
                                         group * dy_row);
      }
    });
    constexpr int64_t kTask = 16;  // rows: outputs of the layer
    const int64_t tasks = dy.c / kTask;
    parallel_for(kPoints * tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t point = task / tasks, first_row = task % tasks * kTask;
        for (int64_t c = 0; c < x.c; c += kPanel) {
          const int64_t width = smaller(kPanel, x.c - c);
          for (int64_t k = first_row; k < first_row + kTask; k += kGradRows) {
            multiply_panel<kGradRows>(width / kLanes, count, left + point * group * dy_row + k, 1,
                                      dy_row, right + point * group * x_row + c, x_row,
                                      sums + (point * dy.c + k) * x.c + c, x.c, first > 0);
          }
        }
      }
    });
  }
  parallel_for(dy.c, 4, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      for (int64_t c = 0; c < x.c; c += kLanes) {
        winograd::transform<KernelTransposed>(
            [&](int i, int j) { return VecF::load(sums + ((i * kIn + j) * dy.c + k) * x.c + c); },
            [&](int r, int s, VecF v) {
              v.store(dweight.as<T>() + ((k * kKernel + r) * kKernel + s) * x.c + c);
            });
      }
    }
  });
}

}  // namespace

void winograd_packed_bytes(const Shape& weight, int64_t* bytes) {
  *bytes = kPoints * weight[0] * weight[1] * static_cast<int64_t>(sizeof(float));
}

void winograd_pack(const View& weight, void* packed) {
  Weights<float>(weight, false, static_cast<float*>(packed)).transform();
}

void winograd_forward(const View& x, const View& weight, const void* packed,
                      const ConvEpilogue& epilogue, const View& y, const int64_t* padding,
                      Workspace& workspace) {
  if (x.dtype == kFloat32) {
    return forward<float>(x, weight, packed, epilogue, y, padding, workspace);
  }
  forward<BFloat16>(x, weight, packed, epilogue, y, padding, workspace);
}

void winograd_backward_data(const View& dy, const View& weight, const View& dx,
                            const int64_t* padding, Workspace& workspace) {
  if (dy.dtype == kFloat32) return backward_data<float>(dy, weight, dx, padding, workspace);
  backward_data<BFloat16>(dy, weight, dx, padding, workspace);
}

void winograd_backward_weights(const View& x, const View& dy, const View& dweight,
                               const int64_t* padding, Workspace& workspace) {
  if (x.dtype == kFloat32) return backward_weights<float>(x, dy, dweight, padding, workspace);
  backward_weights<BFloat16>(x, dy, dweight, padding, workspace);
}

}  // namespace wick::WICK_ISA
