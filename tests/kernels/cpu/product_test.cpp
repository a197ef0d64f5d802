#include "wick/kernels/cpu/product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "wick/core/base/half.h"
#include "wick/core/base/threads.h"
#include "wick/kernels/declare.h"

namespace wick::testing {
namespace {

using cpu::BFloat16Unit;
using cpu::Product;

class HostBlocks final : public Workspace {
 public:
  void* allocate(size_t bytes) override {
    blocks_.emplace_back(bytes == 0 ? nullptr : std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    return blocks_.back().get();
  }
  void release(void*) override {}

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::vector<std::unique_ptr<void, Free>> blocks_;
};

// One way to compute a product: an instruction set, and what multiplies bfloat16.
struct Variant {
  std::string name;
  void (*product)(const Product& p, Workspace& workspace);
  BFloat16Unit unit;
};

// Those that this machine has. float32 and float64 know no unit: with `units` false each
// instruction set is there once.
std::vector<Variant> variants(bool units) {
  std::vector<Variant> all;
#ifndef WICK_WITHOUT_AVX2
  all.push_back({"AVX2", &cpu_avx2::product, BFloat16Unit::kFloat32});
#endif
  if (cpu_isa() != CpuIsa::kAvx512) return all;
  all.push_back({"AVX-512", &cpu_avx512::product, BFloat16Unit::kFloat32});
  if (!units) return all;
  const BFloat16Unit best = cpu::bfloat16_unit();
  if (best != BFloat16Unit::kFloat32) {
    all.push_back({"AVX-512 BF16", &cpu_avx512::product, BFloat16Unit::kDotProduct});
  }
  if (best == BFloat16Unit::kMatrix) {
    all.push_back({"AMX", &cpu_avx512::product, BFloat16Unit::kMatrix});
  }
  return all;
}

// An array of one dtype, read and written as numbers.
class Numbers {
 public:
  Numbers(Dtype dtype, int64_t size, double fill)
      : dtype_(dtype), bytes_(static_cast<size_t>(size * size_of(dtype))) {
    for (int64_t i = 0; i < size; ++i) set(i, fill);
  }
  void* at(int64_t i) { return bytes_.data() + i * size_of(dtype_); }
  const std::vector<char>& bytes() const { return bytes_; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()) / size_of(dtype_); }
  double get(int64_t i) {
    switch (dtype_) {
      case Dtype::kFloat64: return *static_cast<double*>(at(i));
      case Dtype::kBFloat16: return *static_cast<BFloat16*>(at(i));
      default: return *static_cast<float*>(at(i));
    }
  }
  void set(int64_t i, double x) {
    switch (dtype_) {
      case Dtype::kFloat64: *static_cast<double*>(at(i)) = x; return;
      case Dtype::kBFloat16:
        *static_cast<BFloat16*>(at(i)) = BFloat16(static_cast<float>(x));
        return;
      default: *static_cast<float*>(at(i)) = static_cast<float>(x);
    }
  }

 private:
  Dtype dtype_;
  std::vector<char> bytes_;
};

struct Trial {
  int64_t count = 1, m = 1, n = 1, k = 1;
  bool a_columns = false, b_columns = false;  // whether columns lie in one piece
  int64_t gap = 0;                            // between lines, and before the first one
  Dtype in = Dtype::kFloat32, out = Dtype::kFloat32;
  bool bias = false, accumulate = false;
  bool residual = false, relu = false;  // what follows the sums

