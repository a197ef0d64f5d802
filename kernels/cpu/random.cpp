#include "wick/kernels/random.h"

#include "wick/core/base/parallel.h"
#include "wick/kernels/cpu/philox_lanes.h"
#include "wick/kernels/random_math.h"

namespace wick::WICK_ISA {

namespace {

// Calls make(words, first, out) for each run of elements that one unit of words gives, to write
// them from element `first` on to `out`; the last run goes through a buffer, so that all elements
// are made by the same code.
template <class T, int kWordsPerElement, class Make>
WICK_INLINE void for_each_unit(int64_t n, T* y, RandomKey key, const Make& make) {
  constexpr int64_t kElements = kUnit / kWordsPerElement;
  const auto units = [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t words[kUnit];
    alignas(64) T rest[kElements];
    for (int64_t unit = begin; unit < end; ++unit) {
      make_words(key, unit, words);
      const int64_t first = unit * kElements;
      const bool whole = n - first >= kElements;
      make(words, first, whole ? y + first : rest);
      if (!whole) __builtin_memcpy(y + first, rest, static_cast<size_t>(n - first) * sizeof(T));
    }
  };
  parallel_for((n + kElements - 1) / kElements, 64, units);
}

template <class T>
void uniform(const View& y, RandomKey key, double low, double high) {
  const Scaled<T> scaled(low, high);
  if constexpr (sizeof(T) == 8) {
    for_each_unit<T, 2>(y.numel(), y.as<T>(), key, [=](const uint32_t* words, int64_t, T* out) {
      for (int i = 0; i < kUnit / 2; ++i) {
        out[i] = scaled(unit_double(join_words(words[2 * i + 1], words[2 * i])));
      }
    });
  } else {
    for_each_unit<T, 1>(y.numel(), y.as<T>(), key, [=](const uint32_t* words, int64_t, T* out) {
      for (int i = 0; i < kUnit; ++i) out[i] = scaled(unit_float(words[i], kDigits<T>));
    });
  }
}

template <class T>
void normal(const View& y, RandomKey key, double mean, double stddev) {
  using Real = Accumulator<T>;
  const Real centre = static_cast<Real>(mean), width = static_cast<Real>(stddev);
  if constexpr (sizeof(T) == 8) {
    for_each_unit<T, 2>(y.numel(), y.as<T>(), key, [=](const uint32_t* words, int64_t, T* out) {
      for (int i = 0; i < kUnit; i += 4) {
        const auto two =
            box_muller(join_words(words[i + 1], words[i]), join_words(words[i + 3], words[i + 2]));
        out[i / 2] = fused(two.first, width, centre);
        out[i / 2 + 1] = fused(two.second, width, centre);
      }
    });
  } else {
    for_each_unit<T, 1>(y.numel(), y.as<T>(), key, [=](const uint32_t* words, int64_t, T* out) {
      for (int i = 0; i < kUnit; i += 2) {
        const auto two = box_muller(words[i], words[i + 1]);
        out[i] = T(fused(two.first, width, centre));
        out[i + 1] = T(fused(two.second, width, centre));
      }
    });
  }
}

}  // namespace

void random_uniform(const View& y, RandomKey key, double low, double high) {
  visit_floating(y.dtype, [&]<class T>(Type<T>) { uniform<T>(y, key, low, high); });
}

void random_normal(const View& y, RandomKey key, double mean, double stddev) {
  visit_floating(y.dtype, [&]<class T>(Type<T>) { normal<T>(y, key, mean, stddev); });
}

void random_integers(const View& y, RandomKey key, int64_t low, uint64_t range) {
  for_each_unit<int64_t, 2>(
      y.numel(), y.as<int64_t>(), key, [=](const uint32_t* words, int64_t, int64_t* out) {
        for (int i = 0; i < kUnit / 2; ++i) {
          out[i] = integer_from(join_words(words[2 * i + 1], words[2 * i]), low, range);
        }
      });
}

void random_bernoulli(const View& p, const View& y, RandomKey key) {
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    const int64_t n = y.numel();
    const T* chance = p.as<const T>();
    for_each_unit<T, 1>(n, y.as<T>(), key, [=](const uint32_t* words, int64_t first, T* out) {
      const int64_t some = n - first < kUnit ? n - first : kUnit;
      for (int64_t i = 0; i < some; ++i) {
        out[i] = T(happens(words[i], static_cast<double>(chance[first + i])) ? 1.0f : 0.0f);
      }
    });
  });
}

void dropout(const View& x, const View& y, RandomKey key, double p) {
  visit_floating(y.dtype, [&]<class T>(Type<T>) {
    using Real = Accumulator<T>;
    const int64_t n = y.numel();
    const T* from = x.as<const T>();
    const Real scale = static_cast<Real>(1 / (1 - p));
    const uint32_t limit = words_of_events(p);
    for_each_unit<T, 1>(n, y.as<T>(), key, [=](const uint32_t* words, int64_t first, T* out) {
      const int64_t some = n - first < kUnit ? n - first : kUnit;
      for (int64_t i = 0; i < some; ++i) {
        const Real scaled = static_cast<Real>(from[first + i]) * scale;
        out[i] = words[i] < limit ? T(Real{0}) : T(scaled);
      }
    });
  });
}

}  // namespace wick::WICK_ISA
