#include "wick/kernels/matmul.h"

#include "wick/kernels/cpu/products/gemm.h"

namespace wick::cpu {

namespace {

// Distance between consecutive matrices of the whole batch, or -1 if there is no single one.
int64_t batch_step(const View& x, int batch_rank) {
  int64_t step = 0, size = 1;
  for (int axis = batch_rank - 1; axis >= 0; --axis) {
    if (x.shape[axis] == 1) continue;
    if (size == 1) {
      step = x.strides[axis];
    } else if (x.strides[axis] != step * size) {
      return -1;
    }
    size *= x.shape[axis];
  }
  return step;
}

Matrix last_two(const View& x, int64_t offset) {
  const int rank = x.rank();
  return {x.as<char>() + offset * size_of(x.dtype), x.strides[rank - 2], x.strides[rank - 1]};
}

int64_t batch_offset(const View& x, int batch_rank, int64_t index) {
  int64_t offset = 0;
  for (int axis = batch_rank - 1; axis >= 0; --axis) {
    offset += index % x.shape[axis] * x.strides[axis];
    index /= x.shape[axis];
  }
  return offset;
}

}  // namespace

void matmul_engines(const View&, const View&, const MatMulEpilogue&, const View&,
                    std::vector<std::string>* engines) {
  engines->clear();
}

void matmul(const View& a, const View& b, const MatMulEpilogue& epilogue, const View& y, int,
            Workspace& workspace) {
  const int rank = y.rank(), batch_rank = rank - 2;
  const GemmSizes sizes{y.shape[rank - 2], y.shape[rank - 1], a.shape[rank - 1]};
  int64_t batch = 1;
  for (int axis = 0; axis < batch_rank; ++axis) batch *= y.shape[axis];
  const int64_t matrix = sizes.m * sizes.n;
  if (batch * matrix == 0) return;
  const View& bias = epilogue.bias;
  const bool has_epilogue = bias.defined() || epilogue.activation != Activation::kNone;
  const int64_t a_step = batch_step(a, batch_rank), b_step = batch_step(b, batch_rank);
  if (!has_epilogue && batch > 1 && a_step >= 0 && b_step >= 0) {
    return gemm_batch(batch, sizes, y.dtype, last_two(a, 0), a_step, last_two(b, 0), b_step, y.data,
                      matrix, {.residual = epilogue.residual.data, .scale = epilogue.scale},
                      workspace);
  }
  const View& product = epilogue.before.defined() ? epilogue.before : y;
  const char* const residual = epilogue.residual.as<char>();
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t at = i * matrix * size_of(y.dtype);
    gemm(sizes, y.dtype, last_two(a, batch_offset(a, batch_rank, i)),
         last_two(b, batch_offset(b, batch_rank, i)), bias.data, y.dtype, product.as<char>() + at,
         sizes.n, false,
         {residual != nullptr ? residual + at : nullptr, epilogue.activation, y.as<char>() + at,
          epilogue.scale},
         workspace);
  }
}

}  // namespace wick::cpu