  std::string text() const {
    return std::to_string(count) + " x " + std::to_string(m) + "x" + std::to_string(n) + "x" +
           std::to_string(k) + (a_columns ? " T" : " N") + (b_columns ? "T" : "N") + " gap " +
           std::to_string(gap) + " " + std::string(to_string(in)) + " to " +
           std::string(to_string(out)) + (bias ? " bias" : "") + (accumulate ? " accumulate" : "") +
           (residual ? " residual" : "") + (relu ? " relu" : "");
  }
};

// The operands of a trial. What lies between lines is NaN in operands, 77 in results.
class Operands {
 public:
  template <class Draw>
  Operands(const Trial& t, Draw draw)
      : t_(t),
        a_line_((t.a_columns ? t.m : t.k) + t.gap),
        b_line_((t.b_columns ? t.k : t.n) + t.gap),
        c_line_(t.n + t.gap),
        a_step_(a_line_ * (t.a_columns ? t.k : t.m) + t.gap),
        b_step_(b_line_ * (t.b_columns ? t.n : t.k) + t.gap),
        c_step_(c_line_ * t.m + t.gap),
        a_(t.in, t.gap + t.count * a_step_, NAN),
        b_(t.in, t.gap + t.count * b_step_, NAN),
        bias_(t.out, t.n, 0),
        start_(t.out, t.gap + t.count * c_step_ + 8, kGuard),
        residual_(t.out, start_.size(), NAN) {
    for (int64_t i = 0; i < t.count; ++i) {
      for (int64_t r = 0; r < t.m; ++r) {
        for (int64_t k = 0; k < t.k; ++k) a_.set(a_at(i, r, k), draw());
        for (int64_t j = 0; j < t.n; ++j) start_.set(c_at(i, r, j), draw());
        for (int64_t j = 0; j < t.n; ++j) residual_.set(c_at(i, r, j), draw());
      }
      for (int64_t k = 0; k < t.k; ++k) {
        for (int64_t j = 0; j < t.n; ++j) b_.set(b_at(i, k, j), draw());
      }
    }
    for (int64_t j = 0; j < t.n; ++j) bias_.set(j, draw());
  }

  Numbers run(const Variant& variant, int threads) {
    Numbers c = start_;
    Product p;
    p.count = t_.count;
    p.sizes = {t_.m, t_.n, t_.k};
    p.in = t_.in;
    p.out = t_.out;
    p.a = {a_.at(a_at(0, 0, 0)), t_.a_columns ? 1 : a_line_, t_.a_columns ? a_line_ : 1};
    p.b = {b_.at(b_at(0, 0, 0)), t_.b_columns ? 1 : b_line_, t_.b_columns ? b_line_ : 1};
    p.a_step = a_step_;
    p.b_step = b_step_;
    p.bias = t_.bias ? bias_.at(0) : nullptr;
    p.c = c.at(t_.gap);
    p.c_row = c_line_;
    p.c_step = c_step_;
    p.accumulate = t_.accumulate;
    p.unit = variant.unit;
    p.finish = {t_.residual ? residual_.at(t_.gap) : nullptr,
                t_.relu ? Activation::kRelu : Activation::kNone, p.c};
    HostBlocks workspace;
    const int before = num_threads();
    set_num_threads(threads);
    variant.product(p, workspace);
    set_num_threads(before);
    return c;
  }

  // What `c` should be, in double.
  std::vector<double> reference() {
    std::vector<double> c(static_cast<size_t>(start_.size()));
    for (size_t i = 0; i < c.size(); ++i) c[i] = start_.get(static_cast<int64_t>(i));
    std::vector<double> row(static_cast<size_t>(t_.n));
    for (int64_t i = 0; i < t_.count; ++i) {
      for (int64_t r = 0; r < t_.m; ++r) {
        for (int64_t j = 0; j < t_.n; ++j) {
          row[static_cast<size_t>(j)] = t_.accumulate ? start_.get(c_at(i, r, j))
                                        : t_.bias     ? bias_.get(j)
                                                      : 0;
        }
        for (int64_t k = 0; k < t_.k; ++k) {
          const double x = a_.get(a_at(i, r, k));
          for (int64_t j = 0; j < t_.n; ++j) {
            row[static_cast<size_t>(j)] += x * b_.get(b_at(i, k, j));
          }
        }
        for (int64_t j = 0; j < t_.n; ++j) {
          const int64_t at = c_at(i, r, j);
          c[static_cast<size_t>(at)] = finished(row[static_cast<size_t>(j)], at);
        }
      }
    }
    return c;
  }

  int64_t a_at(int64_t i, int64_t r, int64_t k) const {
    return t_.gap + i * a_step_ + (t_.a_columns ? k * a_line_ + r : r * a_line_ + k);
  }
  int64_t b_at(int64_t i, int64_t k, int64_t j) const {
    return t_.gap + i * b_step_ + (t_.b_columns ? j * b_line_ + k : k * b_line_ + j);
  }
  int64_t c_at(int64_t i, int64_t r, int64_t j) const {
    return t_.gap + i * c_step_ + r * c_line_ + j;
  }
  Numbers& a() { return a_; }
  Numbers& b() { return b_; }

 private:
  static constexpr double kGuard = 77;

