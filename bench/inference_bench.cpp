// Inference of ResNet-18 on images of 3 x 224 x 224: eager, compiled, and compiled with frozen
// parameters, whose batch norms are folded. The three take turns. Prints each median, and the
// median and quartiles of eager's time over it, round by round. Arguments: [BATCH] [ROUNDS]
// [THREADS].
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "wick/wick.h"

namespace {

using namespace wick;

struct Mode {
  const char* name;
  std::function<Tensor(const Tensor&)> call;
  std::vector<double> seconds = {};
};

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

void run(int64_t batch, int rounds) {
  manual_seed(0);
  nn::ResNet net = nn::resnet18();
  net.eval();
  graph::CompiledModule compiled = graph::compile(net);
  graph::CompiledModule frozen = graph::compile(net, {.freeze = true});
  std::array<Mode, 3> modes{{{"eager",
                              [&](const Tensor& x) {
                                const NoGrad no_grad;
                                return net(x);
                              }},
                             {"compiled", [&](const Tensor& x) { return compiled(x); }},
                             {"frozen", [&](const Tensor& x) { return frozen(x); }}}};
  const Tensor x = randn({batch, 3, 224, 224});
  const Tensor want = modes[0].call(x);
  for (Mode& mode : modes) {
    for (int i = 0; i < 4; ++i) {
      WICK_CHECK(allclose(mode.call(x), want, 1e-3, 1e-3), "bench: ", mode.name, " is wrong");
    }
  }
  for (int i = 0; i < rounds; ++i) {
    for (Mode& mode : modes) {
      mode.call(x);  // its weights are in the cache then, as far as they fit
      const auto start = std::chrono::steady_clock::now();
      mode.call(x);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      mode.seconds.push_back(seconds.count());
    }
  }
  for (const Mode& mode : modes) {
    std::vector<double> ratios;
    for (size_t i = 0; i < mode.seconds.size(); ++i) {
      ratios.push_back(modes[0].seconds[i] / mode.seconds[i]);
    }
    std::printf("%-10s %8.2f ms %6.3fx [%5.3f, %5.3f]\n", mode.name,
                1e3 * quantile(mode.seconds, 0.5), quantile(ratios, 0.5), quantile(ratios, 0.25),
                quantile(ratios, 0.75));
  }
}

}  // namespace

int main(int argc, char** argv) try {
  WICK_CHECK(argc <= 4, "bench: expected [BATCH] [ROUNDS] [THREADS]");
  if (argc > 3) set_num_threads(std::stoi(argv[3]));
  run(argc > 1 ? std::stol(argv[1]) : 1, argc > 2 ? std::stoi(argv[2]) : 100);
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
