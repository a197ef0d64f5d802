// Elementwise functions that the library does not have, as a program writes them: held against the
// library's operations, on each device.
#include <swiglu.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "wick/core/functor.h"
#include "wick/wick.h"

using namespace wick;

namespace {

void check(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

bool is_close(const Tensor& a, const Tensor& b, double tolerance) {
  const Tensor distance = (a.detach().to(kFloat64) - b.detach().to(kFloat64)).abs();
  return a.shape() == b.shape() && distance.max().item() <= tolerance;
}

Tensor composed_swiglu(const Tensor& gate, const Tensor& up) { return silu(gate) * up; }

// Values and gradients in every floating dtype; `up` broadcasts, `gate` is transposed.
void check_swiglu(Device device) {
  for (const Dtype dtype : {kFloat64, kFloat32, kFloat16, kBFloat16}) {
    const Tensor gate = randn({1025, 33}).to(dtype).to(device).t().detach().set_requires_grad();
    const Tensor up = randn({1025}).to(dtype).to(device).set_requires_grad();
    const double tolerance = dtype == kFloat64 ? 1e-12 : dtype == kFloat32 ? 1e-5 : 0.05;
    const Tensor y = elementwise(Swiglu{}, gate, up), other = composed_swiglu(gate, up);
    check(y.dtype() == dtype && is_close(y, other, tolerance), "swiglu: the values");
    const Tensor dy = randn({33, 1025}).to(dtype).to(device);
    const std::vector<Tensor> got = grad({y}, {gate, up}, {dy});
    const std::vector<Tensor> want = grad({other}, {gate, up}, {dy});
    check(is_close(got[0], want[0], 4 * tolerance), "swiglu: the gradient of gate");
    check(is_close(got[1], want[1], 16 * tolerance), "swiglu: the gradient of up");
  }
}

void check_gradients(Device device) {
  const auto input = [device](const Shape& shape) {
    return randn(shape, kFloat64).to(device).set_requires_grad();
  };
  const auto swiglu = [](const std::vector<Tensor>& x) {
    return std::vector{elementwise(Swiglu{}, x[0], x[1])};
  };
  const auto swish = [](const std::vector<Tensor>& x) {
    return std::vector{elementwise(Swish{{}, 1.5}, x[0])};
  };
  check(gradcheck(swiglu, {input({3, 5}), input({5})}), "swiglu: gradcheck");
  check(gradgradcheck(swiglu, {input({3, 5}), input({5})}), "swiglu: gradgradcheck");
  check(gradcheck(swish, {input({17})}), "swish: gradcheck");
  check(gradgradcheck(swish, {input({17})}), "swish: gradgradcheck");
  const Tensor x = input({4});
  check(is_close(elementwise(Swish{{}, 1}, x), silu(x), 1e-12), "swish with beta 1");
  check(elementwise(Swish{{}, 1.5}, x).grad_fn()->name() == "swish(beta=1.5)", "swish: its name");
}

}  // namespace

int main() {
  try {
    std::vector<Device> devices = {kCpu};
    if (cuda_is_available()) devices.push_back(cuda_device(0));
    for (const Device device : devices) {
      check_swiglu(device);
      check_gradients(device);
    }
    try {
      elementwise(Swish{{}, 1}, ones({2}, kInt64));
      check(false, "an integer was taken");
    } catch (const Error& error) {
      check(std::string(error.what()) ==
                "swish: input 0 is of the wrong dtype: got int64, expected a floating one",
            error.what());
    }
  } catch (const std::exception& error) {
    std::printf("functors: wrong: %s\n", error.what());
    return 1;
  }
  return 0;
}
