#include <cublasLt.h>

#include <array>
#include <cstring>
#include <memory>
#include <type_traits>
#include <unordered_map>

#include "wick/core/base/check.h"
#include "wick/core/base/dynamic_library.h"
#include "wick/core/base/tf32.h"
#include "wick/core/base/view.h"
#include "wick/kernels/copy.h"
#include "wick/kernels/cuda/common/enter_device.h"
#include "wick/kernels/cuda/common/library_error.h"
#include "wick/kernels/cuda/gemm.h"

// Matrix multiplication by cuBLASLt, which stores matrices by columns: it computes the transpose of
// y from those of b and a, which rows are in memory.
namespace wick::cuda {

namespace {

constexpr size_t kMostScratch = size_t{32} << 20;  // what NVIDIA recommends for Hopper
constexpr size_t kMostPlans = 4096;

struct Api {
  decltype(cublasLtCreate)* create;
  decltype(cublasLtGetStatusString)* status_string;
  decltype(cublasLtMatmul)* matmul;
  decltype(cublasLtMatmulAlgoGetHeuristic)* get_heuristic;
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

// Bytes that `p` is a multiple of: a power of two, at most 256.
int64_t alignment_of(const void* p) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(p) | 256;
  return static_cast<int64_t>(address & (~address + 1));
}

// float64 has no epilogue with a bias.
bool has_bias_epilogue(const Gemm& g) { return g.bias != nullptr && g.dtype != kFloat64; }

using Key = std::array<int64_t, 21>;

Key key_of(Device device, const Gemm& g) {
  return {device.index,
          static_cast<int64_t>(g.dtype),
          allow_tf32(),
          g.batch,
          g.m,
          g.n,
          g.k,
          g.a.ld,
          g.a.step,
          g.a.transposed,
          g.b.ld,
          g.b.step,
          g.b.transposed,
          alignment_of(g.a.data),
          alignment_of(g.b.data),
          alignment_of(g.y),
          has_bias_epilogue(g) ? alignment_of(g.bias) : 0,
          g.bias != nullptr,
          static_cast<int64_t>(g.activation),
          g.before != nullptr,
          alignment_of(g.before)};
}

struct HashOfKey {
  size_t operator()(const Key& key) const {
    uint64_t hash = 0xcbf29ce484222325u;
    for (const int64_t value : key) hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001b3u;
    return static_cast<size_t>(hash ^ hash >> 32);
  }
};

// How one kind of product is computed.
struct Plan {
  bool found = false;  // false: not with this activation
  Desc desc;
  Layout left, right, out;  // by columns: b, a and y
  cublasLtMatmulAlgo_t algorithm = {};
  size_t scratch = 0;
};

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

cublasLtEpilogue_t epilogue_of(const Gemm& g) {
  const bool bias = has_bias_epilogue(g);
  switch (g.activation) {
    case Activation::kNone: return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Activation::kRelu: return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::kGeluTanh: break;
  }
  if (g.before == nullptr) return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
}

// What the epilogue reads and writes beside y.
void set_pointers(const Desc& desc, const Gemm& g) {
  if (has_bias_epilogue(g)) set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias);
  if (g.before != nullptr) set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, g.before);
}

Desc make_desc(const Gemm& g) {
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
  set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(g));
  if (has_bias_epilogue(g)) set(desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(g.dtype));
  if (g.before != nullptr) set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, g.n);
  set_pointers(desc, g);
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
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(g.y));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(g.y));
  // No sums of parts that were rounded to 16 bits.
  const uint32_t schemes = is_reduced(g.dtype) ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                               : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE |
                                                     CUBLASLT_REDUCTION_SCHEME_INPLACE;
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
  return preference;
}

Plan make_plan(Device device, const Gemm& g) {
  Plan plan;
  plan.desc = make_desc(g);
  plan.left = make_layout(g, g.b, g.k, g.n);
  plan.right = make_layout(g, g.a, g.m, g.k);
  plan.out = make_layout(g, {g.y, g.n, g.m * g.n}, g.m, g.n);
  const Preference preference = make_preference(g);
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  const cublasStatus_t status =
      api().get_heuristic(handle_of(device), plan.desc.get(), plan.left.get(), plan.right.get(),
                          plan.out.get(), plan.out.get(), preference.get(), 1, &found, &count);
  if (g.activation != Activation::kNone && status == CUBLAS_STATUS_NOT_SUPPORTED) return plan;
  check_status(status, "cublasLtMatmulAlgoGetHeuristic");
  if (g.activation != Activation::kNone && count == 0) return plan;
  WICK_CHECK(count > 0, "matmul: cuBLASLt has no algorithm for ", g.m, " x ", g.k, " times ", g.k,
             " x ", g.n, " in ", g.dtype);
  plan.found = true;
  plan.algorithm = found.algo;
  plan.scratch = found.workspaceSize;
  return plan;
}

const Plan& plan_for(Device device, const Gemm& g) {
  static thread_local std::unordered_map<Key, Plan, HashOfKey> plans;
  const Key key = key_of(device, g);
  const auto found = plans.find(key);
  if (found != plans.end()) return found->second;
  if (plans.size() >= kMostPlans) plans.clear();
  return plans.emplace(key, make_plan(device, g)).first->second;
}

// Every row of y becomes the bias.
void spread_bias(Device device, const Gemm& g) {
  const View bias{const_cast<void*>(g.bias), g.dtype, device, {g.batch * g.m, g.n}, {0, 1}};
  copy(bias, {g.y, g.dtype, device, {g.batch * g.m, g.n}, {g.n, 1}});
}

// Whether it could be queued: otherwise the library has no such activation.
bool run(Device device, const Gemm& g, Workspace& workspace) {
  const cudaStream_t stream = enter_device(device);
  const Plan& plan = plan_for(device, g);
  if (!plan.found) return false;
  const bool add = g.bias != nullptr && !has_bias_epilogue(g);
  if (add) spread_bias(device, g);
  set_pointers(plan.desc, g);
  const float one = 1, zero = 0;
  const double one_double = 1, zero_double = 0;
  const bool is_double = g.dtype == kFloat64;
  const void* const alpha = is_double ? static_cast<const void*>(&one_double) : &one;
  const void* const none = is_double ? static_cast<const void*>(&zero_double) : &zero;
  void* const scratch = workspace.allocate(plan.scratch);
  const cublasStatus_t status =
      api().matmul(handle_of(device), plan.desc.get(), alpha, g.b.data, plan.left.get(), g.a.data,
                   plan.right.get(), add ? alpha : none, g.y, plan.out.get(), g.y, plan.out.get(),
                   &plan.algorithm, scratch, plan.scratch, stream);
  check_status(status, "cublasLtMatmul");
  workspace.release(scratch);
  return true;
}

}  // namespace

bool gemm(Device device, const Gemm& g, Workspace& workspace) {
  if (has_activation_epilogue(g) && run(device, g, workspace)) return true;
  run(device, product_alone(g), workspace);
  return g.activation == Activation::kNone;
}

}  // namespace wick::cuda
