#include "wick/kernels/cpu/dnnl/gemm.h"

#include <algorithm>

#include "wick/core/base/detail/per_thread.h"
#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/dnnl/execution.h"

namespace wick::cpu {

namespace {

// How BLAS names the operand: row-major rows `ld` apart, or the transpose of such a matrix.
struct BlasOperand {
  char transposed;
  int64_t ld;
};
BlasOperand blas_operand(const Matrix& x, int64_t rows, int64_t columns) {
  if (x.column == 1 || columns == 1) {
    return {'N', std::max<int64_t>(1, rows == 1 ? columns : x.row)};
  }
  return {'T', std::max<int64_t>(1, x.column)};
}

void gemm_float(GemmSizes s, const Matrix& a, const Matrix& b, const float* bias, float* c,
                int64_t ldc, bool accumulate) {
  if (bias != nullptr) {
    parallel_for(s.m, std::max<int64_t>(1, 32768 / s.n), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) std::copy_n(bias, s.n, c + i * ldc);
    });
  }
  const BlasOperand ba = blas_operand(a, s.m, s.k);
  const BlasOperand bb = blas_operand(b, s.k, s.n);
  const float beta = bias != nullptr || accumulate ? 1.0f : 0.0f;
  const dnnl::status status = dnnl::sgemm(ba.transposed, bb.transposed, s.m, s.n, s.k, 1.0f,
                                          static_cast<const float*>(a.data), ba.ld,
                                          static_cast<const float*>(b.data), bb.ld, beta, c, ldc);
  WICK_CHECK(status == dnnl::status::success, "matmul: oneDNN's sgemm failed: status ",
             static_cast<int64_t>(status));
}

// For the types without a library: float64 serves gradient checks, integers indices and counts.
template <class T>
void gemm_plain(GemmSizes s, const Matrix& a, const Matrix& b, const T* bias, T* c, int64_t ldc,
                bool accumulate) {
  const T* pa = static_cast<const T*>(a.data);
  const T* pb = static_cast<const T*>(b.data);
  parallel_for(
      s.m, std::max<int64_t>(1, 32768 / (s.n * s.k + 1)), [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          T* row = c + i * ldc;
          if (!accumulate) {
            for (int64_t j = 0; j < s.n; ++j) row[j] = bias != nullptr ? bias[j] : T(0);
          }
          if (b.column == 1) {
            for (int64_t k = 0; k < s.k; ++k) {
              const T factor = pa[i * a.row + k * a.column];
              for (int64_t j = 0; j < s.n; ++j) {
                row[j] = static_cast<T>(row[j] + factor * pb[k * b.row + j]);
              }
            }
          } else {
            for (int64_t j = 0; j < s.n; ++j) {
              T sum = row[j];
              for (int64_t k = 0; k < s.k; ++k) {
                sum = static_cast<T>(sum +
                                     pa[i * a.row + k * a.column] * pb[k * b.row + j * b.column]);
              }
              row[j] = sum;
            }
          }
        }
      });
}

MemoryDesc matrix_desc(const Matrix& x, int64_t rows, int64_t columns, DataType type) {
  const BlasOperand blas = blas_operand(x, rows, columns);
  if (blas.transposed == 'N') return {{rows, columns}, type, {blas.ld, 1}};
  return {{rows, columns}, type, {1, blas.ld}};
}

// oneDNN's matmul primitive, on matrices or on a stack of them.
Execution make_matmul(const MemoryDesc& a, const MemoryDesc& b, const MemoryDesc& bias,
                      const MemoryDesc& c, bool accumulate) {
  dnnl::primitive_attr attributes = user_scratchpad();
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const bool has_bias = bias.data.ndims != 0;
  const dnnl::matmul::desc desc =
      has_bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  const dnnl::matmul::primitive_desc pd(desc, attributes, dnnl_engine());
  Execution execution(dnnl::matmul(pd), pd.scratchpad_desc());
  execution.input(DNNL_ARG_SRC, a, a);
  execution.input(DNNL_ARG_WEIGHTS, b, b);
  if (has_bias) execution.input(DNNL_ARG_BIAS, bias, bias);
  execution.output(DNNL_ARG_DST, c, c);
  return execution;
}

struct MatmulCache : PrimitiveCache<Execution> {};
PrimitiveCache<Execution>& matmul_cache() { return per_thread<MatmulCache>(); }

