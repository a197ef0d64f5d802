#include "wick/bench/runner/ceilings.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "wick/bench/runner/measure.h"
#include "wick/core/autograd.h"
#include "wick/core/base/parallel.h"
#include "wick/core/ops/matmul.h"
#include "wick/core/stream.h"

namespace wick::bench {

namespace {

// --- Multiply-adds in registers: enough of them for the latency of two units
// ----------------------

constexpr int kChains = 12;
constexpr int64_t kRounds = 100'000;

struct FmaLoop {
  const char* name;
  Dtype dtype;
  bool (*available)();
  float (*run)(float x);  // kRounds * kChains instructions
  double flops_each;
};

__attribute__((target("avx2,fma"))) float fma_avx2(float x) {
  __m256 sums[kChains];
  for (__m256& sum : sums) sum = _mm256_set1_ps(x);
  const __m256 a = _mm256_set1_ps(x), b = _mm256_set1_ps(1 - x);
  for (int64_t i = 0; i < kRounds; ++i) {
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, a, b);
  }
  for (const __m256& sum : sums) x += _mm256_cvtss_f32(sum);
  return x;
}

__attribute__((target("avx512f"))) float fma_avx512(float x) {
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = _mm512_set1_ps(x);
  const __m512 a = _mm512_set1_ps(x), b = _mm512_set1_ps(1 - x);
  for (int64_t i = 0; i < kRounds; ++i) {
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, a, b);
  }
  for (const __m512& sum : sums) x += _mm512_cvtss_f32(sum);
  return x;
}

__attribute__((target("avx512f,avx512vl,avx512bf16"))) float dot_bf16(float x) {
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = _mm512_set1_ps(x);
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(x), _mm512_set1_ps(x));
  const __m512bh b = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1 - x), _mm512_set1_ps(x - 1));
  for (int64_t i = 0; i < kRounds; ++i) {
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, a, b);
  }
  for (const __m512& sum : sums) x += _mm512_cvtss_f32(sum);
  return x;
}

const FmaLoop kLoops[] = {
    {"AVX2 multiply-add", kFloat32,
     [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }, fma_avx2, 16},
    {"AVX-512 multiply-add", kFloat32, [] { return __builtin_cpu_supports("avx512f") != 0; },
     fma_avx512, 32},
    {"AVX-512 dot product", kBFloat16, [] { return __builtin_cpu_supports("avx512bf16") != 0; },
     dot_bf16, 64},
};

// --- Memory
// ---------------------------------------------------------------------------------------

// Stores that go past the caches, for what does not fit into them anyway.
void copy_past_caches(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += 8) _mm256_stream_ps(y + i, _mm256_load_ps(x + i));
  _mm_sfence();
}
void copy_plainly(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += 8) _mm256_store_ps(y + i, _mm256_load_ps(x + i));
}
// z = x + 3 y, McCalpin's triad, with y as z.
void triad(const float* x, float* y, int64_t n) {
  const __m256 three = _mm256_set1_ps(3);
  for (int64_t i = 0; i < n; i += 8) {
    const __m256 sum = _mm256_fmadd_ps(three, _mm256_load_ps(y + i), _mm256_load_ps(x + i));
    _mm256_store_ps(y + i, sum);
  }
}
void read_all(const float* x, float* y, int64_t n) {
  __m256 sums[8] = {};
  for (int64_t i = 0; i + 64 <= n; i += 64) {
    for (int j = 0; j < 8; ++j) sums[j] = _mm256_add_ps(sums[j], _mm256_load_ps(x + i + 8 * j));
  }
  for (const __m256& sum : sums) y[0] += _mm256_cvtss_f32(sum);
}

struct MemoryLoop {
  const char* name;
  void (*run)(const float* x, float* y, int64_t n);
  double bytes_per_element;
  double arrays;  // of n floats that it touches
};
constexpr MemoryLoop kMemoryLoops[] = {
    {"copy", copy_plainly, 8, 2},
    {"copy past caches", copy_past_caches, 8, 2},
    {"triad", triad, 12, 2},
    {"read", read_all, 4, 1},
};

// The shortest of some runs of about `seconds` together.
double best_seconds(const std::function<void()>& run, double seconds) {
  run();
  double best = HUGE_VAL, spent = 0;
  for (int i = 0; i < 3 || spent < seconds; ++i) {
    const double start = now();
    run();
    const double taken = now() - start;
    best = std::min(best, taken);
    spent += taken;
  }
  return best;
}

struct Share {
  int64_t begin, end;
};
Share share_of(int64_t n, int64_t threads, int64_t thread) {
  const auto cut = [&](int64_t t) { return n * t / threads / 64 * 64; };
  return {cut(thread), thread + 1 == threads ? n : cut(thread + 1)};
}

double time_memory(const MemoryLoop& loop, int64_t footprint, int64_t threads, double seconds) {
  const int64_t n = footprint / 4 / static_cast<int64_t>(loop.arrays) / 64 * 64;
  const Tensor x = ones({n}), y = zeros({n});
  const float* const from = x.data<float>();
  float* const to = y.data<float>();
  const int64_t repeats = std::max<int64_t>(1, (int64_t{1} << 25) / footprint);
  const auto run = [&] {
    parallel_for(threads, 1, [&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        const Share share = share_of(n, threads, t);
        for (int64_t r = 0; r < repeats; ++r) {
          loop.run(from + share.begin, to + share.begin, share.end - share.begin);
        }
      }
    });
  };
  return static_cast<double>(repeats * n) * loop.bytes_per_element / best_seconds(run, seconds);
}

