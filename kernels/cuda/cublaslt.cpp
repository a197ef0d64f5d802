#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <type_traits>
#include <unordered_map>

#include "wick/core/base/check.h"
#include "wick/core/base/detail/dynamic_library.h"
#include "wick/core/base/profiling.h"
#include "wick/core/base/tf32.h"
#include "wick/core/base/view.h"
#include "wick/kernels/copy.h"
#include "wick/kernels/cuda/common/enter_device.h"
#include "wick/kernels/cuda/common/library_error.h"
#include "wick/kernels/cuda/gemm.h"
#include "wick/kernels/elementwise.h"
#include "wick/kernels/elementwise_ops_arithmetic.h"
#include "wick/kernels/plan_key.h"

// Matrix multiplication by cuBLASLt, which stores matrices by columns: it computes the transpose of
// y from those of b and a, which rows are in memory.
namespace wick::cuda {

namespace {

constexpr size_t kMostScratch = size_t{32} << 20;  // what NVIDIA recommends for Hopper
constexpr size_t kMostSolvers = 4096;

struct Api {
  decltype(cublasLtCreate)* create;
  decltype(cublasLtGetStatusString)* status_string;
  decltype(cublasLtMatmul)* matmul;
  decltype(cublasLtMatmulAlgoGetHeuristic)* get_heuristic;
  decltype(cublasLtMatmulAlgoConfigGetAttribute)* get_config;
  decltype(cublasLtMatmulDescCreate)* create_desc;
  decltype(cublasLtMatmulDescDestroy)* destroy_desc;
  decltype(cublasLtMatmulDescSetAttribute)* set_desc;
  decltype(cublasLtMatrixLayoutCreate)* create_layout;
  decltype(cublasLtMatrixLayoutDestroy)* destroy_layout;
  decltype(cublasLtMatrixLayoutSetAttribute)* set_layout;
  decltype(cublasLtMatmulPreferenceCreate)* create_preference;
  decltype(cublasLtMatmulPreferenceDestroy)* destroy_preference;
  decltype(cublasLtMatmulPreferenceSetAttribute)* set_preference;

  Api() {
    const std::string file = concat("libcublasLt.so.", int64_t{CUBLAS_VER_MAJOR});
    const DynamicLibrary library("cuBLASLt", file.c_str());
    library.find(create, "cublasLtCreate");
    library.find(status_string, "cublasLtGetStatusString");
    library.find(matmul, "cublasLtMatmul");
    library.find(get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
    library.find(get_config, "cublasLtMatmulAlgoConfigGetAttribute");
    library.find(create_desc, "cublasLtMatmulDescCreate");
    library.find(destroy_desc, "cublasLtMatmulDescDestroy");
    library.find(set_desc, "cublasLtMatmulDescSetAttribute");
    library.find(create_layout, "cublasLtMatrixLayoutCreate");
    library.find(destroy_layout, "cublasLtMatrixLayoutDestroy");
    library.find(set_layout, "cublasLtMatrixLayoutSetAttribute");
    library.find(create_preference, "cublasLtMatmulPreferenceCreate");
    library.find(destroy_preference, "cublasLtMatmulPreferenceDestroy");
    library.find(set_preference, "cublasLtMatmulPreferenceSetAttribute");
  }
};
const Api& api() {
  static const Api instance;
  return instance;
}

void check_status(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail_library(call, api().status_string(status), status == CUBLAS_STATUS_ALLOC_FAILED);
}

// One per thread and device; lives as long as the process.
cublasLtHandle_t handle_of(Device device) {
  static thread_local std::array<cublasLtHandle_t, kMaxGpus> handles = {};
  cublasLtHandle_t& handle = handles[static_cast<size_t>(device.index)];
  if (handle == nullptr) check_status(api().create(&handle), "cublasLtCreate");
  return handle;
}

struct DestroyDesc {
  void operator()(cublasLtMatmulDesc_t x) const { api().destroy_desc(x); }
};
struct DestroyLayout {
  void operator()(cublasLtMatrixLayout_t x) const { api().destroy_layout(x); }
};
struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t x) const { api().destroy_preference(x); }
};
template <class Handle, class Destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;
using Desc = Owned<cublasLtMatmulDesc_t, DestroyDesc>;
using Layout = Owned<cublasLtMatrixLayout_t, DestroyLayout>;
using Preference = Owned<cublasLtMatmulPreference_t, DestroyPreference>;

cudaDataType_t type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat64: return CUDA_R_64F;
    case Dtype::kFloat32: return CUDA_R_32F;
    case Dtype::kFloat16: return CUDA_R_16F;
    case Dtype::kBFloat16: return CUDA_R_16BF;
    default: unsupported_dtype(dtype);
  }
}

