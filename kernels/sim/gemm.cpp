#include "wick/kernels/cuda/gemm.h"

#include "wick/core/base/check.h"
#include "wick/kernels/cuda/common/enter_device.h"
#include "wick/kernels/matmul.h"
#include "wick/kernels/sim/library.h"
#include "wick/kernels/sim/simulator.h"

// Stands for cuBLASLt.
namespace wick::cuda {

namespace {

constexpr const char* kGemmCall = "cublasLtMatmul";

View view_of(const GemmOperand& x, Dtype dtype, int64_t batch, int64_t rows, int64_t columns) {
  WICK_CHECK(x.ld >= (x.transposed ? rows : columns), kGemmCall, ": the leading dimension is ",
             x.ld, " for ", rows, " x ", columns, x.transposed ? " in columns" : " in rows");
  View view;
  view.data = const_cast<void*>(x.data);
  view.dtype = dtype;
  view.shape = {batch, rows, columns};
  view.strides = {x.step, x.transposed ? 1 : x.ld, x.transposed ? x.ld : 1};
  return view;
}

// The handle and the algorithms.
void prepare_engines(Device device, const Gemm& g) {
  sim::prepare("cublasLtCreate", to_string(device));
  sim::prepare("cublasLtMatmulAlgoGetHeuristic",
               concat(device, " ", g.dtype, " ", g.batch, " ", g.m, " ", g.n, " ", g.k));
}

// Queues the product and, if that is not kNone, its activation, where cuBLASLt would do so.
void run(Device device, const Gemm& g, int engine, Workspace& workspace) {
  const cudaStream_t stream = enter_device(device);
  WICK_CHECK(is_floating(g.dtype), kGemmCall, ": no such dtype: ", g.dtype);
  WICK_CHECK(g.batch > 0 && g.m > 0 && g.n > 0 && g.k > 0, kGemmCall, ": a size is not positive");
  const View a = view_of(g.a, g.dtype, g.batch, g.m, g.k);
  const View b = view_of(g.b, g.dtype, g.batch, g.k, g.n);
  const View y = view_of({g.y, g.n, g.m * g.n}, g.dtype, g.batch, g.m, g.n);
  View bias, before, residual;
  if (g.bias != nullptr) bias = {const_cast<void*>(g.bias), g.dtype, kCpu, {g.n}, {1}};
  if (g.before != nullptr) {
    before = view_of({g.before, g.n, g.m * g.n}, g.dtype, g.batch, g.m, g.n);
    WICK_CHECK(
        g.n % 8 == 0 && reinterpret_cast<uintptr_t>(g.before) % 16 == 0, kGemmCall,
        ": before is not in rows of a multiple of 8 elements from a multiple of 16 bytes on: "
        "got rows of ",
        g.n);
  }
  if (g.residual != nullptr) {
    residual = view_of({g.residual, g.n, g.m * g.n}, g.dtype, g.batch, g.m, g.n);
  }
  sim::check_argument(kGemmCall, "a", a);
  sim::check_argument(kGemmCall, "b", b);
  sim::check_argument(kGemmCall, "bias", bias);
  sim::check_argument(kGemmCall, "before", before);
  sim::check_argument(kGemmCall, "residual", residual);
  sim::check_argument(kGemmCall, "y", y);
  prepare_engines(device, g);
  void* const scratch = sim::take_scratch(kGemmCall, workspace);
  const std::vector<sim::Engine> engines = sim::offered_engines();
  if (engine >= static_cast<int>(engines.size())) engine = kAnyEngine;
  const sim::Engine chosen = sim::use_engine(kGemmCall, engines, engine);
  const auto compute = [=, activation = g.activation, scale = g.scale] {
    const sim::LibraryWork work({&a, &b, &bias, &residual}, {&y, &before}, scratch);
    sim::HostWorkspace host;
    const View out = sim::computable(y, host, false);
    const MatMulEpilogue epilogue{sim::computable(bias, host, true), activation,
                                  sim::computable(before, host, false),
                                  sim::computable(residual, host, true), scale};
    cpu::matmul(sim::computable(a, host, true), sim::computable(b, host, true), epilogue, out,
                kAnyEngine, host);
    sim::copy_back(out, y);
    sim::copy_back(epilogue.before, before);
  };
  check(sim::enqueue(kGemmCall, stream, compute, chosen.milliseconds), kGemmCall);
}

}  // namespace

std::vector<std::string> gemm_engines(Device device, const Gemm& g) {
  prepare_engines(device, g);
  return sim::engine_names(sim::offered_engines());
}

bool gemm(Device device, const Gemm& g, int engine, Workspace& workspace) {
  const bool is_activated = has_activation_epilogue(g);
  run(device, is_activated ? g : product_alone(g), engine, workspace);
  return is_activated || g.activation == Activation::kNone;
}

}  // namespace wick::cuda
