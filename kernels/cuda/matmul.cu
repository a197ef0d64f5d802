#include "wick/kernels/matmul.h"

#include "wick/kernels/activate.h"
#include "wick/kernels/copy.h"
#include "wick/kernels/cuda/common/launch.h"
#include "wick/kernels/cuda/gemm.h"

namespace wick::cuda {

namespace {

// The batch of a product: `outer` steps along axes that only loops can walk, then `count` matrices
// at one distance in a and one in b.
struct Batch {
  int outer_axes;
  int64_t outer = 1, count = 1, a_step = 0, b_step = 0;

  Batch(const View& a, const View& b) : outer_axes(a.rank() - 2) {
    while (outer_axes > 0 && takes(a, b, outer_axes - 1)) --outer_axes;
    for (int axis = 0; axis < outer_axes; ++axis) outer *= a.shape[axis];
  }

 private:
  // Adds one more axis to the matrices at one distance, if it can be.
  bool takes(const View& a, const View& b, int axis) {
    const int64_t size = a.shape[axis];
    if (size == 1) return true;
    if (count == 1) {
      a_step = a.strides[axis];
      b_step = b.strides[axis];
    } else if (a.strides[axis] != a_step * count || b.strides[axis] != b_step * count) {
      return false;
    }
    count *= size;
    return true;
  }
};

// Where matrix `index` of the outer axes begins.
void* matrix_of(const View& x, int outer_axes, int64_t index) {
  int64_t offset = 0;
  for (int axis = outer_axes - 1; axis >= 0; --axis) {
    offset += index % x.shape[axis] * x.strides[axis];
    index /= x.shape[axis];
  }
  return x.as<char>() + offset * size_of(x.dtype);
}

GemmOperand operand(const View& x, int64_t step) {
  const int rank = x.rank();
  const int64_t rows = x.shape[rank - 2], columns = x.shape[rank - 1];
  if (x.strides[rank - 1] == 1 || columns == 1) {
    return {x.data, rows == 1 ? columns : x.strides[rank - 2], step, false};
  }
  return {x.data, columns == 1 ? rows : x.strides[rank - 1], step, true};
}

// No library multiplies integers of all types. Serves indices and counts.
template <class T>
__global__ void matmul_integer_kernel(Gemm g) {
  const int64_t a_row = g.a.transposed ? 1 : g.a.ld, a_column = g.a.transposed ? g.a.ld : 1;
  const int64_t b_row = g.b.transposed ? 1 : g.b.ld, b_column = g.b.transposed ? g.b.ld : 1;
  const int64_t matrix = g.m * g.n;
  for (int64_t i = global_thread(); i < g.batch * matrix; i += global_threads()) {
    const int64_t index = i / matrix, row = i % matrix / g.n, column = i % g.n;
    const T* a = static_cast<const T*>(g.a.data) + index * g.a.step + row * a_row;
    const T* b = static_cast<const T*>(g.b.data) + index * g.b.step + column * b_column;
    uint64_t sum = 0;  // wraps
    for (int64_t k = 0; k < g.k; ++k) {
      sum += static_cast<uint64_t>(a[k * a_column]) * static_cast<uint64_t>(b[k * b_row]);
    }
    static_cast<T*>(g.y)[i] = static_cast<T>(sum);
  }
}

template <class T>
void matmul_integers(Device device, const Gemm& g) {
  launch("matmul", device, grid_for(device, g.batch * g.m * g.n), matmul_integer_kernel<T>, g);
}

// Returns whether the activation, if there is one, is done.
bool run(Device device, const Gemm& g, int engine, Workspace& workspace) {
  switch (g.dtype) {
    case Dtype::kInt64: matmul_integers<int64_t>(device, g); return true;
    case Dtype::kInt32: matmul_integers<int32_t>(device, g); return true;
    case Dtype::kUint8: matmul_integers<uint8_t>(device, g); return true;
    default: return gemm(device, g, engine, workspace);
  }
}

// The product of the first `batch.count` matrices.
Gemm first_of(const Batch& batch, const View& a, const View& b, const MatMulEpilogue& epilogue,
              const View& y) {
  const int rank = y.rank();
  Gemm g;
  g.dtype = y.dtype;
  g.batch = batch.count;
  g.m = y.shape[rank - 2];
  g.n = y.shape[rank - 1];
  g.k = a.shape[rank - 1];
  g.a = operand(a, batch.a_step);
  g.b = operand(b, batch.b_step);
  g.bias = epilogue.bias.data;
  g.y = y.data;
  g.activation = epilogue.activation;
  g.before = epilogue.before.data;
  g.residual = epilogue.residual.data;
  g.scale = epilogue.scale;
  return g;
}

// Sums over nothing.
void fill_with_bias(const View& bias, const View& y) {
  if (!bias.defined()) return fill(y, 0, 0);
  View spread = bias;
  spread.shape = y.shape;
  spread.strides = Strides::filled(y.rank(), 0);
  spread.strides[y.rank() - 1] = 1;
  copy(spread, y);
}

}  // namespace

void matmul_engines(const View& a, const View& b, const MatMulEpilogue& epilogue, const View& y,
                    std::vector<std::string>* engines) {
  engines->clear();
  if (!is_floating(y.dtype) || y.numel() == 0 || a.shape[y.rank() - 1] == 0) return;
  *engines = gemm_engines(y.device, first_of(Batch(a, b), a, b, epilogue, y));
}

void matmul(const View& a, const View& b, const MatMulEpilogue& epilogue, const View& y, int engine,
            Workspace& workspace) {
  if (y.numel() == 0) return;
  const View& product = epilogue.before.defined() ? epilogue.before : y;
  if (a.shape[y.rank() - 1] == 0) {
    fill_with_bias(epilogue.bias, product);
    return activate(epilogue.activation, product, y);
  }
  const Batch batch(a, b);
  Gemm g = first_of(batch, a, b, epilogue, y);
  const int64_t stack = g.batch * g.m * g.n * size_of(y.dtype);
  bool is_activated = true;
  for (int64_t i = 0; i < batch.outer; ++i) {
    g.a.data = matrix_of(a, batch.outer_axes, i);
    g.b.data = matrix_of(b, batch.outer_axes, i);
    g.y = y.as<char>() + i * stack;
    if (epilogue.before.defined()) g.before = epilogue.before.as<char>() + i * stack;
    if (epilogue.residual.defined()) g.residual = epilogue.residual.as<char>() + i * stack;
    is_activated = run(y.device, g, engine, workspace);
  }
  if (!is_activated) activate(epilogue.activation, product, y);
}

}  // namespace wick::cuda