  // The result whose sum is `x`. What follows the sum starts with its rounded value.
  double finished(double x, int64_t at) {
    Numbers rounded(t_.out, 1, x);
    if (t_.residual) rounded.set(0, rounded.get(0) + residual_.get(at));
    if (t_.relu) rounded.set(0, std::fmax(rounded.get(0), 0));
    return t_.residual || t_.relu ? rounded.get(0) : x;
  }

  Trial t_;
  int64_t a_line_, b_line_, c_line_, a_step_, b_step_, c_step_;
  Numbers a_, b_, bias_, start_, residual_;
};

// Sixteenths: their products' sums are exact in float32, whatever the order.
struct Exact {
  std::mt19937& random;
  double operator()() const { return (static_cast<double>(random() % 33) - 16) / 16; }
};

void expect_exact(const Trial& trial, std::mt19937& random) {
  Operands operands(trial, Exact{random});
  const std::vector<double> want = operands.reference();
  for (const Variant& variant : variants(trial.in == Dtype::kBFloat16)) {
    Numbers got = operands.run(variant, 1 + static_cast<int>(random() % 3));
    Numbers rounded(trial.out, 1, 0);
    for (int64_t i = 0; i < got.size(); ++i) {
      rounded.set(0, want[static_cast<size_t>(i)]);
      ASSERT_EQ(got.get(i), rounded.get(0)) << variant.name << ": " << trial.text() << " at " << i;
    }
  }
}

constexpr int64_t kSizes[] = {0,   1,   2,   3,   4,   5,   6,   7,   8,    9,   10,
                              12,  13,  15,  16,  17,  23,  24,  25,  31,   32,  33,
                              47,  48,  49,  63,  64,  65,  97,  127, 128,  129, 191,
                              193, 256, 257, 385, 400, 511, 512, 513, 1023, 1025};

Trial draw_trial(std::mt19937& random) {
  const auto size = [&] { return kSizes[random() % std::size(kSizes)]; };
  Trial t;
  do {
    t.count = random() % 4 == 0 ? static_cast<int64_t>(random() % 5) + 1 : 1;
    t.m = size();
    t.n = size();
    t.k = size();
  } while (t.count * t.m * t.n * t.k > (1 << 16) || t.count * (t.m + t.n) * (t.k + 1) > (1 << 16));
  t.a_columns = random() % 2 == 0;
  t.b_columns = random() % 2 == 0;
  t.gap = random() % 2 == 0 ? 0 : static_cast<int64_t>(random() % 9) + 1;
  constexpr Dtype kTypes[] = {Dtype::kFloat32, Dtype::kFloat32, Dtype::kBFloat16, Dtype::kBFloat16,
                              Dtype::kFloat64};
  t.in = kTypes[random() % std::size(kTypes)];
  t.out = t.in == Dtype::kBFloat16 && random() % 3 == 0 ? Dtype::kFloat32 : t.in;
  t.bias = random() % 3 == 0;
  t.accumulate = !t.bias && random() % 3 == 0;
  t.residual = random() % 4 == 0;
  t.relu = random() % 4 == 0;
  return t;
}

TEST(Products, AreExactForThousandsOfShapes) {
  std::mt19937 random(1);
  for (int i = 0; i < 3000 && !HasFatalFailure(); ++i) expect_exact(draw_trial(random), random);
}

// Shapes of each way through the code, and of several blocks of k.
const Trial kTrials[] = {
    {.m = 70, .n = 130, .k = 1100},
    {.m = 70, .n = 130, .k = 1100, .a_columns = true},
    {.m = 70, .n = 600, .k = 600, .a_columns = true},
    {.m = 100, .n = 600, .k = 300},
    {.m = 260, .n = 70, .k = 300, .b_columns = true},
    {.m = 1, .n = 300, .k = 700, .b_columns = true},
    {.m = 1, .n = 300, .k = 700},
    {.m = 300, .n = 1, .k = 700},
    {.m = 300, .n = 1, .k = 700, .a_columns = true},
    {.m = 10, .n = 90, .k = 2100, .b_columns = true},
    {.m = 90, .n = 10, .k = 2100, .b_columns = true},
    {.m = 40, .n = 300, .k = 700, .b_columns = true},
    {.m = 70, .n = 280, .k = 1100, .b_columns = true},
    {.m = 20, .n = 150, .k = 2100, .a_columns = true, .b_columns = true},
    {.count = 3, .m = 9, .n = 70, .k = 130, .a_columns = true, .b_columns = true},
    {.m = 130, .n = 150, .k = 2100},
    {.m = 130, .n = 150, .k = 2100, .a_columns = true, .b_columns = true},
    {.m = 400, .n = 10, .k = 33},
    {.m = 400, .n = 400, .k = 3},
    {.count = 5, .m = 33, .n = 65, .k = 40, .a_columns = true, .b_columns = true},
};

struct Normal {
  std::mt19937& random;
  double operator()() const { return std::normal_distribution<double>()(random); }
};

class EachType : public ::testing::TestWithParam<Dtype> {
 protected:
  static Trial of_type(Trial trial) {
    trial.in = trial.out = GetParam();
    return trial;
  }
};
INSTANTIATE_TEST_SUITE_P(Products, EachType,
                         ::testing::Values(Dtype::kFloat32, Dtype::kFloat64, Dtype::kBFloat16),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(EachType, IsNearTheReference) {
  std::mt19937 random(2);
  const double summing = GetParam() == Dtype::kFloat64 ? 1e-15 : 1e-7;
  const double rounding = GetParam() == Dtype::kBFloat16 ? 4e-3 : summing;
  for (const Trial& shape : kTrials) {
    const Trial trial = of_type(shape);
    Operands operands(trial, Normal{random});
    const std::vector<double> want = operands.reference();
    for (const Variant& variant : variants(GetParam() == Dtype::kBFloat16)) {
      Numbers got = operands.run(variant, 2);
      const double bound = 4 * summing * static_cast<double>(trial.k);
      for (int64_t i = 0; i < got.size(); ++i) {
        const double right = want[static_cast<size_t>(i)];
        ASSERT_NEAR(got.get(i), right, bound + rounding * std::fabs(right))
            << variant.name << ": " << trial.text() << " at " << i;
      }
    }
  }
}

TEST_P(EachType, HasTheSameBitsForAnyThreads) {
  std::mt19937 random(3);
  for (const Trial& shape : kTrials) {
    Operands operands(of_type(shape), Normal{random});
    for (const Variant& variant : variants(GetParam() == Dtype::kBFloat16)) {
      const std::vector<char> one = operands.run(variant, 1).bytes();
      for (const int threads : {2, 3, 7}) {
        EXPECT_EQ(operands.run(variant, threads).bytes(), one)
            << variant.name << ": " << of_type(shape).text() << ", " << threads << " threads";
      }
    }
  }
}

// Of bfloat16 where it is converted.
TEST_P(EachType, HasTheSameBitsForEachInstructionSet) {
  const std::vector<Variant> all = variants(false);
  if (all.size() < 2) GTEST_SKIP() << "this processor, or this build, has one instruction set";
  std::mt19937 random(4);
  for (const Trial& shape : kTrials) {
    Operands operands(of_type(shape), Normal{random});
    EXPECT_EQ(operands.run(all[0], 1).bytes(), operands.run(all[1], 1).bytes())
        << of_type(shape).text();
  }
}

// Equal rows of a and columns of b give equal bits wherever they lie.
TEST_P(EachType, HasTheSameBitsInEveryPlace) {
  std::mt19937 random(5);
  for (const Trial& shape : kTrials) {
    const Trial trial = of_type(shape);
    Operands operands(trial, Normal{random});
    for (int64_t i = 0; i < trial.count; ++i) {
      for (int64_t k = 0; k < trial.k; ++k) {
        const double x = operands.a().get(operands.a_at(0, 0, k));
        const double y = operands.b().get(operands.b_at(0, k, 0));
        for (int64_t r = 0; r < trial.m; ++r) operands.a().set(operands.a_at(i, r, k), x);
        for (int64_t j = 0; j < trial.n; ++j) operands.b().set(operands.b_at(i, k, j), y);
      }
    }
    for (const Variant& variant : variants(GetParam() == Dtype::kBFloat16)) {
      Numbers got = operands.run(variant, 2);
      const double first = got.get(operands.c_at(0, 0, 0));
      for (int64_t i = 0; i < trial.count; ++i) {
        for (int64_t r = 0; r < trial.m; ++r) {
          for (int64_t j = 0; j < trial.n; ++j) {
            ASSERT_EQ(got.get(operands.c_at(i, r, j)), first)
                << variant.name << ": " << trial.text() << " at " << r << ", " << j;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace wick::testing