// float64 has no epilogue with a bias.
bool may_have_bias_epilogue(const Gemm& g) { return g.bias != nullptr && g.dtype != kFloat64; }

PlanKey key_of(Device device, const Gemm& g) {
  PlanKey key(PlanKind::kMatmul, device, g.dtype);
  key.add({g.batch, g.m, g.n, g.k, g.a.ld, g.a.step, g.a.transposed, g.b.ld, g.b.step,
           g.b.transposed, alignment_of(g.a.data), alignment_of(g.b.data), alignment_of(g.y),
           may_have_bias_epilogue(g) ? alignment_of(g.bias) : 0, g.bias != nullptr,
           static_cast<int64_t>(g.activation), g.before != nullptr, alignment_of(g.before)});
  if (g.residual != nullptr) key.add({alignment_of(g.residual)});
  return key;
}

// An algorithm with its settings.
struct Engine {
  cublasLtMatmulAlgo_t algorithm;
  size_t scratch;  // bytes
};

// How one kind of product is computed.
struct Solver {
  Desc desc;
  Layout left, right, out;         // by columns: b, a and y
  bool has_bias_epilogue = false;  // otherwise y holds the bias before the product is added
  std::vector<Engine> engines;     // none: not with this activation
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;  // of the search for them
};

// "algo66_1=20_6=15": the algorithm, and of its settings those that are not 0, numbered as
// cublasLtMatmulAlgoConfigAttributes_t does.
std::string name_of(const Engine& engine) {
  const auto read = [&](int64_t attribute) {
    const bool is_short = attribute >= CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID;
    uint16_t narrow = 0;
    uint32_t wide = 0;
    void* const value = is_short ? static_cast<void*>(&narrow) : &wide;
    size_t written = 0;
    const cublasStatus_t status = api().get_config(
        &engine.algorithm, static_cast<cublasLtMatmulAlgoConfigAttributes_t>(attribute), value,
        is_short ? sizeof(narrow) : sizeof(wide), &written);
    if (status != CUBLAS_STATUS_SUCCESS) return int64_t{0};  // it has no such setting
    return is_short ? int64_t{narrow} : int64_t{wide};
  };
  std::string name = concat("algo", read(CUBLASLT_ALGO_CONFIG_ID));
  for (int64_t i = CUBLASLT_ALGO_CONFIG_TILE_ID; i <= CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID; ++i) {
    if (const int64_t value = read(i); value != 0) name += concat("_", i, "=", value);
  }
  return name;
}

template <class Value>
void set(const Desc& desc, cublasLtMatmulDescAttributes_t name, const Value& value) {
  check_status(api().set_desc(desc.get(), name, &value, sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
}
template <class Value>
void set(const Layout& layout, cublasLtMatrixLayoutAttribute_t name, const Value& value) {
  check_status(api().set_layout(layout.get(), name, &value, sizeof(value)),
               "cublasLtMatrixLayoutSetAttribute");
}
template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t name,
         const Value& value) {
  check_status(api().set_preference(preference.get(), name, &value, sizeof(value)),
               "cublasLtMatmulPreferenceSetAttribute");
}

cublasLtEpilogue_t epilogue_of(const Gemm& g, bool bias) {
  switch (g.activation) {
    case Activation::kNone: return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Activation::kRelu: return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::kGeluTanh: break;
  }
  if (g.before == nullptr) return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
}

// What the epilogue reads and writes beside y.
void set_pointers(const Desc& desc, const Gemm& g, bool bias) {
  if (bias) set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias);
  if (g.before != nullptr) set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, g.before);
}