void measure_memory(Ceilings& ceilings, double seconds, std::vector<std::string>& report) {
  constexpr int64_t kKiB = 1024;
  for (const int64_t footprint : {256 * kKiB, 4096 * kKiB, 65536 * kKiB, 262144 * kKiB}) {
    Ceilings::Memory best{static_cast<double>(footprint), 0};
    std::string by;
    for (const MemoryLoop& loop : kMemoryLoops) {
      for (const int64_t threads : {int64_t{1}, int64_t{num_threads()}}) {
        const double rate = time_memory(loop, footprint, threads, seconds / 40);
        if (rate <= best.bytes_per_second) continue;
        best.bytes_per_second = rate;
        by = concat(loop.name, ", ", threads, threads == 1 ? " thread" : " threads");
      }
    }
    ceilings.memory.push_back(best);
    report.push_back(concat("memory, ", footprint / kKiB, " KiB: ",
                            std::round(best.bytes_per_second / 1e8) / 10, " GB/s (", by, ")"));
  }
}

void measure_memory_of_gpu(Ceilings& ceilings, Device device, double seconds,
                           std::vector<std::string>& report) {
  for (const int64_t mebibytes : {8, 32, 128, 512}) {  // the first ones fit into the L2 cache
    const int64_t footprint = mebibytes << 20;
    const Tensor x = ones({footprint / 8}, kFloat32, device), y = empty_like(x);
    const double taken = time_once(device, seconds / 4, [&] { y.copy_(x); });
    const double rate = static_cast<double>(footprint) / taken;
    ceilings.memory.push_back({static_cast<double>(footprint), rate});
    report.push_back(
        concat("memory, ", mebibytes, " MiB: ", std::round(rate / 1e9), " GB/s (copy)"));
  }
}

// --- Both
// -----------------------------------------------------------------------------------------

double& flops_of(Ceilings& ceilings, Dtype dtype) {
  return dtype == kBFloat16 ? ceilings.flops_bfloat16 : ceilings.flops_float32;
}

void measure_products(Ceilings& ceilings, Device device, double seconds,
                      std::vector<std::string>& report) {
  const NoGrad no_grad;
  const int64_t n = device.is_cuda() ? 8192 : 1024;
  for (const Dtype dtype : {kFloat32, kBFloat16}) {
    const Tensor a = empty({n, n}).uniform_(-1, 1).to(dtype).to(device);
    const double taken = time_once(device, seconds, [&] { matmul(a, a); });
    const double rate = 2.0 * static_cast<double>(n * n * n) / taken;
    flops_of(ceilings, dtype) = std::max(flops_of(ceilings, dtype), rate);
    report.push_back(concat(to_string(dtype), ": ", std::round(rate / 1e9),
                            " GFLOP/s (matrix product of ", n, ")"));
  }
}

void measure_loops(Ceilings& ceilings, double seconds, std::vector<std::string>& report) {
  const int threads = num_threads();
  volatile float sink = 0.5F;
  for (const FmaLoop& loop : kLoops) {
    if (!loop.available()) continue;
    const auto run = [&] {
      parallel_for(threads, 1, [&](int64_t, int64_t) {
        const float x = loop.run(0.5F);
        if (x < 0) sink = x;  // never, but the compiler cannot know
      });
    };
    const double instructions = static_cast<double>(kRounds) * kChains * threads;
    const double rate = instructions * loop.flops_each / best_seconds(run, seconds);
    flops_of(ceilings, loop.dtype) = std::max(flops_of(ceilings, loop.dtype), rate);
    report.push_back(concat(to_string(loop.dtype), ": ", std::round(rate / 1e9), " GFLOP/s (",
                            loop.name, ", ", threads, " threads)"));
  }
}

}  // namespace

double Ceilings::bytes_per_second(double bytes) const {
  if (bytes <= memory.front().footprint) return memory.front().bytes_per_second;
  for (size_t i = 1; i < memory.size(); ++i) {
    const Memory &a = memory[i - 1], &b = memory[i];
    if (bytes > b.footprint) continue;
    const double part = std::log(bytes / a.footprint) / std::log(b.footprint / a.footprint);
    return a.bytes_per_second * std::pow(b.bytes_per_second / a.bytes_per_second, part);
  }
  return memory.back().bytes_per_second;
}

double Ceilings::flops_per_second(Dtype dtype) const {
  return std::max(flops_float32, dtype == kBFloat16 ? flops_bfloat16 : 0);
}

Ceilings::Bound Ceilings::bound(double bytes, double flops, Dtype dtype) const {
  const double memory_seconds = bytes / bytes_per_second(bytes);
  const double compute_seconds = flops / flops_per_second(dtype);
  if (bytes <= 0 && flops <= 0) return {};
  return memory_seconds >= compute_seconds ? Bound{memory_seconds, "memory"}
                                           : Bound{compute_seconds, "compute"};
}

Ceilings measure_ceilings(Device device, double seconds, std::vector<std::string>& report) {
  Ceilings ceilings;
  if (device.is_cuda()) {
    measure_memory_of_gpu(ceilings, device, seconds / 4, report);
  } else {
    measure_memory(ceilings, seconds, report);
    measure_loops(ceilings, seconds / 8, report);
  }
  measure_products(ceilings, device, seconds / 8, report);
  return ceilings;
}

}  // namespace wick::bench
