#include "wick/core/ops/detail/matmul_plan.h"

#include "wick/core/memory/detail/workspace.h"
#include "wick/core/plans.h"

namespace wick {

namespace {

constexpr const char* kActivationNames[] = {"", " relu", " gelu"};  // by Activation

bool is_transposed(const View& x) { return x.strides[x.rank() - 1] != 1; }

class PlannedMatMul final : public PlannedProblem {
 public:
  PlannedMatMul(const View& a, const View& b, const MatMulEpilogue& epilogue, const View& y)
      : a_(a), b_(b), epilogue_(epilogue), y_(y) {}

  Device device() const override { return y_.device; }
  Dtype dtype() const override { return y_.dtype; }

  PlanKey key() const override {
    PlanKey key(PlanKind::kMatmul, y_.device, y_.dtype);
    key.add({static_cast<int64_t>(epilogue_.activation), alignment_of(y_.data)});
    for (const View* x : {&epilogue_.bias, &epilogue_.before}) {
      key.add({x->defined(), alignment_of(x->data)});
    }
    if (epilogue_.residual.defined()) key.add({alignment_of(epilogue_.residual.data)});
    for (const View* x : {&a_, &b_}) {
      key.add({alignment_of(x->data)});
      key.add(x->shape);
      key.add(x->strides);
    }
    return key;
  }

  std::string words() const override {
    const auto operand = [](const View& x) {
      return in_words(x.shape) + (is_transposed(x) ? "t" : "");
    };
    return concat("matmul ", to_string(y_.dtype), " a=", operand(a_), " b=", operand(b_),
                  epilogue_.bias.defined() ? " bias" : "",
                  kActivationNames[static_cast<size_t>(epilogue_.activation)],
                  epilogue_.before.defined() ? " kept" : "",
                  epilogue_.residual.defined() ? " sum" : "");
  }

  std::vector<Candidate> candidates() const override {
    std::vector<std::string> engines;
    WICK_DISPATCH(y_.device, matmul_engines(a_, b_, epilogue_, y_, &engines));
    return library_candidates(engines);
  }

  void run(int candidate) const override {
    AllocatorWorkspace workspace(y_.device);
    WICK_DISPATCH(y_.device, matmul(a_, b_, epilogue_, y_, candidate, workspace));
  }

 private:
  const View &a_, &b_;
  const MatMulEpilogue& epilogue_;
  const View& y_;
};

}  // namespace

void planned_matmul(const View& a, const View& b, const MatMulEpilogue& epilogue, const View& y) {
  const PlannedMatMul problem(a, b, epilogue, y);
  const bool has_candidates = y.device.is_cuda() && is_floating(y.dtype);
  problem.run(has_candidates ? planned_candidate(problem) : kAnyCandidate);
}

}  // namespace wick