Desc make_desc(const Gemm& g, bool bias) {
  const bool is_double = g.dtype == kFloat64;
  const cublasComputeType_t compute = is_double ? CUBLAS_COMPUTE_64F
                                      : g.dtype == kFloat32 && allow_tf32()
                                          ? CUBLAS_COMPUTE_32F_FAST_TF32
                                          : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t raw = nullptr;
  check_status(api().create_desc(&raw, compute, is_double ? CUDA_R_64F : CUDA_R_32F),
               "cublasLtMatmulDescCreate");
  Desc desc(raw);
  const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(desc, CUBLASLT_MATMUL_DESC_TRANSA, operation(g.b.transposed));
  set(desc, CUBLASLT_MATMUL_DESC_TRANSB, operation(g.a.transposed));
  set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(g, bias));
  if (bias) set(desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(g.dtype));
  if (g.before != nullptr) set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, g.n);
  set_pointers(desc, g, bias);
  return desc;
}

// A matrix of `rows` rows and `columns` columns in row-major order, or in column-major order if
// `transposed`, as cuBLASLt sees it.
Layout make_layout(const Gemm& g, const GemmOperand& x, int64_t rows, int64_t columns) {
  cublasLtMatrixLayout_t raw = nullptr;
  const auto inner = static_cast<uint64_t>(x.transposed ? rows : columns);
  const auto outer = static_cast<uint64_t>(x.transposed ? columns : rows);
  check_status(api().create_layout(&raw, type_of(g.dtype), inner, outer, x.ld),
               "cublasLtMatrixLayoutCreate");
  Layout layout(raw);
  if (g.batch > 1) {
    WICK_CHECK(g.batch <= INT32_MAX, "matmul: too many matrices for cuBLASLt: got ", g.batch);
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(g.batch));
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, x.step);
  }
  return layout;
}

Preference make_preference(const Gemm& g) {
  cublasLtMatmulPreference_t raw = nullptr;
  check_status(api().create_preference(&raw), "cublasLtMatmulPreferenceCreate");
  Preference preference(raw);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostScratch);
  const auto alignment = [](const void* p) { return static_cast<uint32_t>(alignment_of(p)); };
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(g.b.data));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(g.a.data));
  const uint32_t former = g.residual != nullptr ? alignment(g.residual) : alignment(g.y);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, std::min(former, alignment(g.y)));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(g.y));
  // No sums of parts that were rounded to 16 bits.
  const uint32_t schemes = is_reduced(g.dtype) ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                               : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                                                     CUBLASLT_REDUCTION_SCHEME_INPLACE;
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  return preference;
}

Solver find_solver(Device device, const Gemm& g, bool bias) {
  Solver solver;
  solver.has_bias_epilogue = bias;
  solver.desc = make_desc(g, bias);
  solver.left = make_layout(g, g.b, g.k, g.n);
  solver.right = make_layout(g, g.a, g.m, g.k);
  solver.out = make_layout(g, {g.y, g.n, g.m * g.n}, g.m, g.n);
  const Preference preference = make_preference(g);
  std::array<cublasLtMatmulHeuristicResult_t, kMostEngines> found = {};
  int count = 0;
  solver.status = api().get_heuristic(
      handle_of(device), solver.desc.get(), solver.left.get(), solver.right.get(), solver.out.get(),
      solver.out.get(), preference.get(), static_cast<int>(found.size()), found.data(), &count);
  if (solver.status == CUBLAS_STATUS_NOT_SUPPORTED ||
      solver.status == CUBLAS_STATUS_INVALID_VALUE) {
    return solver;
  }
  check_status(solver.status, "cublasLtMatmulAlgoGetHeuristic");
  for (const auto& one : std::span(found).first(static_cast<size_t>(count))) {
    if (one.state == CUBLAS_STATUS_SUCCESS) solver.engines.push_back({one.algo, one.workspaceSize});
  }
  return solver;
}

