#include "wick/tools/study/plain_adamw.h"

#include <cmath>

#include "wick/core/core.h"

namespace wick::study {

namespace {
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEps = 1e-8;
}

PlainAdamW::PlainAdamW(std::vector<Tensor> params, double lr, double weight_decay)
    : params_(std::move(params)), lr_(lr), weight_decay_(weight_decay) {
  for (const Tensor& param : params_) {
    first_.push_back(zeros_like(param.detach()));
    second_.push_back(zeros_like(param.detach()));
  }
}

void PlainAdamW::step() {
  const NoGrad no_grad;
  ++steps_;
  const auto t = static_cast<double>(steps_);
  const double correction1 = 1 - std::pow(kBeta1, t), correction2 = 1 - std::pow(kBeta2, t);
  for (size_t i = 0; i < params_.size(); ++i) {
    const Tensor grad = params_[i].grad();
    if (!grad.defined()) continue;
    params_[i].mul_(1 - lr_ * weight_decay_);
    first_[i].mul_(kBeta1).add_(grad, 1 - kBeta1);
    second_[i].mul_(kBeta2).add_(grad * grad, 1 - kBeta2);
    const Tensor denominator = second_[i].sqrt();
    denominator.mul_(1 / std::sqrt(correction2)).add_(kEps);
    params_[i].add_(first_[i] / denominator, -lr_ / correction1);
  }
}

}  // namespace wick::study