void gemm_primitive(GemmSizes s, Dtype in, const Matrix& a, const Matrix& b, const void* bias,
                    Dtype out, void* c, int64_t ldc, bool accumulate, Workspace& workspace) {
  with_dnnl_errors("matmul", [&] {
    const BlasOperand ba = blas_operand(a, s.m, s.k);
    const BlasOperand bb = blas_operand(b, s.k, s.n);
    const PrimitiveKey key(0, num_threads(), s.m, s.n, s.k, in, out, ba.transposed, ba.ld,
                           bb.transposed, bb.ld, ldc, bias != nullptr, accumulate);
    Execution& execution = matmul_cache().get(key, [&] {
      const MemoryDesc bias_desc =
          bias == nullptr ? MemoryDesc() : MemoryDesc({1, s.n}, dnnl_type(out), {s.n, 1});
      return make_matmul(matrix_desc(a, s.m, s.k, dnnl_type(in)),
                         matrix_desc(b, s.k, s.n, dnnl_type(in)), bias_desc,
                         MemoryDesc({s.m, s.n}, dnnl_type(out), {ldc, 1}), accumulate);
    });
    if (bias == nullptr) {
      execution.run({a.data, b.data, c}, workspace);
    } else {
      execution.run({a.data, b.data, bias, c}, workspace);
    }
  });
}

// Few rows: the primitive's blocking suits them better than BLAS does (measured: 1.2 to 3 times).
bool prefers_primitive(GemmSizes s) { return s.m > 1 && s.m <= 128 && s.n <= 4096; }

void gemm_batch_primitive(int64_t count, GemmSizes s, Dtype dtype, const Matrix& a, int64_t a_step,
                          const Matrix& b, int64_t b_step, void* c, int64_t c_step,
                          Workspace& workspace) {
  with_dnnl_errors("matmul", [&] {
    const BlasOperand ba = blas_operand(a, s.m, s.k);
    const BlasOperand bb = blas_operand(b, s.k, s.n);
    const PrimitiveKey key(1, num_threads(), count, s.m, s.n, s.k, dtype, ba.transposed, ba.ld,
                           a_step, bb.transposed, bb.ld, b_step, c_step);
    Execution& execution = matmul_cache().get(key, [&] {
      const DataType type = dnnl_type(dtype);
      const auto stack = [&](const BlasOperand& x, int64_t rows, int64_t columns, int64_t step) {
        return x.transposed == 'N' ? MemoryDesc({count, rows, columns}, type, {step, x.ld, 1})
                                   : MemoryDesc({count, rows, columns}, type, {step, 1, x.ld});
      };
      return make_matmul(stack(ba, s.m, s.k, a_step), stack(bb, s.k, s.n, b_step), MemoryDesc(),
                         MemoryDesc({count, s.m, s.n}, type, {c_step, s.n, 1}), false);
    });
    execution.run({a.data, b.data, c}, workspace);
  });
}

Matrix step(const Matrix& x, int64_t elements, Dtype dtype) {
  return {static_cast<const char*>(x.data) + elements * size_of(dtype), x.row, x.column};
}

}  // namespace

void gemm(GemmSizes s, Dtype in, const Matrix& a, const Matrix& b, const void* bias, Dtype out,
          void* c, int64_t ldc, bool accumulate, Workspace& workspace) {
  if (s.m == 0 || s.n == 0) return;
  const auto plain = [&](auto type) {
    using T = typename decltype(type)::type;
    gemm_plain<T>(s, a, b, static_cast<const T*>(bias), static_cast<T*>(c), ldc, accumulate);
  };
  switch (in) {
    case Dtype::kFloat32:
      if (s.k == 0) return plain(Type<float>{});
      if (!accumulate && prefers_primitive(s)) {
        return gemm_primitive(s, in, a, b, bias, out, c, ldc, accumulate, workspace);
      }
      return gemm_float(s, a, b, static_cast<const float*>(bias), static_cast<float*>(c), ldc,
                        accumulate);
    case Dtype::kBFloat16:
      if (s.k == 0) {
        if (out == Dtype::kFloat32) return plain(Type<float>{});
        return gemm_plain<BFloat16>(s, a, b, static_cast<const BFloat16*>(bias),
                                    static_cast<BFloat16*>(c), ldc, accumulate);
      }
      return gemm_primitive(s, in, a, b, bias, out, c, ldc, accumulate, workspace);
    case Dtype::kFloat64: return plain(Type<double>{});
    case Dtype::kInt64: return plain(Type<int64_t>{});
    case Dtype::kInt32: return plain(Type<int32_t>{});
    case Dtype::kUint8: return plain(Type<uint8_t>{});
    default: unsupported_dtype(in);
  }
}

void gemm_batch(int64_t count, GemmSizes s, Dtype dtype, const Matrix& a, int64_t a_step,
                const Matrix& b, int64_t b_step, void* c, int64_t c_step, Workspace& workspace) {
  const bool by_library = dtype == Dtype::kFloat32 || dtype == Dtype::kBFloat16;
  if (by_library && count > 1 && a_step != 0 && b_step != 0 && s.m * s.n * s.k != 0) {
    return gemm_batch_primitive(count, s, dtype, a, a_step, b, b_step, c, c_step, workspace);
  }
  for (int64_t i = 0; i < count; ++i) {
    gemm(s, dtype, step(a, i * a_step, dtype), step(b, i * b_step, dtype), nullptr, dtype,
         static_cast<char*>(c) + i * c_step * size_of(dtype), s.n, false, workspace);
  }
}

}  // namespace wick::cpu
