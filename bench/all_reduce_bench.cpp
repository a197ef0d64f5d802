// One rank of a group of processes, which bench/peers/all_reduce.py starts and tells what to
// measure, a line each:
//   reduce BYTES REPETITIONS    all_reduce of float32, and the median time in microseconds
//   triad BYTES REPETITIONS     a = b + 3 c over arrays of BYTES, and bytes per second
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "wick/wick.h"

namespace {

using namespace wick;

double median_seconds(int repetitions, const std::function<void()>& action) {
  using Seconds = std::chrono::duration<double>;
  std::vector<double> times;
  for (int i = -2; i < repetitions; ++i) {  // two to get warm
    const auto begin = std::chrono::steady_clock::now();
    action();
    if (i >= 0) times.push_back(Seconds(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + repetitions / 2, times.end());
  return times[static_cast<size_t>(repetitions / 2)];
}

double triad(size_t bytes, int repetitions) {
  const size_t n = bytes / sizeof(double);
  std::vector<double> a(n, 1), b(n, 2), c(n, 3);
  const double seconds = median_seconds(repetitions, [&] {
    for (size_t i = 0; i < n; ++i) a[i] = b[i] + 3 * c[i];
    asm volatile("" : : "r"(a.data()) : "memory");
  });
  return 3 * static_cast<double>(bytes) / seconds;
}

}  // namespace

int main() {
  const auto env = dist::launch_env();
  if (!env) {
    std::fprintf(stderr, "bench_all_reduce: bench/peers/all_reduce.py starts it\n");
    return 1;
  }
  try {
    const bool shared_memory = std::getenv("WICK_NO_SHARED_MEMORY") == nullptr;
    const auto group = dist::init_process_group(*env, {.shared_memory = shared_memory});
    std::string what;
    size_t bytes = 0;
    int repetitions = 0;
    while (std::cin >> what >> bytes >> repetitions) {
      double result = 0;
      group->barrier().wait();
      if (what == "triad") {
        result = triad(bytes, repetitions);
      } else {
        const Tensor x = zeros({static_cast<int64_t>(bytes / sizeof(float))});
        result = 1e6 * median_seconds(repetitions,
                                      [&] { group->all_reduce(x, dist::ReduceOp::kSum).wait(); });
      }
      std::printf("%.9g\n", result);
      std::fflush(stdout);
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "bench_all_reduce: %s\n", error.what());
    return 1;
  }
}
