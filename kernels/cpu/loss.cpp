#include "wick/kernels/loss.h"

#include "wick/kernels/cpu/exp_sums.h"

namespace wick::WICK_ISA {

namespace {

template <class T>
struct CrossEntropy {
  using L = Accumulator<T>;

  const CrossEntropyRows& v;
  int64_t rows, classes;
  const L* weight;

  explicit CrossEntropy(const CrossEntropyRows& views)
      : v(views),
        rows(views.x.shape[0]),
        classes(views.x.shape[1]),
        weight(views.weight.as<const L>()) {}

  double weight_of(int64_t c) const {
    return weight == nullptr ? 1 : static_cast<double>(weight[c]);
  }
  Vec<L> weights(int64_t i, int64_t n) const {
    return weight == nullptr ? Vec<L>(1) : load_up_to<L>(weight + i, n);
  }
  bool in_range(int64_t target) const { return target >= 0 && target < classes; }

  double row_loss(int64_t r, int64_t target) const {
    const T* x = v.x.as<T>() + r * classes;
    double lse = 0;
    if (!v.is_log) {
      const L max = max_row<L>(x, classes);
      lse = static_cast<double>(max) + __builtin_log(sum_of_exponentials<L>(x, classes, max));
    }
    v.lse.as<double>()[r] = lse;
    if (target == v.ignore_index) return 0;
    if (!in_range(target)) return __builtin_nan("");
    const double nll = lse - static_cast<double>(static_cast<L>(x[target]));
    double loss = (1 - v.smoothing) * weight_of(target) * nll;
    if (v.smoothing > 0) {
      loss += v.smoothing / static_cast<double>(classes) * all_classes(x, lse);
    }
    return loss;
  }

  // The sum over all classes of weight * (lse - x).
  double all_classes(const T* x, double lse) const {
    const L high = static_cast<L>(lse);
    const Vec<L> from(high), low(static_cast<L>(lse - static_cast<double>(high)));
    return sum_row<L>(classes, [&](int64_t i, int64_t n) {
      const Vec<L> x_or_from =
          n == Vec<L>::size ? Vec<L>::load(x + i) : load_filled<L>(x + i, n, high);
      const Vec<L> w = n == Vec<L>::size   ? weights(i, n)
                       : weight == nullptr ? ones_up_to(n)
                                           : load_up_to<L>(weight + i, n);
      return ((from - x_or_from) + low) * w;
    });
  }
  static Vec<L> ones_up_to(int64_t n) {
    alignas(64) L lanes[Vec<L>::size];
    for (int64_t i = 0; i < Vec<L>::size; ++i) lanes[i] = i < n ? 1 : 0;
    return Vec<L>::load(static_cast<const L*>(lanes));
  }

  void forward() const {
    const int64_t* target = v.target.as<int64_t>();
    L* loss = v.loss.as<L>();
    parallel_for(rows, row_grain(classes), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) loss[r] = static_cast<L>(row_loss(r, target[r]));
    });
    // Few weights come again and again, and round the same way each time.
    long double sum = 0, weights_sum = 0;
    double bad = -1;
    for (int64_t r = 0; r < rows; ++r) {
      sum += static_cast<double>(loss[r]);
      if (target[r] == v.ignore_index) continue;
      if (in_range(target[r])) {
        weights_sum += weight_of(target[r]);
      } else if (bad < 0) {
        bad = static_cast<double>(r);
      }
    }
    double* totals = v.totals.as<double>();
    totals[0] = static_cast<double>(sum);
    totals[1] = static_cast<double>(weights_sum);
    totals[2] = static_cast<double>(sum / weights_sum);
    totals[3] = bad;
  }

  // dx = all * exp(x - lse) - each * weight - (at the target) hit
  void row_gradient(int64_t r, int64_t target, double g, double weight_sum, bool stream) const {
    const T* x = v.x.as<T>() + r * classes;
    T* dx = v.dx.as<T>() + r * classes;
    const double own = (1 - v.smoothing) * weight_of(target);
    const double shared = v.smoothing / static_cast<double>(classes);
    const double lse = v.lse.as<double>()[r];
    const L high = static_cast<L>(lse), hit = static_cast<L>(g * own);
    const Vec<L> center(high), low(static_cast<L>(lse - static_cast<double>(high)));
    const Vec<L> all(v.is_log ? 0 : static_cast<L>(g * (own + shared * weight_sum)));
    const Vec<L> each(static_cast<L>(g * shared));
    for_vectors<L>(classes, [&](int64_t i, int64_t n) {
      Vec<L> d(0);
      if (!v.is_log) d = all * exp((load_up_to<L>(x + i, n) - center) - low);
      if (v.smoothing > 0) d -= each * weights(i, n);
      if (target >= i && target < i + n) {
        alignas(64) L lanes[Vec<L>::size];
        d.store(lanes);
        lanes[target - i] -= hit;
        d = Vec<L>::load(static_cast<const L*>(lanes));
      }
      put(d, dx + i, n, stream);
    });
  }

  void backward() const {
    const int64_t* target = v.target.as<int64_t>();
    const L* dy = v.dy.as<L>();
    const bool one = v.dy.numel() == 1;
    double weight_sum = static_cast<double>(classes);
    if (weight != nullptr) {
      weight_sum = sum_row<L>(classes, [&](int64_t i, int64_t n) { return weights(i, n); });
    }
    const bool stream = should_stream(v.dx.as<T>(), rows, classes);
    parallel_for(rows, row_grain(classes), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        if (target[r] == v.ignore_index) {
          for (int64_t i = 0; i < classes; ++i)
            v.dx.as<T>()[r * classes + i] = static_cast<T>(0.0f);
        } else {
          row_gradient(r, target[r], static_cast<double>(dy[one ? 0 : r]), weight_sum, stream);
        }
      }
      if (stream) stream_fence();
    });
  }
};

}  // namespace

void cross_entropy_forward(const CrossEntropyRows& rows, Workspace&) {
  visit_floating(rows.x.dtype, [&]<class T>(Type<T>) { CrossEntropy<T>(rows).forward(); });
}

void cross_entropy_backward(const CrossEntropyRows& rows, Workspace&) {
  visit_floating(rows.x.dtype, [&]<class T>(Type<T>) { CrossEntropy<T>(rows).backward(); });
}

}  // namespace wick::WICK_ISA
