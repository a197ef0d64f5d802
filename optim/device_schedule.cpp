#include "wick/optim/device_schedule.h"

#include "wick/core/autograd.h"
#include "wick/core/ops/compare.h"
#include "wick/core/ops/elementwise.h"
#include "wick/core/ops/index.h"

namespace wick::optim {

DeviceSchedule::DeviceSchedule(Schedule& schedule, int64_t steps) : schedule_(schedule) {
  const NoGrad no_grad;
  WICK_CHECK(schedule.steps_taken() <= steps, "device_schedule: steps: got ", steps,
             ", expected the ", schedule.steps_taken(), " that the schedule is at, or more");
  Optimizer& optimizer = schedule.optimizer();
  const int groups = schedule.num_groups();
  const int64_t most = (int64_t{1} << 30) / groups;
  WICK_CHECK(steps <= most, "device_schedule: steps: got ", steps, ", expected at most ", most,
             ": the rates of all are kept");
  std::vector<double> table;
  for (int64_t step = 0; step <= steps; ++step) {
    for (int g = 0; g < groups; ++g) {
      const double lr = schedule.lr_at(g, step, schedule.base_lr(g));
      optimizer.check_hyperparameter("lr", lr);
      std::optional<double> momentum = schedule.momentum_at(g, step);
      if (!momentum) momentum = optimizer.hyperparameter(g, optimizer.momentum_name());
      if (momentum) optimizer.check_hyperparameter(optimizer.momentum_name(), *momentum);
      table.push_back(lr);
      table.push_back(momentum.value_or(0));
    }
  }
  const Device device = optimizer.params(0)[0].device();
  table_ = tensor(table, Shape{steps + 1, groups, 2}).to(device);
  taken_ = empty({1}, kInt64, device);
  count_from_schedule();
  for (int g = 0; g < groups; ++g) rates_.push_back(optimizer.device_rates(g));
}

void DeviceSchedule::step(const Tensor& found_inf) {
  const NoGrad no_grad;
  taken_.add_(found_inf.eq(0).to(kInt64));
  const Tensor row = table_.index_select(0, taken_.clamp({}, table_.size(0) - 1));
  for (size_t g = 0; g < rates_.size(); ++g) {
    rates_[g].copy_(row[0][static_cast<int64_t>(g)]);
  }
}

void DeviceSchedule::count_from_schedule() {
  const NoGrad no_grad;
  taken_.fill_(schedule_.steps_taken());
}

int64_t DeviceSchedule::settle() {
  const int64_t taken = taken_.item<int64_t>(), steps = table_.size(0) - 1;
  WICK_CHECK(taken <= steps, "device_schedule: stepped past its end: got ", taken,
             " steps, expected at most ", steps);
  StateDict state = schedule_.state_dict();
  state["step"] = scalar_tensor(taken, kInt64);
  schedule_.load_state_dict(state);
  return taken;
}

}  // namespace wick::optim