Solver make_solver(Device device, const Gemm& g) {
  Solver solver = find_solver(device, g, may_have_bias_epilogue(g));
  if (!solver.engines.empty() || g.activation != Activation::kNone) return solver;
  // Epilogues are said to be refused for matrices of one row or column.
  if (solver.has_bias_epilogue) solver = find_solver(device, g, false);
  WICK_CHECK(!solver.engines.empty(), "matmul: cuBLASLt has no algorithm for ", g.m, " x ", g.k,
             " times ", g.k, " x ", g.n, " in ", g.dtype, ": ", api().status_string(solver.status));
  return solver;
}

const Solver& solver_for(Device device, const Gemm& g) {
  static thread_local std::unordered_map<PlanKey, Solver, HashOfPlanKey> solvers;
  const PlanKey key = key_of(device, g);
  const auto found = solvers.find(key);
  if (found != solvers.end()) return found->second;
  if (solvers.size() >= kMostSolvers) solvers.clear();
  return solvers.emplace(key, make_solver(device, g)).first->second;
}

// Every row of y becomes the bias, and what the residual adds to it.
void spread_bias(Device device, const Gemm& g) {
  const Shape shape{g.batch * g.m, g.n};
  const View bias{const_cast<void*>(g.bias), g.dtype, device, shape, {0, 1}};
  const View y{g.y, g.dtype, device, shape, {g.n, 1}};
  if (g.residual == nullptr) return copy(bias, y);
  const View residual{const_cast<void*>(g.residual), g.dtype, device, shape, {g.n, 1}};
  const View operands[] = {residual, bias};
  elementwise(fn::Add{}, y.dtype, y, operands);
}

// Whether it could be queued: otherwise the library has no such activation.
bool run(Device device, const Gemm& g, int number, Workspace& workspace) {
  const cudaStream_t stream = enter_device(device);
  const Solver& solver = solver_for(device, g);
  if (solver.engines.empty()) return false;
  const size_t index = number == kAnyEngine ? 0 : static_cast<size_t>(number);
  const Engine& engine = solver.engines[index < solver.engines.size() ? index : 0];
  const bool add = g.bias != nullptr && !solver.has_bias_epilogue;
  if (add) spread_bias(device, g);
  set_pointers(solver.desc, g, solver.has_bias_epilogue);
  const void* const former = add || g.residual == nullptr ? g.y : g.residual;
  const double alpha_double = g.scale, beta_double = add || g.residual != nullptr ? 1 : 0;
  const auto alpha_float = static_cast<float>(alpha_double),
             beta_float = static_cast<float>(beta_double);
  const bool is_double = g.dtype == kFloat64;
  const void* const alpha = is_double ? static_cast<const void*>(&alpha_double) : &alpha_float;
  const void* const beta = is_double ? static_cast<const void*>(&beta_double) : &beta_float;
  void* const scratch = workspace.allocate(engine.scratch);
  const profile::KernelScope scope("cublasLtMatmul", device, stream);
  const cublasStatus_t status =
      api().matmul(handle_of(device), solver.desc.get(), alpha, g.b.data, solver.left.get(),
                   g.a.data, solver.right.get(), beta, former, solver.out.get(), g.y,
                   solver.out.get(), &engine.algorithm, scratch, engine.scratch, stream);
  check_status(status, "cublasLtMatmul");
  workspace.release(scratch);
  return true;
}

}  // namespace

std::vector<std::string> gemm_engines(Device device, const Gemm& g) {
  std::vector<std::string> names;
  const auto list = [&](const Gemm& product) {
    enter_device(device);
    for (const Engine& engine : solver_for(device, product).engines) {
      names.push_back(name_of(engine));
    }
  };
  if (has_activation_epilogue(g)) list(g);
  if (names.empty()) list(product_alone(g));
  return names;
}

bool gemm(Device device, const Gemm& g, int engine, Workspace& workspace) {
  if (has_activation_epilogue(g) && run(device, g, engine, workspace)) return true;
  run(device, product_alone(g), engine, workspace);
  return g.activation == Activation::kNone;
}

}  // namespace wick::cuda
